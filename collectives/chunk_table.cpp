#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/chunk_table.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Chunk i of a buffer of `count` elements cut into `chunks`: the first count % chunks ones are an element longer.
ChunkTable::Extent even_cut(std::uint64_t count, std::uint64_t chunks, std::uint64_t i) {
  const std::uint64_t base = count / chunks;
  const std::uint64_t longer = count % chunks;
  return {i * base + std::min(i, longer), base + (i < longer ? 1 : 0)};
}

/// Elements of a chunk of class c. One cut of the whole buffer where classes are chunk indices; else all equal.
ChunkTable::Extent by_class(const CollectiveDesc& d, std::uint32_t c, std::uint64_t chunks) {
  switch (d.collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce: return even_cut(d.count, chunks, c);
    case Collective::AllGather:
    case Collective::Gather:
    case Collective::ReduceScatter:
    case Collective::Scatter:
    case Collective::AllToAll: return {c * d.count, d.count};
    default: return {};
  }
}

void append(std::vector<ChunkTable::Extent>& row, std::uint64_t& next, std::uint64_t count) {
  row.push_back({next, count});
  next += count;
}

}  // namespace

ChunkTable chunk_table(const CollectiveDesc& desc, const Program& program) {
  if (!desc.counts.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: counts that differ between ranks need a chunk table of the call", desc.to_string()));
  }
  const std::uint64_t chunks = std::max(program.in_class.size(), program.out_class.size());
  ChunkTable table;
  std::uint64_t next = 0;
  for (const std::uint32_t c : program.in_class) append(table.in, next, by_class(desc, c, chunks).count);
  next = 0;
  for (const std::uint32_t c : program.out_class) append(table.out, next, by_class(desc, c, chunks).count);
  next = 0;
  for (const std::uint32_t c : program.scratch_class) append(table.scratch, next, by_class(desc, c, chunks).count);
  for (const auto* row : {&table.in, &table.out, &table.scratch}) {
    for (const auto& extent : *row) table.largest = std::max(table.largest, extent.count);
  }
  return table;
}

}  // namespace sinew

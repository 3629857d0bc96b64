#include <algorithm>
#include <utility>

#include <sinew/collectives/schedule/chunk_table.hpp>

namespace sinew {
namespace {

/// Chunk i of a buffer of `count` elements cut into `chunks` at multiples of `unit`: the first ones are a unit longer
/// where it does not come out even, and the last unit may be shorter.
ChunkTable::Extent even_cut(std::uint64_t count, std::uint64_t chunks, std::uint64_t i, std::uint64_t unit) {
  const std::uint64_t units = (count + unit - 1) / unit;
  const std::uint64_t base = units / chunks;
  const std::uint64_t longer = units % chunks;
  const std::uint64_t first = std::min((i * base + std::min(i, longer)) * unit, count);
  return {first, std::min((base + (i < longer ? 1 : 0)) * unit, count - first)};
}

/// Elements of a chunk of class c. One cut of the whole buffer where classes are chunk indices; else all equal.
ChunkTable::Extent by_class(const CollectiveDesc& d, std::uint32_t c, std::uint64_t chunks) {
  switch (d.collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce: return even_cut(d.count, chunks, c, cut_unit(d.codec));
    case Collective::AllGather:
    case Collective::Gather:
    case Collective::ReduceScatter:
    case Collective::Scatter:
    case Collective::AllToAll: return {c * d.count, d.count};
    case Collective::AllGatherV:
    case Collective::ReduceScatterV: return {0, d.counts[c]};
    default: return {};
  }
}

void append(std::vector<ChunkTable::Extent>& row, std::uint64_t& next, std::uint64_t count) {
  row.push_back({next, count});
  next += count;
}

}  // namespace

ChunkTable chunk_table(const CollectiveDesc& desc, const Program& program) {
  const std::uint64_t chunks = std::max(program.in_class.size(), program.out_class.size());
  ChunkTable table;
  std::uint64_t next = 0;
  for (const std::uint32_t c : program.in_class) append(table.in, next, by_class(desc, c, chunks).count);
  next = 0;
  for (const std::uint32_t c : program.out_class) append(table.out, next, by_class(desc, c, chunks).count);
  next = 0;
  for (const std::uint32_t c : program.scratch_class)
    append(table.scratch, next, by_class(desc, c & ~kCoded, chunks).count);
  if (desc.collective == Collective::AllGatherV) lay_out({desc.counts, desc.displacements}, table.out);
  if (desc.collective == Collective::ReduceScatterV) lay_out({desc.counts, desc.displacements}, table.in);
  for (const auto* row : {&table.in, &table.out, &table.scratch}) {
    for (const auto& extent : *row) table.largest = std::max(table.largest, extent.count);
  }
  return table;
}

void lay_out(const Parts& parts, std::vector<ChunkTable::Extent>& row) {
  row.clear();
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < parts.counts.size(); ++i) {
    if (!parts.displacements.empty()) next = parts.counts[i] > 0 ? parts.displacements[i] : 0;
    append(row, next, parts.counts[i]);
  }
}

std::vector<Slice> find_scratch_models(const Program& program) {
  std::vector<Slice> models;
  const auto model_of = [&](std::uint32_t c) -> Slice {
    for (const auto& [space, classes] :
         {std::pair(Space::In, &program.in_class), std::pair(Space::Out, &program.out_class)}) {
      const auto found = std::ranges::find(*classes, c);
      if (found != classes->end()) return {space, static_cast<std::uint32_t>(found - classes->begin()), 1};
    }
    return {};
  };
  for (const std::uint32_t c : program.scratch_class) models.push_back(model_of(c));
  return models;
}

void lay_out_scratch(const std::vector<Slice>& models, ChunkTable& table) {
  table.scratch.clear();
  std::uint64_t next = 0;
  for (const Slice& model : models) {
    const std::vector<ChunkTable::Extent>& row = model.space == Space::In ? table.in : table.out;
    append(table.scratch, next, model.count == 0 ? 0 : row[model.first].count);
  }
}

}  // namespace sinew

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/files/file.hpp>
#include <sinew/parallel/checkpoint/files/rank_file.hpp>
#include <sinew/parallel/checkpoint/files/safetensors.hpp>
#include <sinew/parallel/checkpoint/index/crc32.hpp>

namespace sinew::parallel {
namespace {

struct Placed {
  const CheckpointItem* item;
  StoredPart* part;
};

/// The parts of a file, in the order of their offsets.
std::vector<Placed> parts_in(CheckpointIndex& index, std::int32_t file) {
  std::vector<Placed> placed;
  for (StoredItem& stored : index.items) {
    for (StoredPart& part : stored.parts) {
      if (part.file == file) placed.push_back({&stored.item, &part});
    }
  }
  std::ranges::stable_sort(placed, {}, [](const Placed& p) { return p.part->offset; });
  return placed;
}

/// The bytes of a piece within the buffer of a part. nullopt if the part does not have the piece.
std::optional<ConstBuffer> piece_in(const CheckpointPart& part, const Extent& piece) {
  if (normal_extent(part.item, part.extent) == piece) return part.buffer;
  const std::int64_t first = runs_of(part.item, piece).front().first;
  for (const ElementRun& run : runs_of(part.item, part.extent)) {
    if (first < run.first || first >= run.last) continue;
    const std::size_t element = size_of(part.item.dtype);
    return part.buffer.part(static_cast<std::size_t>(run.at + first - run.first) * element,
                            static_cast<std::size_t>(piece.elements()) * element);
  }
  return std::nullopt;
}

}  // namespace

RankFile file_of_rank(const CheckpointIndex& plan, int rank, std::span<const CheckpointPart> parts) {
  const auto found = std::ranges::find(plan.files, rank, &StoredFile::rank);
  if (found == plan.files.end()) return {};
  RankFile file{.file = static_cast<std::int32_t>(found - plan.files.begin()), .pieces = {}};
  std::map<std::string_view, std::vector<const CheckpointPart*>> by_name;
  for (const CheckpointPart& p : parts) by_name[p.item.name].push_back(&p);
  CheckpointIndex copy = plan;
  for (const Placed& placed : parts_in(copy, file.file)) {
    for (const CheckpointPart* part : by_name.at(placed.item->name)) {
      const std::optional<ConstBuffer> piece = piece_in(*part, placed.part->extent);
      if (!piece) continue;
      file.pieces.push_back(*piece);
      break;
    }
  }
  return file;
}

std::vector<std::uint64_t> write_file(const CheckpointIndex& plan, const RankFile& file, const std::string& folder,
                                      const std::atomic<bool>* stop) {
  if (file.file < 0) return {};
  const std::string header = safetensors_header(plan, file.file);
  std::vector<std::uint64_t> report{header.size(), crc32(std::as_bytes(std::span(header)))};
  NewFile out(folder + "/" + plan.files[static_cast<std::size_t>(file.file)].name);
  out.write(header);
  for (const ConstBuffer& piece : file.pieces) {
    for (std::size_t at = 0; at < piece.bytes; at += kBlockBytes) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) throw Error(Code::Aborted, "the save was given up");
      const std::span block(piece.data + at, std::min<std::size_t>(kBlockBytes, piece.bytes - at));
      report.push_back(crc32(block));
      out.write(block);
    }
  }
  out.finish();
  return report;
}

std::vector<std::uint64_t> report_sizes(const CheckpointIndex& plan) {
  std::vector<std::uint64_t> of_files(plan.files.size(), 2);
  for (const StoredItem& stored : plan.items) {
    for (const StoredPart& part : stored.parts)
      of_files[static_cast<std::size_t>(part.file)] += blocks_of(bytes_of(stored.item, part.extent));
  }
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(plan.ranks), 0);
  for (std::size_t f = 0; f < of_files.size(); ++f) sizes[static_cast<std::size_t>(plan.files[f].rank)] = of_files[f];
  return sizes;
}

void complete(CheckpointIndex& plan, const std::vector<std::vector<std::uint64_t>>& of_ranks) {
  for (std::int32_t f = 0; f < std::ssize(plan.files); ++f) {
    StoredFile& file = plan.files[static_cast<std::size_t>(f)];
    const std::vector<std::uint64_t>& report = of_ranks[static_cast<std::size_t>(file.rank)];
    file.header_bytes = report[0];
    file.header_crc = static_cast<std::uint32_t>(report[1]);
    std::size_t next = 2;
    for (const Placed& placed : parts_in(plan, f)) {
      for (std::uint64_t b = blocks_of(bytes_of(*placed.item, placed.part->extent)); b > 0; --b)
        placed.part->crcs.push_back(static_cast<std::uint32_t>(report[next++]));
    }
  }
}

}  // namespace sinew::parallel

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// The file that one rank writes: its parts, in order.
struct RankFile {
  std::int32_t file = -1;           ///< its number in the index; -1: this rank writes no file
  std::vector<ConstBuffer> pieces;  ///< in the order of their offsets
};

/// The parts, out of `parts`, that this rank writes according to plan_save.
RankFile file_of_rank(const CheckpointIndex& plan, int rank, std::span<const CheckpointPart> parts);

/// Writes the file into the folder. Returns what goes into the index: the bytes and the checksum of the header, then
/// the checksums of the blocks of all parts.
/// stop: when it becomes true, the rest is not written. null: nobody stops it.
/// Errors: System; Aborted if it was stopped.
std::vector<std::uint64_t> write_file(const CheckpointIndex& plan, const RankFile& file, const std::string& folder,
                                      const std::atomic<bool>* stop = nullptr);

/// Returns, by rank, the count of numbers that write_file returns there.
std::vector<std::uint64_t> report_sizes(const CheckpointIndex& plan);

/// Puts into the index what write_file returned on each rank.
void complete(CheckpointIndex& plan, const std::vector<std::vector<std::uint64_t>>& of_ranks);

}  // namespace sinew::parallel

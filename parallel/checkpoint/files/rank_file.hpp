#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// What one rank writes: its file's parts, in order.
struct RankFile {
  std::int32_t file = -1;           ///< of the index; -1: this rank writes none
  std::vector<ConstBuffer> pieces;  ///< in the order of their offsets
};

/// Which of `parts` this rank writes, after plan_save.
RankFile file_of_rank(const CheckpointIndex& plan, int rank, std::span<const CheckpointPart> parts);

/// Writes the file into the folder. Returns what goes into the index: the header's bytes and checksum, then the
/// checksums of all pieces' blocks.
/// Errors: System.
std::vector<std::uint64_t> write_file(const CheckpointIndex& plan, const RankFile& file, const std::string& folder);

/// Puts what write_file has returned on each rank into the index.
void complete(CheckpointIndex& plan, const std::vector<std::vector<std::uint64_t>>& of_ranks);

}  // namespace sinew::parallel

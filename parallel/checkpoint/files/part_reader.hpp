#pragma once

#include <map>
#include <string>
#include <vector>

#include <sinew/parallel/checkpoint/files/file.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// Reads parts of items from the files of a checkpoint, and checks every byte that it reads.
/// Errors: InvalidArgument naming the file and the item if a file's length, header or block differs from the index.
///         System if a file cannot be read.
class PartReader {
 public:
  /// Lifetime: the index outlives the reader.
  PartReader(std::string folder, const CheckpointIndex& index);

  /// stored: the item of that name in the index, with the same shape and element type.
  void read(const StoredItem& stored, const CheckpointPart& wanted);

 private:
  const StoredBytes& file(std::int32_t number);
  void load_block(const StoredItem& stored, const StoredPart& part, std::uint64_t block);

  std::string folder_;
  const CheckpointIndex* index_;
  std::map<std::int32_t, StoredBytes> files_;
  std::vector<std::byte> block_;
  const StoredPart* part_ = nullptr;  // whose block that is
  std::uint64_t number_ = 0;
};

}  // namespace sinew::parallel

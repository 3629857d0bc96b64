#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>

namespace sinew::parallel {

/// What a checkpoint says of the training that it is of; every rank passes the same.
struct CheckpointMetadata {
  std::int64_t step = 0;
  std::int64_t optimizer_steps = 0;  ///< updates so far, which may be fewer than steps
  std::uint64_t seed = 0;
  std::int64_t data_position = 0;  ///< in units of the caller's own
  std::string layout;              ///< as people read it: "dp 4, zero3"
  std::string configuration;       ///< the caller's text
  friend bool operator==(const CheckpointMetadata&, const CheckpointMetadata&) = default;
};

/// Each block of a part has a checksum; the last one is shorter.
inline constexpr std::uint64_t kBlockBytes = 4U << 20;

struct StoredPart {
  Extent extent;
  std::int32_t file = 0;
  std::uint64_t offset = 0;         ///< from the first byte behind the file's header
  std::vector<std::uint32_t> crcs;  ///< of its blocks
};

struct StoredItem {
  CheckpointItem item;
  std::vector<StoredPart> parts;  ///< every element of the item is in exactly one
};

struct StoredFile {
  std::string name;
  std::int32_t rank = 0;           ///< that wrote it
  std::uint64_t header_bytes = 0;  ///< with the eight of its length
  std::uint64_t data_bytes = 0;
  std::uint32_t header_crc = 0;
};

/// What is where in a checkpoint: index.json.
struct CheckpointIndex {
  CheckpointMetadata metadata;
  std::int32_t ranks = 0;  ///< that saved it
  std::vector<StoredFile> files;
  std::vector<StoredItem> items;  ///< by name
};

/// Bytes of this part; how many blocks they are.
std::uint64_t bytes_of(const CheckpointItem& item, const Extent& extent) noexcept;
std::uint64_t blocks_of(std::uint64_t bytes) noexcept;

/// JSON whose last member is the CRC-32 of all bytes before that.
std::string to_text(const CheckpointIndex& index);

/// Errors: InvalidArgument beginning with `file`: cut or changed text, another format or version, and what cannot be:
///         a part outside its item or its file, an element in no part or in two, a wrong number of checksums.
SINEW_API CheckpointIndex index_from_text(std::string_view text, std::string_view file);

/// The same without the checksum of the text.
SINEW_API CheckpointIndex index_from_json(std::string_view json, std::string_view file);

/// Parts that a rank tells the others about, without their buffers.
struct PartDescription {
  CheckpointItem item;
  Extent extent;
};
std::string to_text(const std::vector<PartDescription>& parts);
std::vector<PartDescription> descriptions_from_text(std::string_view text);

}  // namespace sinew::parallel

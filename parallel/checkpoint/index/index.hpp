#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/optim/update_rule/loss_scaling.hpp>
#include <sinew/parallel/sampler/sampler_state.hpp>

namespace sinew::parallel {

/// A checkpoint's record of its training. Every rank passes the same.
struct CheckpointMetadata {
  std::int64_t step = 0;
  std::int64_t optimizer_steps = 0;  ///< updates so far, which may be fewer than steps
  std::uint64_t seed = 0;
  std::int64_t data_position = 0;  ///< in the caller's own units
  std::string layout{};            ///< for people: "dp 4, zero3"
  std::string configuration{};     ///< the caller's own text
  /// The state of the LossScaler. {}: the training has none, or the checkpoint is older than this member.
  std::optional<LossScaleState> loss_scale{};
  /// The state of the DistributedSampler. {}: as above.
  std::optional<SamplerState> sampler{};
  friend bool operator==(const CheckpointMetadata&, const CheckpointMetadata&) = default;
};

/// The bytes of a block. Each block of a part has a checksum. The last block may be shorter.
inline constexpr std::uint64_t kBlockBytes = 4U << 20;

/// A part of an item, and where it is in a file.
struct StoredPart {
  Extent extent{};
  std::int32_t file = 0;
  std::uint64_t offset = 0;           ///< from the first byte after the file's header
  std::vector<std::uint32_t> crcs{};  ///< of its blocks
};

/// An item, and where its parts are.
struct StoredItem {
  CheckpointItem item{};
  std::vector<StoredPart> parts{};  ///< every element of the item is in exactly one of them
};

/// A file of the checkpoint.
struct StoredFile {
  std::string name{};
  std::int32_t rank = 0;           ///< the rank that wrote the file
  std::uint64_t header_bytes = 0;  ///< with the eight bytes of its length
  std::uint64_t data_bytes = 0;
  std::uint32_t header_crc = 0;
};

/// Where everything is in a checkpoint: the content of index.json.
struct CheckpointIndex {
  CheckpointMetadata metadata{};
  std::int32_t ranks = 0;  ///< the number of ranks that saved the checkpoint
  std::vector<StoredFile> files{};
  std::vector<StoredItem> items{};  ///< by name
};

/// bytes_of(): the bytes of this part. blocks_of(): how many blocks these bytes are.
std::uint64_t bytes_of(const CheckpointItem& item, const Extent& extent) noexcept;
std::uint64_t blocks_of(std::uint64_t bytes) noexcept;

/// JSON whose last member is the CRC-32 of all bytes before it.
std::string to_text(const CheckpointIndex& index);

/// Reads what to_text() writes.
/// Errors: InvalidArgument that begins with `file`, for a text that is cut or changed, and for another format or
///         version. Also for content that cannot be: a part outside its item or its file, an element in no part or in
///         two, or a wrong number of checksums.
SINEW_API CheckpointIndex index_from_text(std::string_view text, std::string_view file);

/// As index_from_text, for a text without its checksum.
SINEW_API CheckpointIndex index_from_json(std::string_view json, std::string_view file);

/// A part without its buffer, as ranks describe it to each other.
struct PartDescription {
  CheckpointItem item{};
  Extent extent{};
  friend bool operator==(const PartDescription&, const PartDescription&) = default;
};
std::string to_text(const std::vector<PartDescription>& parts);
std::vector<PartDescription> descriptions_from_text(std::string_view text);

}  // namespace sinew::parallel

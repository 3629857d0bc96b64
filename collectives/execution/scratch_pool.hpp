#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Memory for what calls hold beside their buffers, given back when they end and taken by the next ones, whatever
/// their plan. Thread: one at a time.
class SINEW_API ScratchPool {
 public:
  /// Kept at most while nobody has it; the longest unused goes first.
  static constexpr std::uint64_t kKeptBytes = 512 << 10;

  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t bytes = 0;
  };

  /// At least so many bytes, of any content. Cost: allocates only where no kept block is large enough.
  Block take(std::uint64_t bytes);
  void give(Block block) noexcept;

  /// What is kept.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<Block> kept_;  // the longest unused first
  std::uint64_t bytes_ = 0;
};

}  // namespace sinew

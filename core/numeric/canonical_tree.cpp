#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/numeric/canonical_tree.hpp>

namespace sinew {
namespace {

constexpr std::size_t kPieceBytes = 2048;
constexpr int kMostLevels = 16;

/// Part of a source, or a partial sum.
struct Operand {
  const std::byte* data = nullptr;
  int slot = -1;  ///< of a partial sum
};

/// Partial sums of one piece, as a stack: a tree visited from left to right has one at most for each level above.
class PartialSums {
 public:
  /// Where the sum of two goes: onto the lower of them, else onto a free slot.
  int slot_for(Operand left, Operand right) noexcept {
    if (left.slot >= 0 && right.slot >= 0) --used_;
    if (left.slot >= 0) return left.slot;
    return right.slot >= 0 ? right.slot : used_++;
  }
  std::byte* operator[](int slot) noexcept { return bytes_.data() + static_cast<std::size_t>(slot) * kPieceBytes; }

 private:
  alignas(kCacheLine) std::array<std::byte, kPieceBytes * kMostLevels> bytes_;
  int used_ = 0;
};

}  // namespace

void reduce_by_tree(const Reducer& reduce, void* dst, std::span<const void* const> sources,
                    std::size_t bytes) noexcept {
  const int count = static_cast<int>(sources.size());
  assert(count > 0 && count <= 1 << kMostLevels);
  auto* const to = static_cast<std::byte*>(dst);
  if (count == 1) {
    if (to != sources[0] && bytes > 0) std::memmove(to, sources[0], bytes);
    return;
  }
  const std::size_t step = kPieceBytes / reduce.element_bytes * reduce.element_bytes;
  for (std::size_t from = 0; from < bytes; from += step) {
    const std::size_t length = std::min(step, bytes - from);
    PartialSums sums;
    int left_to_do = count - 1;
    const auto leaf = [&](int i) {
      return Operand{static_cast<const std::byte*>(sources[static_cast<std::size_t>(i)]) + from};
    };
    over_canonical_tree(0, count, leaf, [&](Operand left, Operand right) {
      const bool root = --left_to_do == 0;  // by now no source is needed any more, so dst may be one
      const int slot = root ? -1 : sums.slot_for(left, right);
      std::byte* const sum = root ? to + from : sums[slot];
      reduce(sum, left.data, right.data, length);
      return Operand{sum, slot};
    });
  }
}

}  // namespace sinew

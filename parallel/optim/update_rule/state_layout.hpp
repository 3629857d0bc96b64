#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include <sinew/core/dtype.hpp>
#include <sinew/parallel/optim/update_rule/options.hpp>

namespace sinew::parallel {

/// Where the optimizer's state of each part lies. The states lie one after the other.
class StateLayout {
 public:
  explicit StateLayout(const SgdOptions& options) : words_(options.momentum > 0 ? 1 : 0) {}
  explicit StateLayout(const AdamOptions&) : words_(2) {}

  /// Adds the state of so many elements and returns its offset. For a dtype of 16 bits, the state begins with the
  /// values in f32. The momentum of SGD, or the moments of Adam, follow.
  std::size_t add(DType dtype, std::int64_t elements) {
    const std::size_t word = dtype == DType::F64 ? sizeof(double) : sizeof(float);
    const std::size_t offset = (bytes_ + word - 1) / word * word;
    bytes_ = offset + static_cast<std::size_t>(elements) * (words_ + (size_of(dtype) == 2 ? 1 : 0)) * word;
    return offset;
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t words_, bytes_ = 0;
};

}  // namespace sinew::parallel

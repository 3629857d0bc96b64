#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include <sinew/core/dtype.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sinew::parallel {

/// Where an optimizer's state of each part lies, one after the other.
class StateLayout {
 public:
  explicit StateLayout(const SgdOptions& options) : words_(options.momentum > 0 ? 1 : 0) {}
  explicit StateLayout(const AdamOptions&) : words_(2) {}

  /// The offset of so many elements more: their values in f32 where they have 16 bits, then what each step keeps.
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

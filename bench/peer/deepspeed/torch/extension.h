#pragma once

#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The parts of PyTorch that DeepSpeed's csrc/cpu/comm/shm.cpp uses: the address and the dtype of a tensor, and two
// 16-bit floats. So the module needs no installation of PyTorch.
namespace c10 {

enum class ScalarType : std::uint8_t { BFloat16, Half, Float };

}  // namespace c10

namespace at {

struct BFloat16 {
  std::uint16_t bits;

  operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  BFloat16& operator=(float value) {
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    bits = value != value ? 0x7fc0 : static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    return *this;
  }
};

using Half = _Float16;

}  // namespace at

namespace torch {

class Tensor {
 public:
  Tensor(void* data, c10::ScalarType type) : data_(data), type_(type) {}
  void* data_ptr() const { return data_; }
  c10::ScalarType scalar_type() const { return type_; }

 private:
  void* data_;
  c10::ScalarType type_;
};

}  // namespace torch

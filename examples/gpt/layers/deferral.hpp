#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace gpt {

/// Gradients of weights that are made after those of inputs have gone on: what they are made of, and how.
/// Source: Qi et al., Zero bubble pipeline parallelism, arXiv 2401.10241.
template <class T>
class Deferral {
 public:
  explicit Deferral(std::span<T> room) noexcept : room_(room) {}

  /// A copy of values that are written over before it runs. There is room for as much as was reckoned with.
  const T* keep(const T* values, std::int64_t count) {
    T* to = room_.data() + used_;
    used_ += static_cast<std::size_t>(count);
    std::copy_n(values, count, to);
    return to;
  }
  void add(std::function<void()> make) { calls_.push_back(std::move(make)); }
  /// In the order in which they were added.
  void run() {
    for (const auto& make : calls_) make();
    calls_.clear();
    used_ = 0;
  }

 private:
  std::span<T> room_;
  std::size_t used_ = 0;
  std::vector<std::function<void()>> calls_;
};

}  // namespace gpt

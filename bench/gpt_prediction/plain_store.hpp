#pragma once

#include <cstddef>
#include <cstdint>
#include <gpt/model/store.hpp>
#include <gpt/parameters.hpp>
#include <vector>

/// Parameters and gradients of a whole model in memory, always there: what a model computes with, without any ranks.
class PlainStore final : public gpt::Store {
 public:
  PlainStore(const gpt::Shape& shape, sinew::DType parameter, sinew::DType gradient, std::uint64_t seed) {
    for (const gpt::ParameterInfo& info : gpt::parameters(shape)) {
      const auto n = static_cast<std::size_t>(info.elements());
      values_.emplace_back(n * size_of(parameter));
      gradients_.emplace_back(n * size_of(gradient));
      initialise(info, seed, 0, info.elements(), parameter, {values_.back().data(), values_.back().size()});
    }
  }
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}
  void after_backward(int) override {}
  sinew::Buffer parameter(int p) override { return buffer(values_, p); }
  sinew::Buffer gradient(int p) override { return buffer(gradients_, p); }
  void gradient_ready(int) override {}

 private:
  static sinew::Buffer buffer(std::vector<std::vector<std::byte>>& of, int p) {
    std::vector<std::byte>& bytes = of[static_cast<std::size_t>(p)];
    return {bytes.data(), bytes.size()};
  }

  std::vector<std::vector<std::byte>> values_, gradients_;
};

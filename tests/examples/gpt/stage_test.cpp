#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <gpt/model/model.hpp>
#include <gpt/parameters.hpp>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/common/keyed_random.hpp>

namespace gpt {
namespace {

using sinew::DType;
using sinew::parallel::Recompute;

constexpr ModelOptions kOptions{Recompute::None, {DType::F64, DType::F64, DType::F64}, 1};
constexpr Shape kMixed{.layers = 4,
                       .heads = 4,
                       .width = 12,
                       .context = 7,
                       .key_value_heads = 2,
                       .mamba_every = 3,
                       .sinks = true,
                       .dropout = 0.1,
                       .document_end = -1};
constexpr int kStageCount = 2, kMicroBatches = 3;

/// All parameters and gradients, there at any time.
class PlainStore final : public Store {
 public:
  explicit PlainStore(const Shape& shape) : infos_(parameters(shape)) {
    for (const ParameterInfo& info : infos_) {
      values_.emplace_back(static_cast<std::size_t>(info.elements()) * sizeof(double));
      gradients_.emplace_back(values_.back().size());
      initialise(info, 3, 0, info.elements(), DType::F64, {values_.back().data(), values_.back().size()});
    }
  }
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}
  void after_backward(int) override {}
  sinew::Buffer parameter(int p) override { return of(values_, p); }
  sinew::Buffer gradient(int p) override { return of(gradients_, p); }
  void gradient_ready(int) override {}

  std::string path(std::size_t p) const { return infos_[p].path; }
  const std::vector<std::vector<std::byte>>& gradients() const noexcept { return gradients_; }

 private:
  static sinew::Buffer of(std::vector<std::vector<std::byte>>& all, int p) {
    auto& one = all[static_cast<std::size_t>(p)];
    return {one.data(), one.size()};
  }

  std::vector<ParameterInfo> infos_;
  std::vector<std::vector<std::byte>> values_, gradients_;
};

std::vector<std::uint8_t> micro_batch(int number) {
  const sinew::parallel::KeyedRandom random(1, "text " + std::to_string(number));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kStageCount * (kMixed.context + 1)));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.below(i, 256));
  return bytes;
}

/// The gradients of all micro-batches by one stage, one micro-batch after the other.
struct Whole {
  PlainStore store{kMixed};
  double loss = 0;

  Whole() {
    const auto blas = make_blas("host", 1);
    Model model(kMixed, kOptions, *blas);
    for (int m = 0; m < kMicroBatches; ++m) {
      loss += model.forward(store, micro_batch(m), kStageCount, {5, m * kStageCount}).sum;
      model.backward(store, 1);
    }
  }
};

/// All micro-batches go forward, then all go back, the last one first; stages hand on what they make.
class Stages : public ::testing::TestWithParam<bool> {};

TEST_P(Stages, MakeWhatTheWholeModelMakes) {
  const bool defers = GetParam();
  const Whole whole;
  const auto blas = make_blas("host", 1);
  std::vector<StagePart> parts{{0, 1, true, false}, {1, 3, false, false}, {3, 4, false, true}};
  for (StagePart& part : parts) part.micro_batches = kMicroBatches, part.defers = defers;
  Model model(kMixed, kOptions, *blas, {}, parts);
  PlainStore store(kMixed);
  const std::size_t bytes = Model::boundary_bytes(kMixed, {}, kOptions, kStageCount);
  std::vector<std::byte> in(bytes), out(bytes);
  double loss = 0;
  for (int m = 0; m < kMicroBatches; ++m) {
    for (int stage = 0; stage < 3; ++stage) {
      loss += model
                  .forward(store, {stage, m}, micro_batch(m), kStageCount, {5, m * kStageCount}, {in.data(), bytes},
                           {out.data(), bytes})
                  .sum;
      std::swap(in, out);
    }
  }
  EXPECT_NEAR(loss / whole.loss, 1, 1e-14);
  for (int m = kMicroBatches; m-- > 0;) {
    for (int stage = 3; stage-- > 0;) {
      const StageCall call{stage, m};
      if (defers) {
        model.backward_input(store, call, 1, {in.data(), bytes}, {out.data(), bytes});
      } else {
        model.backward(store, call, 1, {in.data(), bytes}, {out.data(), bytes});
      }
      std::swap(in, out);
    }
  }
  for (int stage = 0; defers && stage < 3; ++stage) {
    for (int m = 0; m < kMicroBatches; ++m) model.backward_weights({stage, m});
  }
  for (std::size_t p = 0; p < store.gradients().size(); ++p) {
    const std::vector<std::byte>&a = store.gradients()[p], &b = whole.store.gradients()[p];
    double off = 0, most = 0;
    for (std::size_t k = 0; k < a.size(); k += sizeof(double)) {
      double x, y;
      std::memcpy(&x, a.data() + k, sizeof x);
      std::memcpy(&y, b.data() + k, sizeof y);
      off = std::max(off, std::abs(x - y));
      most = std::max(most, std::abs(y));
    }
    EXPECT_GT(most, 0) << store.path(p);
    EXPECT_LT(off, 1e-13 * most) << store.path(p);
  }
  EXPECT_EQ(model.held_bytes(), Model::activation_bytes(kMixed, {}, kOptions, kStageCount, parts));
}

INSTANTIATE_TEST_SUITE_P(Gpt, Stages, ::testing::Bool());

}  // namespace
}  // namespace gpt

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gpt/model/model.hpp>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/keyed_random.hpp>

#include "strict_store.hpp"

namespace gpt {
namespace {

using sinew::DType;
using sinew::parallel::Precision;
using sinew::parallel::Recompute;
using test::StrictStore;

constexpr Precision kF64{DType::F64, DType::F64, DType::F64};
constexpr Precision kF32{};
constexpr Precision kBf16{DType::BF16, DType::F32, DType::F32};
constexpr Precision kNaive{DType::BF16, DType::BF16, DType::BF16};
constexpr Shape kSmall{.layers = 2, .heads = 3, .width = 12, .context = 7};
constexpr Shape kScans{.layers = 2, .heads = 3, .width = 12, .context = 7, .mamba_every = 2, .dropout = 0.1};
constexpr int kCount = 3;

std::vector<std::uint8_t> some_bytes(const Shape& shape, int count, const char* name = "text") {
  const sinew::parallel::KeyedRandom random(1, name);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.context + 1));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.below(i, 256));
  return bytes;
}

/// A model, its store and what it reads.
struct Case {
  explicit Case(const Precision& precision, Recompute recompute = Recompute::None, const Shape& of = kSmall)
      : shape(of),
        blas(make_blas("host", 1)),
        store(of, precision.parameter, precision.gradient, 5),
        model(of, {recompute, precision}, *blas),
        bytes(some_bytes(of, kCount)) {
    // Vectors start as zeros and ones, which hides mistakes in what multiplies them, as small weights of scans do.
    const sinew::parallel::KeyedRandom random(9, "off");
    std::uint64_t number = 0;
    for (std::size_t p = 0; p < store.infos().size(); ++p) {
      const std::string& path = store.infos()[p].path;
      const bool is_small = path.find("norm") != std::string::npos || path.find("scan") != std::string::npos;
      if (path.ends_with("weight") && !is_small) continue;
      for (std::size_t k = 0; k < static_cast<std::size_t>(store.infos()[p].elements()); ++k) {
        const double off = 0.1 * random.normal(number++);
        if (precision.parameter == DType::F64) store.value<double>(p, k) += off;
        if (precision.parameter == DType::F32) store.value<float>(p, k) += static_cast<float>(off);
      }
    }
  }

  double loss() {
    const double sum = model.forward(store, bytes, kCount).sum;
    model.backward(store, 0);
    return sum + of_routers();
  }
  double step(double scale = 1) {
    store.clear_gradients();
    const double sum = model.forward(store, bytes, kCount).sum;
    model.backward(store, scale);
    of_routers();
    return sum;
  }
  /// The losses that routers have made themselves.
  double of_routers() {
    sinew::Communicator alone;
    const RouterReport own = model.routers().end_step(alone);
    return (own.auxiliary + own.z) * static_cast<double>(own.tokens);
  }

  Shape shape;
  std::unique_ptr<Blas> blas;
  StrictStore store;
  Model model;
  std::vector<std::uint8_t> bytes;
};

class Gradients : public ::testing::TestWithParam<Shape> {};

/// Central differences of the loss, element by element, of every parameter.
TEST_P(Gradients, AreThoseOfFiniteDifferences) {
  Case c(kF64, Recompute::None, GetParam());
  c.step();
  StrictStore& store = c.store;
  const auto gradients = store.gradients();
  constexpr double kStep = 1e-4;
  for (std::size_t p = 0; p < store.infos().size(); ++p) {
    const auto n = static_cast<std::size_t>(store.infos()[p].elements());
    double largest = 0, worst = 0;
    for (std::size_t k = 0; k < n; k += std::max<std::size_t>(n / 12, 1)) {
      double& value = store.value<double>(p, k);
      const double before = value;
      value = before + kStep;
      const double above = c.loss();
      value = before - kStep;
      const double below = c.loss();
      value = before;
      double gradient;
      std::memcpy(&gradient, gradients[p].data() + k * sizeof(double), sizeof(double));
      worst = std::max(worst, std::abs(gradient - (above - below) / (2 * kStep)));
      largest = std::max(largest, std::abs(gradient));
    }
    EXPECT_GT(largest, 1e-7) << store.infos()[p].path << ": nothing was compared";
    EXPECT_LT(worst, 1e-5 * largest + 1e-8) << store.infos()[p].path;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gpt, Gradients,
    ::testing::Values(
        kSmall,
        Shape{.layers = 2, .heads = 4, .width = 12, .context = 7, .key_value_heads = 2, .sinks = true, .dropout = 0.2},
        Shape{.layers = 1, .heads = 2, .width = 8, .context = 9, .document_end = some_bytes(kSmall, 1)[4]},
        Shape{.layers = 2, .heads = 2, .width = 8, .context = 9, .mamba_every = 2},
        Shape{.layers = 2,
              .heads = 2,
              .width = 8,
              .context = 9,
              .experts = {.count = 4, .top_k = 2, .auxiliary = 0.05, .z = 0.01}},
        Shape{.layers = 2,
              .heads = 2,
              .width = 8,
              .context = 9,
              .experts = {.count = 6,
                          .every = 2,
                          .top_k = 2,
                          .sigmoid = true,
                          .groups = 3,
                          .chosen = 2,
                          .capacity = 1.2,
                          .auxiliary = 0.05}}));

class Recomputation : public ::testing::TestWithParam<std::tuple<Recompute, Precision, Shape>> {};

TEST_P(Recomputation, ChangesNoBit) {
  const auto& [recompute, precision, shape] = GetParam();
  Case kept(precision, Recompute::None, shape), again(precision, recompute, shape);
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(kept.step(0.01), again.step(0.01));
    for (std::size_t p = 0; p < kept.store.infos().size(); ++p)
      EXPECT_EQ(kept.store.gradients()[p], again.store.gradients()[p]) << kept.store.infos()[p].path;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt, Recomputation,
                         ::testing::Combine(::testing::Values(Recompute::Selective, Recompute::Full),
                                            ::testing::Values(kF64, kF32, kBf16, kNaive),
                                            ::testing::Values(kSmall, kScans)));

class ActivationMemory : public ::testing::TestWithParam<std::tuple<Recompute, Precision, Shape>> {};

TEST_P(ActivationMemory, IsWhatWasPredicted) {
  const auto& [recompute, precision, shape] = GetParam();
  Case c(precision, recompute, shape);
  c.step();
  EXPECT_EQ(c.model.held_bytes(), Model::activation_bytes(shape, {}, {recompute, precision}, kCount));
}

INSTANTIATE_TEST_SUITE_P(
    Gpt, ActivationMemory,
    ::testing::Combine(::testing::Values(Recompute::None, Recompute::Selective, Recompute::Full),
                       ::testing::Values(kF64, kF32, kBf16, kNaive),
                       ::testing::Values(Shape{.layers = 3, .heads = 2, .width = 32, .context = 40},
                                         Shape{.layers = 1, .heads = 4, .width = 64, .context = 16},
                                         Shape{
                                             .layers = 3, .heads = 4, .width = 32, .context = 40, .mamba_every = 2})));

TEST(Gpt, KeepsLess_TheMoreItComputesAgain) {
  const Shape shape{};
  const auto bytes = [&](Recompute r) { return Model::activation_bytes(shape, {}, {r, kF32}, 16); };
  EXPECT_LT(bytes(Recompute::Selective), bytes(Recompute::None));
  EXPECT_LT(bytes(Recompute::Full), bytes(Recompute::Selective));
}

TEST(Gpt, KnowsNothingBeforeItHasLearnt) {
  const Shape shape{};
  const auto blas = make_blas("host", 1);
  StrictStore store(shape, DType::F32, DType::F32, 1);
  Model model(shape, {}, *blas);
  const int count = 4;
  const double loss = model.forward(store, some_bytes(shape, count), count).sum / (count * shape.context);
  EXPECT_NEAR(loss, std::log(256.0), 0.1);
}

TEST(Gpt, AddsUpWhatIsCutIntoPasses) {
  Case whole(kF64), cut(kF64);
  const double together = whole.step();
  double sum = 0;
  const auto length = static_cast<std::size_t>(kSmall.context) + 1;
  cut.store.clear_gradients();
  for (std::size_t s = 0; s < kCount; ++s) {
    sum += cut.model.forward(cut.store, std::span(cut.bytes).subspan(s * length, length), 1).sum;
    cut.model.backward(cut.store, 1);
  }
  EXPECT_NEAR(sum / together, 1, 1e-13);
  for (std::size_t p = 0; p < whole.store.infos().size(); ++p) {
    double off = 0, norm = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(whole.store.infos()[p].elements()); ++k) {
      const double a = whole.store.gradient_of<double>(p, k), b = cut.store.gradient_of<double>(p, k);
      off += (a - b) * (a - b);
      norm += a * a;
    }
    EXPECT_LT(std::sqrt(off), 1e-12 * std::sqrt(norm)) << whole.store.infos()[p].path;
  }
}

TEST(Gpt, ComesCloseInLowerPrecision) {
  const auto loss_of = [](const Precision& precision) {
    Case c(precision);
    return c.step();
  };
  // bf16 rounds matrices only here: vectors keep their start values in it, so it is compared with f32 of the same.
  EXPECT_NEAR(loss_of(kF32) / loss_of(kF64), 1, 1e-6);
  EXPECT_NEAR(loss_of(kNaive) / loss_of(kBf16), 1, 1e-2);
}

TEST(Gpt, RefusesAShapeThatIsNone) {
  for (const auto& [shape, text] : {std::pair(Shape{.heads = 5}, "heads 5 do not divide width 128, expected heads 4"),
                                    {Shape{.layers = 0, .context = -1}, "layers 0, expected 1 to 4096; context -1"}}) {
    try {
      require_shape(shape);
      ADD_FAILURE() << "nothing thrown: " << text;
    } catch (const sinew::Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace gpt

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sinew::parallel {
namespace {

using ::testing::HasSubstr;

/// Memory of the test's own, as World::allocate gives it.
class Heap {
 public:
  HeldMemory held{[this](std::size_t bytes) {
    blocks_.emplace_back(bytes + 1);
    Region region{};
    region.memory = {blocks_.back().data(), bytes};
    return Memory(std::move(region), "the test's");
  }};

 private:
  std::vector<std::vector<std::byte>> blocks_;
};

template <class T>
OwnedPart part_of(std::vector<T>& value, std::vector<T>& gradient, DType dtype, std::int32_t parameter = 0) {
  const auto bytes = [](std::vector<T>& v) {
    return Buffer{reinterpret_cast<std::byte*>(v.data()), v.size() * sizeof(T)};
  };
  return {parameter, 0, static_cast<std::int64_t>(value.size()), dtype, bytes(value), bytes(gradient)};
}

double wave(std::size_t i, int step) { return std::sin(0.7 * static_cast<double>(i) + 1.9 * step); }

/// The definition of Adam, an element at a time, in long double.
struct OneElement {
  long double x, m = 0, v = 0;
  void adam(long double g, int t, const AdamOptions& o) {
    if (!o.decoupled) g += o.weight_decay * x;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const long double mean = m / (1 - std::pow(static_cast<long double>(o.beta1), t));
    const long double square = v / (1 - std::pow(static_cast<long double>(o.beta2), t));
    if (o.decoupled) x -= o.rate * o.weight_decay * x;
    x -= o.rate * mean / (std::sqrt(square) + o.epsilon);
  }
  void sgd(long double g, int t, const SgdOptions& o) {
    g += o.weight_decay * x;
    m = t == 1 ? g : o.momentum * m + g;
    x -= o.rate * (o.momentum == 0 ? g : o.nesterov ? g + o.momentum * m : m);
  }
};

template <class T, class Options, class Step>
void follow(const Options& options, DType dtype, double tolerance, const Step& reference) {
  for (const std::size_t count : {1, 3, 7, 16, 257}) {
    Heap heap;
    std::vector<T> value(count), gradient(count);
    std::vector<OneElement> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i].x = value[i] = static_cast<T>(wave(i, 0));
    Optimizer optimizer(heap.held, options);
    for (int t = 1; t <= 20; ++t) {
      for (std::size_t i = 0; i < count; ++i) gradient[i] = static_cast<T>(wave(i, t));
      optimizer.update(std::vector{part_of(value, gradient, dtype)});
      for (std::size_t i = 0; i < count; ++i) reference(expected[i], static_cast<long double>(gradient[i]), t);
    }
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_NEAR(static_cast<double>(value[i]), static_cast<double>(expected[i].x), tolerance) << i << " of " << count;
  }
}

TEST(Adam, FollowsItsDefinition) {
  for (const bool decoupled : {true, false}) {
    const AdamOptions o{.rate = 0.01, .weight_decay = 0.1, .decoupled = decoupled};
    const auto reference = [&](OneElement& e, long double g, int t) { e.adam(g, t, o); };
    follow<double>(o, DType::F64, 1e-13, reference);
    follow<float>(o, DType::F32, 2e-6, reference);
  }
}

TEST(Adam, MovesByTheRateInItsFirstStep_WhateverTheGradient) {
  Heap heap;
  std::vector<double> value{1, 1, 1}, gradient{1e-3, -50, 7};
  Optimizer(heap.held, AdamOptions{.rate = 0.25}).update(std::vector{part_of(value, gradient, DType::F64)});
  EXPECT_NEAR(value[0], 0.75, 1e-5);
  EXPECT_NEAR(value[1], 1.25, 1e-5);
  EXPECT_NEAR(value[2], 0.75, 1e-5);
}

TEST(Sgd, FollowsItsDefinition) {
  for (const SgdOptions o :
       {SgdOptions{.rate = 0.1}, SgdOptions{.rate = 0.1, .weight_decay = 0.01},
        SgdOptions{.rate = 0.1, .momentum = 0.9}, SgdOptions{.rate = 0.1, .momentum = 0.9, .nesterov = true}}) {
    const auto reference = [&](OneElement& e, long double g, int t) { e.sgd(g, t, o); };
    follow<double>(o, DType::F64, 1e-12, reference);
    follow<float>(o, DType::F32, 2e-5, reference);
  }
}

TEST(Optimizer, KeepsWhatSixteenBitsCannotHold) {
  Heap heap;
  std::vector<std::uint16_t> value(5, to_bfloat16(1.0F).bits), gradient(5, to_bfloat16(1.0F).bits);
  Optimizer optimizer(heap.held, SgdOptions{.rate = 1e-4});
  for (int t = 0; t < 500; ++t) optimizer.update(std::vector{part_of(value, gradient, DType::BF16)});
  // 1 - 500 * 1e-4. Each step alone is below half a place of bf16 at 1: without masters nothing would have moved.
  EXPECT_EQ(to_float(to_bfloat16(1.0F - 1e-4F)), 1.0F);
  for (const std::uint16_t bits : value) EXPECT_EQ(bits, to_bfloat16(0.95F).bits);
}

TEST(Optimizer, ScalesGradientsFirst) {
  Heap heap;
  std::vector<double> value{1}, gradient{4};
  Optimizer(heap.held, SgdOptions{.rate = 0.5}).update(std::vector{part_of(value, gradient, DType::F64)}, 0.25);
  EXPECT_EQ(value[0], 0.5);
}

TEST(Optimizer, HoldsTheBytesItSays) {
  const auto bytes = [](auto options, DType dtype, auto element) {
    Heap heap;
    std::vector<decltype(element)> value(1000), gradient(1000);
    Optimizer optimizer(heap.held, options);
    optimizer.update(std::vector{part_of(value, gradient, dtype)});
    return heap.held.held().of(Purpose::Optimizer);
  };
  EXPECT_EQ(bytes(AdamOptions{}, DType::F32, 0.0F), 8000U);
  EXPECT_EQ(bytes(AdamOptions{}, DType::F64, 0.0), 16000U);
  EXPECT_EQ(bytes(AdamOptions{}, DType::BF16, std::uint16_t{}), 12000U);
  EXPECT_EQ(bytes(SgdOptions{}, DType::F32, 0.0F), 0U);
  EXPECT_EQ(bytes(SgdOptions{.momentum = 0.9}, DType::F16, std::uint16_t{}), 8000U);
}

template <class F>
std::string complaint_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "no complaint";
}

TEST(Optimizer, SaysAllThatIsOutOfRange_AndWhatItCannotUpdate) {
  Heap heap;
  const std::string bad =
      complaint_of([&] { Optimizer(heap.held, AdamOptions{.rate = -1, .beta1 = 1, .epsilon = 0}); });
  for (const char* part : {"rate -1", "beta1 1", "epsilon 0"}) EXPECT_THAT(bad, HasSubstr(part));
  EXPECT_THAT(complaint_of([&] { Optimizer(heap.held, SgdOptions{.nesterov = true}); }), HasSubstr("nesterov"));

  std::vector<std::int32_t> whole(3);
  Optimizer optimizer(heap.held, SgdOptions{});
  EXPECT_THAT(complaint_of([&] { optimizer.update(std::vector{part_of(whole, whole, DType::I32, 7)}); }),
              HasSubstr("parameter 7 is of i32"));
  std::vector<float> value(3), gradient(3), longer(4);
  optimizer.update(std::vector{part_of(value, gradient, DType::F32)});
  EXPECT_THAT(complaint_of([&] { optimizer.update(std::vector{part_of(longer, longer, DType::F32)}); }),
              HasSubstr("not the 1 of its first step"));
}

}  // namespace
}  // namespace sinew::parallel

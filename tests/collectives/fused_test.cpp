#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/fused/all_reduce_add_rms_norm.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

/// The share of a rank in element i, of few bits, so that sums are exact in any order.
double share(int rank, std::size_t i) {
  return static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 3) % 32) - 16;
}

template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(static_cast<float>(value));
  if constexpr (!std::is_same_v<T, BFloat16>) return static_cast<T>(value);
}
template <class T>
double value(T element) {
  if constexpr (std::is_same_v<T, BFloat16>) return to_float(element);
  if constexpr (!std::is_same_v<T, BFloat16>) return element;
}

/// Two layers one after the other, so that the second one takes the residual of the first.
template <class T>
void two_layers(Communicator& all, std::size_t rows, std::size_t width, bool in_place) {
  const std::size_t count = rows * width;
  std::vector<T> weight(width), residual(count), partial(count), other(count);
  for (std::size_t i = 0; i < width; ++i) weight[i] = element<T>(1 + static_cast<double>(i % 4) / 4);
  for (std::size_t i = 0; i < count; ++i) residual[i] = element<T>(static_cast<double>(i % 5));
  std::vector<T>& normed = in_place ? partial : other;
  const RmsNorm norm{.weight = const_buffer_of(weight), .epsilon = 0.25};
  for (int layer = 1; layer <= 2; ++layer) {
    for (std::size_t i = 0; i < count; ++i) partial[i] = element<T>(share(all.rank(), i));
    all_reduce_add_rms_norm(all, const_buffer_of(partial), buffer_of(residual), norm, buffer_of(normed), kDTypeOf<T>);
    for (std::size_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
        double sum = static_cast<double>(i % 5);
        for (int r = 0; r < all.size(); ++r) sum += layer * share(r, i);
        require(value(residual[i]) == sum,
                fmt::format("layer {}: residual {} is {}, not {}", layer, i, value(residual[i]), sum));
        squares += sum * sum;
      }
      const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + 0.25);
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
        const double expected = value(residual[i]) * factor * value(weight[i % width]);
        require(std::abs(value(normed[i]) - expected) <= 0x1p-8 * std::abs(expected),
                fmt::format("layer {}: normed {}", layer, i));
      }
    }
  }
}

class Fused : public testing::TestWithParam<const char*> {};

TEST_P(Fused, IsASumAnAdditionAndANorm) {
  for (const int ranks : {1, 2, 3}) {
    on_threads(ranks, only(GetParam()), [](World& world) {
      for (const bool in_place : {false, true}) {
        two_layers<BFloat16>(world.communicator(), 3, 130, in_place);
        two_layers<float>(world.communicator(), 1, 1, in_place);
        two_layers<float>(world.communicator(), 0, 64, in_place);
        two_layers<float>(world.communicator(), 150, 1000, in_place);   // in pieces, the last of which is shorter
        two_layers<double>(world.communicator(), 3, 50'000, in_place);  // a row is longer than a piece
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Fused, testing::ValuesIn(transports_between_processes()),
                         [](const auto& each) { return std::string(each.param); });

TEST(FusedArguments, AreNamed_AndTheCommunicatorStaysUsable) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> weight(4), residual(8), partial(8), normed(8);
    const RmsNorm norm{.weight = const_buffer_of(weight)};
    const auto said = [&](ConstBuffer in, Buffer sum, const RmsNorm& by, Buffer out, DType dtype) {
      return complaint([&] { all_reduce_add_rms_norm(all, in, sum, by, out, dtype); });
    };
    const ConstBuffer in = const_buffer_of(partial);
    const Buffer sum = buffer_of(residual), out = buffer_of(normed);
    require_part(said(in, sum, norm, out, DType::I32), "dtype i32; expected f16, bf16, f32 or f64");
    require_part(said(in, sum, {}, out, DType::F32), "weight has no elements; expected those of a row");
    require_part(said(in, sum, {.weight = norm.weight, .epsilon = -1}, out, DType::F32),
                 "epsilon is -1; expected a finite");
    require_part(said(in.part(0, 20), sum, norm, out, DType::F32),
                 "partial has 20 bytes; expected whole rows of 16 bytes");
    require_part(said(in, sum.part(0, 16), norm, out, DType::F32), "residual");
    require_part(said(in, sum, norm, out.part(0, 16), DType::F32), "normed");
    require_part(said(in, sum, norm, sum, DType::F32), "residual and normed overlap");
    require_part(said(sum, sum, norm, out, DType::F32), "residual and partial overlap");
    require_part(said(out.part(0, 16), sum.part(0, 16), norm, out.part(8, 16), DType::F32),
                 "partial and normed overlap");
    require_part(said(in, sum, {.weight = ConstBuffer(out).part(0, 16)}, out, DType::F32), "normed and weight overlap");
    const Buffer on_device{sum.data, sum.bytes, {.kind = MemoryKind::Device, .device = 1}};
    require_part(said(in, on_device, norm, out, DType::F32), "residual is memory of device 1; expected host memory");
    two_layers<float>(all, 2, 8, false);
  });
}

TEST(FusedArguments, DifferentRowsOfTheRanks_AreAMismatch) {
  on_threads(2, only("shm"), [](World& world) {
    const std::size_t rows = world.rank() == 0 ? 2 : 3;
    std::vector<float> weight(4), residual(rows * 4), partial(rows * 4), normed(rows * 4);
    try {
      all_reduce_add_rms_norm(world.communicator(), const_buffer_of(partial), buffer_of(residual),
                              {.weight = const_buffer_of(weight)}, buffer_of(normed), DType::F32);
      require(false, "no error");
    } catch (const Error& e) {
      require(e.code() == Code::Mismatch, e.what());
    }
  });
}

}  // namespace
}  // namespace sinew::test

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/distributed_tensor/elementwise.hpp>
#include <sinew/parallel/distributed_tensor/layer_norm.hpp>
#include <sinew/parallel/distributed_tensor/matmul.hpp>
#include <sinew/parallel/distributed_tensor/reductions.hpp>
#include <sinew/parallel/distributed_tensor/softmax.hpp>
#include <sinew/parallel/distributed_tensor/views.hpp>
#include <support/worlds.hpp>

#include "../support/naive_blas.hpp"
#include "plain.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using Entries = std::vector<Placements::Entry>;

template <class T>
double number_of(T value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<double>(to_float(value));
  } else {
    return static_cast<double>(value);
  }
}
template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
DistributedTensor distributed(Mesh& mesh, const Plain& whole, const Placements& placements) {
  std::vector<T> values;
  for (const double value : whole.data) values.push_back(rounded<T>(value));
  return DistributedTensor::distribute(mesh, {"t", kDTypeOf<T>, whole.shape, placements}, const_buffer_of(values));
}

template <class T>
class StoredAs : public testing::Test {};
using Stored = testing::Types<float, double, BFloat16, Half>;
TYPED_TEST_SUITE(StoredAs, Stored);

TYPED_TEST(StoredAs, ComputesWithF32_AndRoundsOnce) {
  using T = TypeParam;
  on_threads(2, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}}));
    NaiveBlas blas;
    // In bf16 a running sum of ones stays at 256, in f16 at 2048.
    Plain ones = zeros({2, 5000});
    for (double& value : ones.data) value = 1;
    const Placements rows = Entries{{"tp", Shard{0, {}}}};
    const DistributedTensor x = distributed<T>(mesh, ones, rows);
    const auto require_all = [&](const DistributedTensor& found, double expected, const char* what) {
      require(found.spec().dtype == kDTypeOf<T>, "dtype");
      const DistributedTensor whole = redistribute(found, {});
      for (const T value : whole.template values<T>())
        require(number_of(value) == number_of(rounded<T>(expected)), fmt::format("{}: {}", what, number_of(value)));
    };
    require_all(reduce(Reduction::Sum, x, {{1}, false}), 5000, "sum");
    require_all(matmul(x, x, blas, {false, true}), 5000, "matmul");
    require_all(softmax(x), 1.0 / 5000, "softmax");
    require_all(elementwise(BinaryFunction::Add, x, x), 2, "add");
    require_all(reshape(x, {4, 2500}), 1, "reshape");
    require_all(scale(x, 0.5), 0.5, "scale");
    DistributedTensor sum = x;
    add_scaled(sum, 3, distributed<T>(mesh, ones, {}));
    require_all(sum, 4, "add_scaled");
  });
}

TYPED_TEST(StoredAs, EqualsF64WithinTheRoundingOfItsDtype_InALayer) {
  using T = TypeParam;
  const double unit = std::is_same_v<T, double>     ? 1e-15
                      : std::is_same_v<T, float>    ? 6e-8
                      : std::is_same_v<T, BFloat16> ? 4e-3
                                                    : 5e-4;
  on_threads(3, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 3}}));
    NaiveBlas blas;
    Plain in = any_plain({4, 7}, 1), weights = any_plain({7, 5}, 2), ones = zeros({5});
    for (Plain* one : {&in, &weights}) {
      for (double& value : one->data) value = number_of(rounded<T>(value));
    }
    for (double& value : ones.data) value = 1;
    const auto layer = [&]<class U>(std::type_identity<U>, const Placements& columns) {
      const DistributedTensor product =
          matmul(distributed<U>(mesh, in, {}), distributed<U>(mesh, weights, columns), blas);
      return redistribute(layer_norm(product, distributed<U>(mesh, ones, {}), distributed<U>(mesh, zeros({5}), {})).out,
                          {});
    };
    const DistributedTensor expected = layer(std::type_identity<double>{}, {});
    const DistributedTensor found = layer(std::type_identity<T>{}, Entries{{"tp", Shard{1, {}}}});
    const auto a = expected.values<double>();
    const auto b = found.template values<T>();
    for (std::size_t i = 0; i < a.size(); ++i)
      require(std::abs(a[i] - number_of(b[i])) <= 20 * unit, fmt::format("{}: {} for {}", i, number_of(b[i]), a[i]));
  });
}

}  // namespace
}  // namespace sinew::parallel::test

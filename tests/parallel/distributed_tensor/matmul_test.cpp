#include <gtest/gtest.h>

#include <sinew/parallel/distributed_tensor/matmul.hpp>

#include "../support/naive_blas.hpp"
#include "plain.hpp"

namespace sinew::parallel::test {
namespace {

using Shape = std::vector<std::int64_t>;

/// By the definition, with repeated batch dimensions.
Plain product(const Plain& a, const Plain& b, MatmulOptions transposed) {
  const std::size_t da = a.shape.size(), db = b.shape.size(), dims = std::max(da, db);
  const auto [ta, tb] = transposed;
  const std::int64_t inner = a.shape[da - (ta ? 2 : 1)];
  Shape shape(dims - 2, 1);
  for (const Plain* one : {&a, &b}) {
    for (std::size_t d = 0; d + 2 < one->shape.size(); ++d) {
      std::int64_t& common = shape[dims - one->shape.size() + d];
      if (one->shape[d] != 1) common = one->shape[d];
    }
  }
  shape.push_back(a.shape[da - (ta ? 1 : 2)]);
  shape.push_back(b.shape[db - (tb ? 2 : 1)]);
  Plain out = zeros(shape);
  each_index(shape, [&](const Shape& index) {
    const auto of = [&](const Plain& one, std::int64_t row, std::int64_t column) {
      Shape at;
      for (std::size_t d = 0; d + 2 < one.shape.size(); ++d)
        at.push_back(one.shape[d] == 1 ? 0 : index[dims - one.shape.size() + d]);
      at.push_back(row);
      at.push_back(column);
      return one.at(at);
    };
    const std::int64_t m = index[dims - 2], n = index[dims - 1];
    for (std::int64_t k = 0; k < inner; ++k)
      out.at(index) += (ta ? of(a, k, m) : of(a, m, k)) * (tb ? of(b, n, k) : of(b, k, n));
  });
  return out;
}

struct Shapes {
  Shape a, b;
  MatmulOptions transposed;
};
const std::vector<Shapes> kShapes{
    {{4, 6}, {6, 5}, {}},
    {{5, 3}, {3, 1}, {}},
    {{3, 4}, {5, 4}, {false, true}},
    {{4, 3}, {4, 5}, {true, false}},
    {{3, 2}, {5, 3}, {true, true}},
    {{3, 0}, {0, 2}, {}},
    {{3, 2, 4}, {3, 4, 5}, {}},
    {{3, 2, 4}, {4, 3}, {}},
    {{1, 2, 4}, {3, 4, 2}, {}},
    {{2, 1, 3, 2}, {3, 2, 4}, {false, false}},
};

TEST(DistributedMatmul, EqualsTheProductOnOneRank_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Shapes& s : kShapes) {
    PlacedCase one;
    one.inputs = {any_plain(s.a, 1), any_plain(s.b, 2)};
    one.expected = {product(one.inputs[0], one.inputs[1], s.transposed)};
    one.run = [s](std::vector<DistributedTensor>& in) {
      NaiveBlas blas;
      return std::vector{matmul(in[0], in[1], blas, s.transposed)};
    };
    if (s.a == kShapes.front().a) one.most = 700;  // all of them
    cases.push_back(std::move(one));
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedMatmul, EqualsTheProductOnOneRank_OnMeshesOfUpToEightRanks) {
  PlacedCase one;
  one.inputs = {any_plain({9, 7}, 1), any_plain({7, 10}, 2)};
  one.expected = {product(one.inputs[0], one.inputs[1], {})};
  one.run = [](std::vector<DistributedTensor>& in) {
    NaiveBlas blas;
    return std::vector{matmul(in[0], in[1], blas)};
  };
  one.most = 40;
  expect_everywhere(other_meshes(), {one});
}

TEST(DistributedMatmul, HasTheGradientsOfDifferences_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Shapes& s : kShapes) {
    PlacedCase one;
    one.inputs = {any_plain(s.a, 1), any_plain(s.b, 2)};
    const PlainFunction f = [s](const std::vector<Plain>& in) { return product(in[0], in[1], s.transposed); };
    const Plain dout = any_plain(f(one.inputs).shape, 3);
    for (const std::size_t which : {0U, 1U}) one.expected.push_back(difference_gradient(f, one.inputs, which, dout));
    one.inputs.push_back(dout);
    one.run = [s](std::vector<DistributedTensor>& in) {
      NaiveBlas blas;
      MatmulGradients gradients = matmul_backward(in[2], in[0], in[1], blas, s.transposed);
      return std::vector{gradients.a, gradients.b};
    };
    one.tolerance = 1e-8;
    one.most = 60;
    cases.push_back(std::move(one));
  }
  expect_everywhere(small_meshes(), cases);
}

}  // namespace
}  // namespace sinew::parallel::test

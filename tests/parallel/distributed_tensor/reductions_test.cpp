#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <sinew/parallel/distributed_tensor/layer_norm.hpp>
#include <sinew/parallel/distributed_tensor/reductions.hpp>
#include <sinew/parallel/distributed_tensor/softmax.hpp>

#include "plain.hpp"

namespace sinew::parallel::test {
namespace {

using Shape = std::vector<std::int64_t>;

Plain reduce_plain(Reduction reduction, const Plain& x, const ReductionOptions& options) {
  const auto is_reduced = [&](std::size_t d) {
    return options.dims.empty() || std::ranges::any_of(options.dims, [&](int dim) {
             return (dim < 0 ? dim + static_cast<int>(x.shape.size()) : dim) == static_cast<int>(d);
           });
  };
  const auto reduced = [&](const Shape& index, std::int64_t one) {
    Shape kept;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!is_reduced(d)) kept.push_back(index[d]);
      if (is_reduced(d) && options.keep_dims) kept.push_back(one);
    }
    return kept;
  };
  Plain out = zeros(reduced(x.shape, 1));
  const double first = reduction == Reduction::Max ? -std::numeric_limits<double>::infinity() : 0;
  std::ranges::fill(out.data, first);
  each_index(x.shape, [&](const Shape& index) {
    double& to = out.at(reduced(index, 0));
    to = reduction == Reduction::Max ? std::max(to, x.at(index)) : to + x.at(index);
  });
  if (reduction == Reduction::Mean) {
    for (double& value : out.data) value *= static_cast<double>(out.data.size()) / static_cast<double>(x.data.size());
  }
  return out;
}

struct ReducedShape {
  Shape shape;
  ReductionOptions options;
};
const std::vector<ReducedShape> kReduced{{{5, 3}, {{0}, false}},       {{4, 3}, {{-1}, true}}, {{7}, {{}, false}},
                                         {{3, 2, 5}, {{0, 2}, false}}, {{1, 3}, {{0}, false}}, {{2, 3}, {{}, true}}};
constexpr std::array kReductions{Reduction::Sum, Reduction::Mean, Reduction::Max};

TEST(DistributedReduction, EqualsTheReductionOnOneRank_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Reduction reduction : kReductions) {
    for (const auto& [shape, options] : kReduced) {
      PlacedCase one;
      one.inputs = {any_plain(shape, 1)};
      one.expected = {reduce_plain(reduction, one.inputs[0], options)};
      one.run = [reduction, options = options](std::vector<DistributedTensor>& in) {
        return std::vector{reduce(reduction, in[0], options)};
      };
      one.pending = {ReduceOp::Sum, ReduceOp::Max};
      cases.push_back(std::move(one));
    }
  }
  PlacedCase none;
  none.inputs = {zeros({0, 3})};
  none.expected = {zeros({3})};
  none.run = [](std::vector<DistributedTensor>& in) {
    return std::vector{reduce(Reduction::Sum, in[0], {{0}, false})};
  };
  cases.push_back(std::move(none));
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedReduction, HasTheGradientsOfDifferences_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Reduction reduction : kReductions) {
    for (const auto& [shape, options] : kReduced) {
      const PlainFunction f = [reduction, options = options](const std::vector<Plain>& in) {
        return reduce_plain(reduction, in[0], options);
      };
      const Plain x = any_plain(shape, 1), out = f({x}), dout = any_plain(out.shape, 2);
      PlacedCase one;
      one.inputs = {dout, x, out};
      one.expected = {difference_gradient(f, {x}, 0, dout)};
      one.run = [reduction, options = options](std::vector<DistributedTensor>& in) {
        // A maximum is compared with the elements that it came from, so it must have their bits.
        const DistributedTensor most = reduce(reduction, in[1], options);
        return std::vector{reduce_backward(reduction, in[0], in[1], most, options)};
      };
      one.tolerance = 1e-8;
      one.most = 40;
      one.pending = {ReduceOp::Sum};
      cases.push_back(std::move(one));
    }
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedReduction, GivesTheGradientOfAMaximumInEqualPartsToTies) {
  PlacedCase one;
  one.inputs = {{{2}, {6, 1}}, {{2, 4}, {3, 5, 5, 5, 2, 2, 2, 2}}};
  one.expected = {{{2, 4}, {0, 2, 2, 2, 0.25, 0.25, 0.25, 0.25}}};
  one.run = [](std::vector<DistributedTensor>& in) {
    const DistributedTensor most = reduce(Reduction::Max, in[1], {{1}, false});
    return std::vector{reduce_backward(Reduction::Max, in[0], in[1], most, {{1}, false})};
  };
  one.pending = {};
  expect_everywhere(small_meshes(), {one});
}

/// Along the last dimension.
Plain softmax_of_rows(const Plain& x) {
  Plain out = x;
  const auto n = static_cast<std::size_t>(x.shape.back());
  for (std::size_t r = 0; n > 0 && r < x.data.size() / n; ++r) {
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < n; ++i) most = std::max(most, x.data[r * n + i]);
    for (std::size_t i = 0; i < n; ++i) sum += out.data[r * n + i] = std::exp(x.data[r * n + i] - most);
    for (std::size_t i = 0; i < n; ++i) out.data[r * n + i] /= sum;
  }
  return out;
}

Plain turned(const Plain& x) {
  Plain out = zeros({x.shape[1], x.shape[0]});
  each_index(x.shape, [&](const Shape& index) { out.at({index[1], index[0]}) = x.at(index); });
  return out;
}

TEST(DistributedSoftmax, EqualsTheSoftmaxOnOneRank_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Shape& shape : {Shape{3, 40}, Shape{5, 3}, Shape{7}, Shape{2, 3, 2}, Shape{3, 1}, Shape{0, 3}}) {
    PlacedCase one;
    one.inputs = {any_plain(shape, 3)};
    for (double& value : one.inputs[0].data) value = 700 + 100 * value;  // exp(800) is infinite
    one.expected = {softmax_of_rows(one.inputs[0])};
    one.run = [](std::vector<DistributedTensor>& in) { return std::vector{softmax(in[0])}; };
    one.tolerance = 1e-11;  // an error of a number near 700 is an error of its exponential
    cases.push_back(std::move(one));
  }
  PlacedCase first;
  first.inputs = {any_plain({4, 3}, 4)};
  first.expected = {turned(softmax_of_rows(turned(first.inputs[0])))};
  first.run = [](std::vector<DistributedTensor>& in) { return std::vector{softmax(in[0], 0)}; };
  cases.push_back(std::move(first));
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedSoftmax, HasTheGradientsOfDifferences_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Shape& shape : {Shape{2, 20}, Shape{5, 3}, Shape{7}}) {
    const PlainFunction f = [](const std::vector<Plain>& in) { return softmax_of_rows(in[0]); };
    const Plain x = any_plain(shape, 5), dout = any_plain(shape, 6);
    PlacedCase one;
    one.inputs = {dout, f({x})};
    one.expected = {difference_gradient(f, {x}, 0, dout)};
    one.run = [](std::vector<DistributedTensor>& in) { return std::vector{softmax_backward(in[0], in[1])}; };
    one.tolerance = 1e-8;
    cases.push_back(std::move(one));
  }
  expect_everywhere(small_meshes(), cases);
}

Plain norm_of_rows(const std::vector<Plain>& in) {
  const Plain &x = in[0], &weight = in[1], &bias = in[2];
  Plain out = x;
  const auto n = static_cast<std::size_t>(x.shape.back());
  for (std::size_t r = 0; r < x.data.size() / n; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x.data[r * n + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      variance += (x.data[r * n + i] - mean) * (x.data[r * n + i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      out.data[r * n + i] = (x.data[r * n + i] - mean) / std::sqrt(variance + 1e-5) * weight.data[i] + bias.data[i];
  }
  return out;
}

const std::vector<Shape> kNormShapes{{3, 7}, {5, 2}, {2, 3, 4}, {2, 33}, {3}, {0, 3}};

TEST(DistributedLayerNorm, EqualsTheNormOnOneRank_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Shape& shape : kNormShapes) {
    PlacedCase one;
    one.inputs = {any_plain(shape, 7), any_plain({shape.back()}, 8), any_plain({shape.back()}, 9)};
    one.expected = {norm_of_rows(one.inputs)};
    one.run = [](std::vector<DistributedTensor>& in) { return std::vector{layer_norm(in[0], in[1], in[2]).out}; };
    one.most = 80;
    cases.push_back(std::move(one));
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedLayerNorm, EqualsTheNormOnOneRank_OnMeshesOfUpToEightRanks) {
  PlacedCase one;
  one.inputs = {any_plain({5, 66}, 7), any_plain({66}, 8), any_plain({66}, 9)};
  one.expected = {norm_of_rows(one.inputs)};
  one.run = [](std::vector<DistributedTensor>& in) { return std::vector{layer_norm(in[0], in[1], in[2]).out}; };
  one.most = 40;
  expect_everywhere(other_meshes(), {one});
}

TEST(DistributedLayerNorm, HasTheGradientsOfDifferences_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const Shape& shape : kNormShapes) {
    const std::vector<Plain> in{any_plain(shape, 7), any_plain({shape.back()}, 8), any_plain({shape.back()}, 9)};
    const Plain dout = any_plain(shape, 10);
    PlacedCase one;
    one.inputs = {dout, in[0], in[1]};
    for (const std::size_t which : {0U, 1U, 2U})
      one.expected.push_back(difference_gradient(norm_of_rows, in, which, dout));
    one.run = [bias = in[2]](std::vector<DistributedTensor>& t) {
      const LayerNormResult result = layer_norm(t[1], t[2], placed(t[1].mesh(), "bias", bias, {}));
      LayerNormGradients gradients = layer_norm_backward(t[0], t[1], t[2], result);
      return std::vector{gradients.x, gradients.weight, gradients.bias};
    };
    one.tolerance = 1e-6;  // of the differences
    one.most = 50;
    cases.push_back(std::move(one));
  }
  expect_everywhere(small_meshes(), cases);
}

}  // namespace
}  // namespace sinew::parallel::test

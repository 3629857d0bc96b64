#include <cmath>

#include <gtest/gtest.h>

#include <sinew/parallel/distributed_tensor/elementwise.hpp>

#include "plain.hpp"

namespace sinew::parallel::test {
namespace {

using Shape = std::vector<std::int64_t>;
using Function = std::function<double(double)>;

Plain map_plain(const Plain& x, const Function& f) {
  Plain out = x;
  for (double& value : out.data) value = f(value);
  return out;
}

/// With repeated dimensions.
Plain combine(const Plain& a, const Plain& b, const std::function<double(double, double)>& f) {
  const std::size_t dims = std::max(a.shape.size(), b.shape.size());
  Shape shape(dims, 1);
  for (const Plain* one : {&a, &b}) {
    for (std::size_t d = 0; d < one->shape.size(); ++d) {
      if (one->shape[d] != 1) shape[dims - one->shape.size() + d] = one->shape[d];
    }
  }
  Plain out = zeros(shape);
  each_index(shape, [&](const Shape& index) {
    const auto of = [&](const Plain& one) {
      Shape at;
      for (std::size_t d = 0; d < one.shape.size(); ++d)
        at.push_back(one.shape[d] == 1 ? 0 : index[dims - one.shape.size() + d]);
      return one.at(at);
    };
    out.at(index) = f(of(a), of(b));
  });
  return out;
}

const std::vector<std::pair<ElementFunction, Function>> kFunctions{
    {ElementFunction::Negate, [](double x) { return -x; }},
    {ElementFunction::Exp, [](double x) { return std::exp(x); }},
    {ElementFunction::Log, [](double x) { return std::log(x); }},
    {ElementFunction::Sqrt, [](double x) { return std::sqrt(x); }},
    {ElementFunction::Square, [](double x) { return x * x; }},
    {ElementFunction::Tanh, [](double x) { return std::tanh(x); }},
    {ElementFunction::Relu, [](double x) { return std::max(x, 0.0); }},
    {ElementFunction::Gelu, [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
     }}};

/// Numbers that all functions take, away from the edge of relu.
Plain inputs_of(ElementFunction function, const Shape& shape) {
  const bool positive = function == ElementFunction::Log || function == ElementFunction::Sqrt;
  return map_plain(any_plain(shape, 4), [&](double x) { return positive ? 1.5 + x : x + (x < 0 ? -0.1 : 0.1); });
}

TEST(DistributedElements, EqualTheFunctionOnOneRank_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const auto& [function, f] : kFunctions) {
    for (const Shape& shape : {Shape{5, 3}, Shape{1}, Shape{0, 4}, Shape{}}) {
      PlacedCase one;
      one.inputs = {inputs_of(function, shape)};
      one.expected = {map_plain(one.inputs[0], f)};
      one.run = [function = function](std::vector<DistributedTensor>& in) {
        return std::vector{elementwise(function, in[0])};
      };
      cases.push_back(std::move(one));
    }
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedElements, HaveTheGradientsOfDifferences_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const auto& [function, f] : kFunctions) {
    PlacedCase one;
    const Plain x = inputs_of(function, {4, 3}), dout = any_plain({4, 3}, 5);
    const PlainFunction whole = [f = f](const std::vector<Plain>& in) { return map_plain(in[0], f); };
    one.inputs = {dout, x};
    one.expected = {difference_gradient(whole, {x}, 0, dout)};
    one.run = [function = function](std::vector<DistributedTensor>& in) {
      return std::vector{elementwise_backward(function, in[0], in[1])};
    };
    one.tolerance = 1e-8;
    one.most = function == ElementFunction::Tanh ? 700 : 30;  // all of them
    cases.push_back(std::move(one));
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedElements, TakeAFunctionOfTheCaller_AndAFactor) {
  PlacedCase cube;
  cube.inputs = {any_plain({5, 2}, 6), any_plain({5, 2}, 7)};
  cube.expected = {map_plain(cube.inputs[0], [](double x) { return x * x * x; }),
                   combine(cube.inputs[1], cube.inputs[0], [](double d, double x) { return d * 3 * x * x; }),
                   map_plain(cube.inputs[0], [](double x) { return -2.5 * x; })};
  cube.run = [](std::vector<DistributedTensor>& in) {
    const UserElementFunction f{"cube", [](double x) { return x * x * x; }, [](double x) { return 3 * x * x; }};
    return std::vector{elementwise(f, in[0]), elementwise_backward(f, in[1], in[0]), scale(in[0], -2.5)};
  };
  expect_everywhere(small_meshes(), {cube});
}

const std::vector<std::pair<BinaryFunction, std::function<double(double, double)>>> kBinary{
    {BinaryFunction::Add, [](double a, double b) { return a + b; }},
    {BinaryFunction::Subtract, [](double a, double b) { return a - b; }},
    {BinaryFunction::Multiply, [](double a, double b) { return a * b; }},
    {BinaryFunction::Divide, [](double a, double b) { return a / b; }}};

const std::vector<std::pair<Shape, Shape>> kBroadcasts{{{4, 3}, {4, 3}}, {{5, 3}, {3}}, {{2, 1}, {2, 3}},
                                                       {{3}, {2, 1}},    {{}, {3}},     {{0, 2}, {1, 2}}};

TEST(DistributedBinary, EqualsTheFunctionOnOneRank_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const auto& [function, f] : kBinary) {
    for (const auto& [a, b] : kBroadcasts) {
      PlacedCase one;
      one.inputs = {any_plain(a, 8), map_plain(any_plain(b, 9), [](double x) { return 2 + x; })};
      one.expected = {combine(one.inputs[0], one.inputs[1], f)};
      one.run = [function = function](std::vector<DistributedTensor>& in) {
        return std::vector{elementwise(function, in[0], in[1])};
      };
      one.most = a.size() == 2 && b.size() == 2 && a[0] == 4 && function == BinaryFunction::Multiply ? 700 : 40;
      cases.push_back(std::move(one));
    }
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(DistributedBinary, HasTheGradientsOfDifferences_ForAllPlacements) {
  std::vector<PlacedCase> cases;
  for (const auto& [function, f] : kBinary) {
    for (const auto& [a, b] : kBroadcasts) {
      const PlainFunction whole = [f = f](const std::vector<Plain>& in) { return combine(in[0], in[1], f); };
      const std::vector<Plain> in{any_plain(a, 8), map_plain(any_plain(b, 9), [](double x) { return 2 + x; })};
      const Plain dout = any_plain(whole(in).shape, 10);
      PlacedCase one;
      one.inputs = {dout, in[0], in[1]};
      one.expected = {difference_gradient(whole, in, 0, dout), difference_gradient(whole, in, 1, dout)};
      one.run = [function = function](std::vector<DistributedTensor>& t) {
        BinaryGradients gradients = elementwise_backward(function, t[0], t[1], t[2]);
        return std::vector{gradients.a, gradients.b};
      };
      one.tolerance = 1e-8;
      one.most = 40;
      cases.push_back(std::move(one));
    }
  }
  expect_everywhere(small_meshes(), cases);
}

TEST(AddScaled, KeepsThePlacementsOfItsSum) {
  PlacedCase one;
  one.inputs = {any_plain({4, 3}, 1), any_plain({4, 3}, 2)};
  one.expected = {combine(one.inputs[0], one.inputs[1], [](double a, double b) { return a - 0.5 * b; })};
  one.run = [](std::vector<DistributedTensor>& in) {
    const Placements before = in[0].placements();
    add_scaled(in[0], -0.5, in[1]);
    if (in[0].placements() != before) throw std::runtime_error("other placements");
    return std::vector{in[0]};
  };
  expect_everywhere(small_meshes(), {one});
}

}  // namespace
}  // namespace sinew::parallel::test

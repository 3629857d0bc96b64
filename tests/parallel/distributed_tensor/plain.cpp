#include "plain.hpp"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <support/worlds.hpp>

namespace sinew::parallel::test {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

std::size_t number_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& index) {
  std::int64_t number = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) number = number * shape[d] + index[d];
  return static_cast<std::size_t>(number);
}

/// The share of a rank in a Partial: shares of all ranks of an axis add up to 1.
double share_of(int index, int ranks) {
  if (index > 0) return 0.5 + index;
  double others = 0;
  for (int i = 1; i < ranks; ++i) others += 0.5 + i;
  return 1 - others;
}

std::string wrong_in(const DistributedTensor& result, const Plain& expected, double tolerance) {
  const DistributedTensor whole = redistribute(result, {});
  if (result.spec().shape != expected.shape) return "another shape";
  const auto values = whole.values<double>();
  if (values.size() != expected.data.size()) return "another length";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i] - expected.data[i]) <= tolerance * std::max(1.0, std::abs(expected.data[i]))) continue;
    return fmt::format("element {}: found {}, expected {}", i, values[i], expected.data[i]);
  }
  return {};
}

}  // namespace

double& Plain::at(const std::vector<std::int64_t>& index) { return data.at(number_of(shape, index)); }
double Plain::at(const std::vector<std::int64_t>& index) const { return data.at(number_of(shape, index)); }

Plain zeros(const std::vector<std::int64_t>& shape) {
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<std::size_t>(extent);
  return {shape, std::vector<double>(elements)};
}

Plain any_plain(const std::vector<std::int64_t>& shape, unsigned seed) {
  Plain made = zeros(shape);
  std::mt19937 dice(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  for (double& value : made.data) value = number(dice);
  return made;
}

void each_index(const std::vector<std::int64_t>& shape,
                const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  std::vector<std::int64_t> index(shape.size(), 0);
  const std::size_t elements = zeros(shape).data.size();
  for (std::size_t i = 0; i < elements; ++i) {
    std::size_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(shape[d]));
      rest /= static_cast<std::size_t>(shape[d]);
    }
    visit(index);
  }
}

Plain difference_gradient(const PlainFunction& f, std::vector<Plain> inputs, std::size_t which, const Plain& dout) {
  constexpr double kStep = 1e-5;
  Plain gradient = zeros(inputs[which].shape);
  const auto loss = [&] {
    const Plain out = f(inputs);
    double sum = 0;
    for (std::size_t i = 0; i < out.data.size(); ++i) sum += out.data[i] * dout.data[i];
    return sum;
  };
  for (std::size_t i = 0; i < gradient.data.size(); ++i) {
    double& value = inputs[which].data[i];
    const double before = value;
    value = before + kStep;
    const double above = loss();
    value = before - kStep;
    const double below = loss();
    value = before;
    gradient.data[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

std::vector<Placements> all_placements(const std::vector<Axis>& axes, const std::vector<std::int64_t>& shape,
                                       const std::vector<ReduceOp>& pending) {
  std::vector<std::vector<Placement>> by_axis;
  for (const Axis& axis : axes) {
    std::vector<Placement>& all = by_axis.emplace_back();
    all.emplace_back(Replicate{});
    for (const ReduceOp op : pending) all.emplace_back(Partial{op});
    for (std::size_t d = 0; d < shape.size(); ++d) {
      all.emplace_back(Shard{static_cast<int>(d), {}});
      if (axes.size() > 1) continue;
      Shard uneven{static_cast<int>(d), {0}};
      for (int i = 1; i < axis.size; ++i) uneven.offsets.push_back(std::min<std::int64_t>(1, shape[d]));
      uneven.offsets.push_back(shape[d]);
      all.emplace_back(std::move(uneven));
    }
  }
  std::vector<Placements> all;
  if (axes.size() == 1) {
    for (const Placement& one : by_axis[0]) all.push_back(std::vector<Placements::Entry>{{axes[0].name, one}});
    return all;
  }
  for (const Placement& one : by_axis[0]) {
    for (const Placement& two : by_axis[1]) {
      all.push_back(std::vector<Placements::Entry>{{axes[0].name, one}, {axes[1].name, two}});
      if (one != Placement(Replicate{}) && two != Placement(Replicate{}))
        all.push_back(std::vector<Placements::Entry>{{axes[1].name, two}, {axes[0].name, one}});
    }
  }
  return all;
}

DistributedTensor placed(Mesh& mesh, const std::string& name, const Plain& whole, const Placements& placements) {
  DistributedTensor made = DistributedTensor::unchecked(mesh, {name, DType::F64, whole.shape, placements});
  const auto values = made.values<double>();
  const Box box = made.box();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<std::size_t>(number_in_whole(whole.shape, box, static_cast<std::int64_t>(i)));
    double value = whole.data[number];
    for (const auto& [axis, placement] : made.placements().entries()) {
      const auto* partial = std::get_if<Partial>(&placement);
      if (partial == nullptr) continue;
      const int index = mesh.index(axis), ranks = mesh.size(axis);
      if (partial->op == ReduceOp::Sum) {
        value *= share_of(index, ranks);
      } else if (static_cast<int>(number) % ranks != index) {
        value -= 1.5;  // Max
      }
    }
    values[i] = value;
  }
  return made;
}

const std::vector<std::vector<Axis>>& small_meshes() {
  static const std::vector<std::vector<Axis>> kMeshes{{{"tp", 2}}, {{"tp", 3}}, {{"tp", 2}, {"dp", 2}}, {{"tp", 4}}};
  return kMeshes;
}

const std::vector<std::vector<Axis>>& other_meshes() {
  static const std::vector<std::vector<Axis>> kMeshes{
      {{"tp", 1}}, {{"tp", 5}}, {{"tp", 8}}, {{"tp", 2}, {"dp", 3}}, {{"tp", 4}, {"dp", 2}}};
  return kMeshes;
}

void expect_everywhere(const std::vector<std::vector<Axis>>& meshes, const std::vector<PlacedCase>& cases) {
  for (const std::vector<Axis>& axes : meshes) {
    const Factorisation shape(axes);
    on_threads(shape.ranks(), only("inproc"), [&](World& world) {
      Mesh mesh(world.communicator(), shape);
      std::mt19937 dice(11);
      for (std::size_t c = 0; c < cases.size(); ++c) {
        const PlacedCase& one = cases[c];
        std::vector<std::vector<Placements>> choices;
        std::size_t combinations = 1;
        for (const Plain& input : one.inputs) {
          choices.push_back(all_placements(axes, input.shape, one.pending));
          combinations *= choices.back().size();
        }
        const std::size_t runs = std::min(combinations, one.most);
        for (std::size_t k = 0; k < runs; ++k) {
          std::size_t rest = combinations <= one.most ? k : dice() % combinations;
          std::vector<DistributedTensor> inputs;
          std::string text = fmt::format("case {} on {}:", c, shape.to_string());
          for (std::size_t i = 0; i < one.inputs.size(); ++i) {
            const Placements& placements = choices[i][rest % choices[i].size()];
            rest /= choices[i].size();
            inputs.push_back(placed(mesh, std::string(1, static_cast<char>('a' + i)), one.inputs[i], placements));
            text += fmt::format(" [{}]", placements.to_string());
          }
          try {
            const std::vector<DistributedTensor> results = one.run(inputs);
            require(results.size() == one.expected.size(), text + ": results");
            for (std::size_t r = 0; r < results.size(); ++r) {
              const std::string wrong = wrong_in(results[r], one.expected[r], one.tolerance);
              require(wrong.empty(),
                      fmt::format("{}: result {} ({}): {}", text, r, results[r].placements().to_string(), wrong));
            }
          } catch (const Error& e) {
            throw std::runtime_error(text + ": " + e.what());
          }
        }
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace sinew::parallel::test

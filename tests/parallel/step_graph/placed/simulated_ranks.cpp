#include "simulated_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <sinew/parallel/placement/box.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel::test {
namespace {

std::size_t tensor_index(std::int64_t t) noexcept { return static_cast<std::size_t>(t); }

TensorSpec spec_with(const StepTensor& t, const Placements& placements) {
  return {t.name, t.dtype, t.shape, placements};
}

Array array_for(const Box& box, double value) {
  Array array{{}, std::vector<double>(tensor_index(box.elements()), value)};
  for (std::size_t d = 0; d < box.first.size(); ++d) array.shape.push_back(box.extent(d));
  return array;
}

void copy_part(const Array& from, const Box& from_box, Array& to, const Box& to_box) {
  copy_box(reinterpret_cast<const std::byte*>(from.data.data()), from_box, reinterpret_cast<std::byte*>(to.data.data()),
           to_box, intersection(from_box, to_box), sizeof(double));
}

/// A rank's part of a whole. If the tensor is Partial, the rank's share of the sum.
Array part_on_rank(const StepTensor& tensor, const Factorisation& mesh, int rank, const Array& whole) {
  const Box all{std::vector<std::int64_t>(whole.shape.size(), 0), whole.shape};
  const Box mine = local_box(spec_with(tensor, tensor.placements), mesh, rank);
  Array part = array_for(mine, 0);
  copy_part(whole, all, part, mine);
  for (const Axis& axis : mesh.axes()) {
    if (!std::holds_alternative<Partial>(tensor.placements.along(axis.name))) continue;
    const double share = (mesh.index(rank, axis.name) + 1) / (axis.size * (axis.size + 1) / 2.0);
    for (double& value : part.data) value *= share;
  }
  return part;
}

class Simulation {
 public:
  Simulation(const StepGraph& computes, const StepGraph& runnable, const Factorisation& mesh,
             const std::vector<Array>& given)
      : runnable_(runnable), mesh_(mesh), given_(given) {
    for (const Node& node : computes.nodes) {
      if (node.kind == NodeKind::Compute || node.kind == NodeKind::Split) made_by_[node.name] = &node;
    }
    values_.resize(tensor_index(mesh.ranks()), std::vector<Array>(runnable.tensors.size()));
  }

  ReadOnRanks run() {
    for (const Node& node : runnable_.nodes) {
      if (is_exchange(node.kind)) {
        for (std::size_t i = 0; i < node.tensors.size(); ++i) move(node.axes, node.operands[i], node.tensors[i]);
      } else if (node.kind == NodeKind::Signal) {
        signal(node);
      } else if (node.kind == NodeKind::Gate && !made_by_.contains(node.name)) {
        for (auto& of_rank : values_) {
          std::vector<Array>& read = read_[node.name].emplace_back();
          for (const TensorId t : node.tensors) read.push_back(of_rank[tensor_index(t)]);
        }
      } else if (node.kind == NodeKind::Free) {
        for (auto& of_rank : values_) {
          for (const TensorId t : node.tensors) std::ranges::fill(of_rank[tensor_index(t)].data, std::nan(""));
        }
      }
    }
    return std::move(read_);
  }

 private:
  const StepTensor& tensor(TensorId t) const { return runnable_.tensors[tensor_index(t)]; }
  Array& value(int rank, TensorId t) { return values_[tensor_index(rank)][tensor_index(t)]; }
  Box box(TensorId t, const Placements& placements, int rank) const {
    return local_box(spec_with(tensor(t), placements), mesh_, rank);
  }

  void signal(const Node& node) {
    const auto made = made_by_.find(node.name);
    if (made == made_by_.end()) {
      for (int rank = 0; rank < mesh_.ranks(); ++rank) {
        for (const TensorId t : node.tensors)
          value(rank, t) = part_on_rank(tensor(t), mesh_, rank, given_[tensor_index(t)]);
      }
      return;
    }
    const Node& compute = *made->second;
    if (compute.kind == NodeKind::Split) return move(compute.axes, compute.operands.front(), compute.tensors.front());
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      std::vector<const Array*> operands;
      for (const TensorId t : compute.operands) operands.push_back(&value(rank, t));
      for (const TensorId t : compute.tensors)
        value(rank, t) = computed(compute.rule, operands, array_for(box(t, tensor(t).placements, rank), 0).shape);
    }
  }

  /// Every move goes by way of the whole along its axis, which shows nothing of how collectives work, and all of what
  /// they have to do.
  void move(const std::string& axis, TensorId from, TensorId to) {
    const Placement& was = tensor(from).placements.along(axis);
    std::vector<Array> moved;
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      const Box whole_box = box(from, tensor(from).placements.with(axis, Replicate{}), rank);
      Array whole = array_for(whole_box, 0);
      for (const int peer : mesh_.group_of(rank, axis)) {
        const Array& part = value(peer, from);
        if (std::holds_alternative<Partial>(was)) {
          for (std::size_t i = 0; i < whole.data.size(); ++i) whole.data[i] += part.data[i];
        } else {
          copy_part(part, box(from, tensor(from).placements, peer), whole, whole_box);
        }
      }
      const Box mine = box(to, tensor(to).placements, rank);
      moved.push_back(array_for(mine, 0));
      copy_part(whole, whole_box, moved.back(), mine);
    }
    for (int rank = 0; rank < mesh_.ranks(); ++rank) value(rank, to) = std::move(moved[tensor_index(rank)]);
  }

  const StepGraph& runnable_;
  const Factorisation& mesh_;
  const std::vector<Array>& given_;
  std::map<std::string, const Node*> made_by_;  // by name
  std::vector<std::vector<Array>> values_;      // by rank, by tensor
  ReadOnRanks read_;
};

}  // namespace

ReadOnRanks run_simulated(const StepGraph& computes, const StepGraph& runnable, const Factorisation& mesh,
                          const std::vector<Array>& given) {
  return Simulation(computes, runnable, mesh, given).run();
}

ReadOnRanks expected_on_ranks(const StepGraph& computes, const Factorisation& mesh, const std::vector<Array>& values) {
  ReadOnRanks read;
  for (const Node& node : computes.nodes) {
    if (node.kind != NodeKind::Gate) continue;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      std::vector<Array>& of_rank = read[node.name].emplace_back();
      for (const TensorId t : node.tensors)
        of_rank.push_back(part_on_rank(computes.tensors[tensor_index(t)], mesh, rank, values[tensor_index(t)]));
    }
  }
  return read;
}

double worst(const ReadOnRanks& found, const ReadOnRanks& expected) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double most = found.size() == expected.size() ? 0 : kNever;
  for (const auto& [gate, ranks] : expected) {
    const auto same = found.find(gate);
    if (same == found.end() || same->second.size() != ranks.size()) return kNever;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (std::size_t a = 0; a < ranks[r].size(); ++a) {
        const Array &is = same->second[r][a], &should = ranks[r][a];
        if (is.shape != should.shape) return kNever;
        for (std::size_t i = 0; i < is.data.size(); ++i) {
          const double off = std::abs(is.data[i] - should.data[i]) / (1 + std::abs(should.data[i]));
          most = std::isnan(off) ? kNever : std::max(most, off);
        }
      }
    }
  }
  return most;
}

}  // namespace sinew::parallel::test

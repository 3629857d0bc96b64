#include "in_place_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

namespace sinew::parallel::test {
namespace {

std::size_t element_index(std::int64_t t) noexcept { return static_cast<std::size_t>(t); }

class Ranks {
 public:
  Ranks(const StepGraph& graph, const Factorisation& mesh, std::string sharded)
      : graph_(graph), mesh_(mesh), sharded_(std::move(sharded)), elements_(element_index(2 * mesh.ranks())) {
    values_.resize(graph.tensors.size(),
                   std::vector<std::vector<double>>(element_index(mesh.ranks()), std::vector<double>(elements_)));
    for (TensorId t = 0; t < static_cast<TensorId>(graph.tensors.size()); ++t) write(t, "start");
  }

  ElementsRead run(const std::vector<TensorId>& read_later) {
    for (const Node& node : graph_.nodes) {
      for (const TensorId t : node.tensors) {
        switch (node.kind) {
          case NodeKind::Gate: read(fmt::format("{} {}", node.name, seen_[node.name]), t, node.parts); break;
          case NodeKind::Signal:
            if (!node.unchanged) write(t, fmt::format("{} {}", node.name, seen_[node.name]));
            break;
          case NodeKind::AllGather: gather(t, node.axes); break;
          case NodeKind::AllReduce: average(t, node.axes); break;
          case NodeKind::ReduceScatter:
            average(t, node.axes);
            keep_part(t, node.axes);
            break;
          case NodeKind::Free: keep_part(t, node.axes.empty() ? sharded_ : node.axes); break;
          default: break;
        }
      }
      if (node.kind == NodeKind::Gate || node.kind == NodeKind::Signal) ++seen_[node.name];
    }
    for (const TensorId t : read_later) read("after the step", t, false);
    return std::move(read_);
  }

 private:
  /// Returns whether the element belongs to the part of the rank along these axes.
  bool owns(int rank, std::size_t element, const std::string& axes) const {
    return mesh_.index(static_cast<int>(element) % mesh_.ranks(), axes) == mesh_.index(rank, axes);
  }
  std::vector<double>& value(TensorId t, int rank) { return values_[element_index(t)][element_index(rank)]; }

  void write(TensorId t, const std::string& what) {
    const double seed = static_cast<double>(std::hash<std::string>()(what) % 1000);
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      for (std::size_t e = 0; e < elements_; ++e)
        value(t, rank)[e] = std::sin(seed + 7.0 * t + 1.7 * rank + 0.3 * static_cast<double>(e));
    }
  }
  /// A new value for each rank and element, of the old values of all ranks.
  void update(TensorId t, const std::function<double(int rank, std::size_t element)>& made) {
    std::vector<std::vector<double>> updated = values_[element_index(t)];
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      for (std::size_t e = 0; e < elements_; ++e) updated[element_index(rank)][e] = made(rank, e);
    }
    values_[element_index(t)] = std::move(updated);
  }
  void gather(TensorId t, const std::string& axes) {
    update(t, [&](int rank, std::size_t e) {
      for (const int peer : mesh_.group_of(rank, axes)) {
        if (owns(peer, e, axes)) return value(t, peer)[e];
      }
      return std::nan("");
    });
  }
  void average(TensorId t, const std::string& axes) {
    update(t, [&](int rank, std::size_t e) {
      double sum = 0;
      const std::vector<int> group = mesh_.group_of(rank, axes);
      for (const int peer : group) sum += value(t, peer)[e];
      return sum / static_cast<double>(group.size());
    });
  }
  void keep_part(TensorId t, const std::string& axes) {
    update(t, [&](int rank, std::size_t e) { return owns(rank, e, axes) ? value(t, rank)[e] : std::nan(""); });
  }
  void read(const std::string& gate, TensorId t, bool parts) {
    std::vector<double>& all = read_[gate][t];
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      for (std::size_t e = 0; e < elements_; ++e) {
        if (!parts || owns(rank, e, sharded_)) all.push_back(value(t, rank)[e]);
      }
    }
  }

  const StepGraph& graph_;
  const Factorisation& mesh_;
  std::string sharded_;
  std::size_t elements_;
  std::vector<std::vector<std::vector<double>>> values_;  // by tensor, by rank
  std::map<std::string, int> seen_;
  ElementsRead read_;
};

}  // namespace

ElementsRead read_in_place(const StepGraph& graph, const Factorisation& mesh, const std::string& sharded,
                           const std::vector<TensorId>& read_later) {
  return Ranks(graph, mesh, sharded).run(read_later);
}

double worst(const ElementsRead& found, const ElementsRead& expected) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double most = found.size() == expected.size() ? 0 : kNever;
  for (const auto& [gate, tensors] : expected) {
    const auto same = found.find(gate);
    if (same == found.end() || same->second.size() != tensors.size()) return kNever;
    for (const auto& [t, elements] : tensors) {
      const std::vector<double>& is = same->second.at(t);
      for (std::size_t e = 0; e < elements.size(); ++e) {
        if (std::isnan(elements[e])) continue;
        most = std::isnan(is[e]) ? kNever : std::max(most, std::abs(is[e] - elements[e]));
      }
    }
  }
  return most;
}

}  // namespace sinew::parallel::test

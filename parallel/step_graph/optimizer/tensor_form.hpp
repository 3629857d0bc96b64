#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <sinew/parallel/mesh/axis_names.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// A set of axes as bits.
using AxisBits = std::uint64_t;
constexpr AxisBits kAllAxes = ~AxisBits{0};

/// The axes of the exchanges of a graph, each with a bit of its own. "near-far" are two axes.
class AxisSets {
 public:
  explicit AxisSets(const StepGraph& graph) {
    for (const Node& node : graph.nodes) add(node.axes);
  }
  void add(std::string_view axes) {
    if (axes.empty()) return;
    for (const std::string& axis : split_names(axes)) bits_.try_emplace(axis, bits_.size());
  }
  /// false: there are more axes than bits, and bits_of() may not be called.
  bool fit() const noexcept { return bits_.size() < 64; }
  /// All axes, if `axes` is empty.
  AxisBits bits_of(std::string_view axes) const {
    if (axes.empty()) return kAllAxes;
    AxisBits bits = 0;
    for (const std::string& axis : split_names(axes)) bits |= AxisBits{1} << bits_.at(axis);
    return bits;
  }

 private:
  std::map<std::string, std::size_t> bits_;
};

/// The state of a tensor that exchanges change in place, as far as a graph shows it. Along an axis that is in neither
/// set, the graph shows nothing.
struct TensorForm {
  AxisBits whole = 0, parts = 0, summed = 0;

  static bool has(AxisBits set, AxisBits axes) noexcept { return (axes & ~set) == 0; }
  void gather(AxisBits axes) noexcept { whole |= axes, parts &= ~axes; }
  void cut(AxisBits axes) noexcept { parts |= axes, whole &= ~axes; }
  /// The effect of an exchange in place, or of a Free.
  void apply(const Node& node, AxisBits axes) noexcept {
    switch (node.kind) {
      case NodeKind::AllGather: gather(axes); break;
      case NodeKind::ReduceScatter:
        summed |= axes;
        cut(axes);
        break;
      case NodeKind::AllReduce:
        summed |= axes;
        if (!node.parts) gather(axes);
        break;
      case NodeKind::Free: cut(axes); break;
      case NodeKind::AllToAll:
      case NodeKind::Receive: *this = {}; break;
      case NodeKind::Gate:
      case NodeKind::Signal:
      case NodeKind::Send:
      case NodeKind::Wait:
      case NodeKind::Split:
      case NodeKind::Compute: break;
    }
  }
};

}  // namespace sinew::parallel

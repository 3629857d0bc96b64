#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/distributed_tensor/candidates.hpp>
#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/placement/validity.hpp>
#include <sinew/parallel/step_graph/placed/bound_rule.hpp>
#include <sinew/parallel/step_graph/placed/labels.hpp>

namespace sinew::parallel {
namespace {

/// The placements of all operands and results along one axis.
struct AlongAxis {
  std::string text;
  std::vector<Placement> placements;
  char cut = 0;  ///< the label that is cut; 0: none
};

bool is_sum_of(const Placement& placement, ReduceOp op) {
  const auto* partial = std::get_if<Partial>(&placement);
  return partial != nullptr && partial->op == op;
}

/// Finds the candidates of one operation.
class CandidateSearch {
 public:
  CandidateSearch(const Operation& operation, const Factorisation& mesh)
      : op_(operation), mesh_(mesh), rule_(graph_, node_of(operation, graph_)) {
    if (!rule_.fault().empty())
      throw std::logic_error(fmt::format("{}: rule '{}': {}", op_.name, op_.rule.labels, rule_.fault()));
    find_axes();
  }

  std::vector<PlacedOperation> all() {
    std::vector<std::vector<AlongAxis>> by_axis;
    for (const Axis& axis : axes_) by_axis.push_back(along(axis));
    std::vector<const AlongAxis*> chosen;
    combine(by_axis, chosen);
    return std::move(found_);
  }

 private:
  static Node node_of(const Operation& op, StepGraph& graph) {
    Node node{.kind = NodeKind::Compute, .name = op.name, .rule = op.rule};
    for (const auto* specs : {&op.operands, &op.results}) {
      for (const TensorSpec& spec : *specs) {
        (specs == &op.operands ? node.operands : node.tensors).push_back(static_cast<TensorId>(graph.tensors.size()));
        StepTensor tensor;
        tensor.name = spec.name;
        tensor.shape = spec.shape;
        graph.tensors.push_back(std::move(tensor));
      }
    }
    return node;
  }

  void find_axes() {
    const auto add = [&](const Placements& placements) {
      for (const auto& entry : placements.entries()) {
        if (std::ranges::find(axes_, entry.axis, &Axis::name) == axes_.end())
          axes_.push_back({entry.axis, mesh_.size(entry.axis)});
      }
    };
    for (const TensorSpec& operand : op_.operands) add(operand.placements);
    if (op_.has_preferred && overlap().empty()) {
      const std::vector<Axis> before = axes_;
      add(op_.preferred);
      if (!overlap().empty()) axes_ = before;
    }
    if (const std::string fault = overlap(); !fault.empty())
      throw Error(Code::InvalidArgument, fmt::format("{}: its operands have placements along {}: {}; expected axes "
                                                     "that share no ranks' axis",
                                                     op_.name, names(), fault));
  }

  std::string names() const {
    std::vector<std::string> all;
    for (const Axis& axis : axes_) all.push_back(axis.name);
    return fmt::format("{}", fmt::join(all, ", "));
  }

  std::string overlap() const {
    std::string all;
    for (const Axis& axis : axes_) all += (all.empty() ? "" : "-") + axis.name;
    if (all.empty()) return {};
    try {
      static_cast<void>(mesh_.size(all));
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  }

  void add_if_derived(std::vector<AlongAxis>& all, std::string text, std::vector<Placement> operands,
                      const Axis& axis) const {
    BoundRule::Outcome outcome = rule_.derive(operands, axis);
    if (!outcome.fault.empty()) return;
    std::ranges::move(outcome.results, std::back_inserter(operands));
    all.push_back({std::move(text), std::move(operands), 0});
  }

  std::vector<AlongAxis> along(const Axis& axis) const {
    std::vector<AlongAxis> all;
    const std::size_t n = op_.operands.size();
    add_if_derived(all, "all whole", std::vector<Placement>(n, Replicate{}), axis);
    add_cuts(all, axis);
    add_partials(all, axis);
    return all;
  }

  /// Each label that may be cut, at the offsets of each tensor that has it, and evenly.
  void add_cuts(std::vector<AlongAxis>& all, const Axis& axis) const {
    std::vector<LabelCut> cuts;
    const auto add = [&](const std::optional<LabelCut>& cut) {
      if (cut && std::ranges::find(cuts, *cut) == cuts.end()) cuts.push_back(*cut);
    };
    for (std::size_t t = 0; t < op_.operands.size(); ++t) {
      for (const auto& entry : op_.operands[t].placements.entries()) {
        const auto* shard = std::get_if<Shard>(&entry.placement);
        if (shard != nullptr && entry.axis == axis.name) add(rule_.cut_of(t, *shard, axis.size));
      }
    }
    if (op_.has_preferred) {
      const auto* shard = std::get_if<Shard>(&op_.preferred.along(axis.name));
      if (shard != nullptr) add(rule_.cut_of(op_.operands.size(), *shard, axis.size));
    }
    for (const auto& [label, extent] : rule_.extents()) {
      if (extent > 1) add(LabelCut{label, even_offsets(axis.size, extent)});
    }
    for (const LabelCut& cut : cuts) add_cut(all, cut, axis);
  }

  void add_cut(std::vector<AlongAxis>& all, const LabelCut& cut, const Axis& axis) const {
    if (op_.rule.whole.find(cut.label) != std::string::npos) return;
    std::vector<Placement> placements;
    for (std::size_t t = 0; t < rule_.tensors(); ++t) {
      const std::optional<Placement> placement = rule_.placed(t, cut, axis.size);
      if (!placement) return;
      placements.push_back(*placement);
    }
    const auto n = static_cast<std::ptrdiff_t>(op_.operands.size());
    std::vector<Placement> operands(placements.begin(), placements.begin() + n);
    const bool in_operands =
        std::ranges::any_of(operands, [](const Placement& p) { return std::holds_alternative<Shard>(p); });
    AlongAxis made{fmt::format("{} cut", cut.label), {}, cut.label};
    if (in_operands) {
      BoundRule::Outcome outcome = rule_.derive(operands, axis);
      if (!outcome.fault.empty()) return;
      made.placements = std::move(operands);
      std::ranges::move(outcome.results, std::back_inserter(made.placements));
    } else {
      if (!rule_.fault_of(placements, axis).empty()) return;
      made.placements = std::move(placements);
    }
    all.push_back(std::move(made));
  }

  void add_partials(std::vector<AlongAxis>& all, const Axis& axis) const {
    const ReduceOp op = rule_.combines();
    const std::size_t n = op_.operands.size();
    if (rule_.adds()) {
      // A whole operand becomes a Partial without bytes. This pays only if the later reduction is no larger.
      const bool pays = std::ranges::any_of(op_.operands, [&](const TensorSpec& operand) {
        return is_sum_of(operand.placements.along(axis.name), op) && operand.elements() == op_.results[0].elements();
      });
      if (pays) add_if_derived(all, "all Partial", std::vector<Placement>(n, Partial{op}), axis);
      return;
    }
    for (const std::size_t linear : rule_.linear()) {
      if (!is_sum_of(op_.operands[linear].placements.along(axis.name), op)) continue;
      std::vector<Placement> operands(n, Replicate{});
      operands[linear] = Partial{op};
      add_if_derived(all, fmt::format("'{}' Partial", op_.operands[linear].name), std::move(operands), axis);
    }
  }

  void combine(const std::vector<std::vector<AlongAxis>>& by_axis, std::vector<const AlongAxis*>& chosen) {
    if (chosen.size() < by_axis.size()) {
      for (const AlongAxis& next : by_axis[chosen.size()]) {
        chosen.push_back(&next);
        combine(by_axis, chosen);
        chosen.pop_back();
      }
      return;
    }
    std::vector<std::size_t> order(chosen.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<char> cut;
    for (const AlongAxis* one : chosen) cut.push_back(one->cut);
    const auto twice = [&](char c) { return c != 0 && std::ranges::count(cut, c) > 1; };
    const bool ordered = std::ranges::any_of(cut, twice);
    do {
      add(chosen, order, ordered);
    } while (ordered && std::ranges::next_permutation(order).found);
  }

  void add(const std::vector<const AlongAxis*>& chosen, const std::vector<std::size_t>& order, bool nested) {
    PlacedOperation made;
    for (const std::size_t a : order)
      made.text += fmt::format("{}{}: {}", made.text.empty() ? "" : ", ", axes_[a].name, chosen[a]->text);
    if (made.text.empty()) made.text = "as they are";
    std::vector<TensorSpec> specs = op_.operands;
    specs.insert(specs.end(), op_.results.begin(), op_.results.end());
    for (std::size_t t = 0; t < specs.size(); ++t) {
      std::vector<Placements::Entry> entries;
      for (const std::size_t a : order) entries.push_back({axes_[a].name, chosen[a]->placements[t]});
      specs[t].placements = Placements(std::move(entries));
      if (!fault_of(specs[t], mesh_).empty()) return;
    }
    if (nested && !agrees(specs)) return;
    std::string key;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      (t < op_.operands.size() ? made.operands : made.results).push_back(normal_form(specs[t], mesh_));
      key += normal_form(specs[t], mesh_).to_string() + "|";
    }
    if (known_.insert(std::move(key)).second) found_.push_back(std::move(made));
  }

  /// Returns whether every rank has the same rows of a label in all tensors. If two axes cut a dimension of several
  /// labels, the inner cut may fall inside an inner label.
  bool agrees(const std::vector<TensorSpec>& specs) const {
    const Labels labels = split_labels(op_.rule.labels);
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      std::map<char, std::pair<std::int64_t, std::int64_t>> rows;
      for (std::size_t t = 0; t < specs.size(); ++t) {
        const Box box = box_of(specs[t], mesh_, rank);
        const auto& text = t < op_.operands.size() ? labels.operands[t] : labels.results[t - op_.operands.size()];
        const std::vector<std::string> dims = dims_of(text);
        for (std::size_t d = 0; d < dims.size(); ++d) {
          std::int64_t inner = 1;
          for (const char c : dims[d].substr(1)) inner *= rule_.extents().at(c);
          if (inner == 0 || box.first[d] % inner != 0 || box.last[d] % inner != 0) return false;
          const std::pair mine{box.first[d] / inner, box.last[d] / inner};
          if (rows.emplace(dims[d].front(), mine).first->second != mine) return false;
        }
      }
    }
    return true;
  }

  const Operation& op_;
  const Factorisation& mesh_;
  StepGraph graph_;
  BoundRule rule_;
  std::vector<Axis> axes_;
  std::vector<PlacedOperation> found_;
  std::set<std::string> known_;
};

}  // namespace

std::vector<PlacedOperation> candidates_of(const Operation& operation, const Factorisation& mesh) {
  return CandidateSearch(operation, mesh).all();
}

}  // namespace sinew::parallel

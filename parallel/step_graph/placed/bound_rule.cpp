#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/step_graph/placed/bound_rule.hpp>
#include <sinew/parallel/step_graph/placed/labels.hpp>

namespace sinew::parallel {
namespace {

bool is_whole(const Placement& p) noexcept { return std::holds_alternative<Replicate>(p); }
bool is_partial(const Placement& p) noexcept { return std::holds_alternative<Partial>(p); }
bool is_shard(const Placement& p) noexcept { return std::holds_alternative<Shard>(p); }

std::vector<std::int64_t> offsets_of(const Shard& shard, int ranks, std::int64_t extent) {
  std::vector<std::int64_t> offsets{0};
  for (int i = 0; i < ranks; ++i) offsets.push_back(rows_of(shard, i, ranks, extent).last);
  return offsets;
}

}  // namespace

std::vector<std::int64_t> even_offsets(int ranks, std::int64_t extent) { return offsets_of({0, {}}, ranks, extent); }

Placement plain(Placement placement, const std::vector<std::int64_t>& shape, int ranks) {
  if (auto* shard = std::get_if<Shard>(&placement)) {
    const std::int64_t extent = shape[static_cast<std::size_t>(shard->dim)];
    if (shard->offsets == even_offsets(ranks, extent)) shard->offsets.clear();
  }
  return placement;
}

BoundRule::BoundRule(const StepGraph& graph, const Node& node)
    : function_(node.rule.function),
      whole_(node.rule.whole),
      linear_(node.rule.linear),
      combines_(node.rule.combines),
      operands_(node.operands.size()) {
  const Labels labels = split_labels(node.rule.labels);
  fault_ = labels.fault;
  adds_ = labels.adds;
  if (fault_.empty() && (labels.operands.size() != operands_ || labels.results.size() != node.tensors.size()))
    fault_ = fmt::format("labels '{}' are of {} operands and {} results, found {} and {}", node.rule.labels,
                         labels.operands.size(), labels.results.size(), operands_, node.tensors.size());
  if (!fault_.empty()) return;
  for (const auto* tensors : {&labels.operands, &labels.results})
    for (const std::string& tensor : *tensors) dims_.push_back(dims_of(tensor));
  for (const auto* ids : {&node.operands, &node.tensors}) {
    for (const TensorId t : *ids) {
      const StepTensor& tensor = graph.tensors[static_cast<std::size_t>(t)];
      names_.push_back(tensor.name);
      shapes_.push_back(tensor.shape);
      if (shapes_.back().size() != dims_[shapes_.size() - 1].size())
        fault_ = fmt::format("'{}' has {} dimensions, expected {} of labels '{}'", tensor.name, tensor.shape.size(),
                             dims_[shapes_.size() - 1].size(), node.rule.labels);
    }
  }
  if (fault_.empty()) find_extents(node.rule.extents);
}

void BoundRule::find_extents(const std::vector<std::pair<char, std::int64_t>>& known) {
  extents_.insert(known.begin(), known.end());
  const auto is_known = [&](char c) { return extents_.contains(c); };
  for (bool again = true; again;) {
    again = false;
    for (std::size_t t = 0; t < dims_.size(); ++t) {
      for (std::size_t d = 0; d < dims_[t].size(); ++d) {
        const std::string& dim = dims_[t][d];
        if (std::ranges::count_if(dim, is_known) + 1 != std::ssize(dim)) continue;
        std::int64_t rest = shapes_[t][d];
        for (const char c : dim) rest = is_known(c) ? rest / std::max<std::int64_t>(extents_[c], 1) : rest;
        extents_.emplace(*std::ranges::find_if_not(dim, is_known), rest);
        again = true;
      }
    }
  }
  for (std::size_t t = 0; t < dims_.size(); ++t) {
    for (std::size_t d = 0; d < dims_[t].size(); ++d) {
      const std::string& dim = dims_[t][d];
      std::int64_t product = 1;
      for (const char c : dim) product *= is_known(c) ? extents_[c] : -1;
      if (product != shapes_[t][d])
        fault_ = fmt::format("'{}' has {} in dimension {}, where other tensors and extents make '{}' {}", names_[t],
                             shapes_[t][d], d, dim, product < 0 ? "unknown" : std::to_string(product));
    }
  }
}

std::int64_t BoundRule::inner(const std::string& dim) const {
  std::int64_t product = 1;
  for (const char c : dim.substr(1)) product *= extents_.at(c);
  return product;
}

bool BoundRule::has(std::size_t tensor, char label) const {
  return std::ranges::any_of(dims_[tensor], [&](const std::string& d) { return d.find(label) != std::string::npos; });
}

std::optional<LabelCut> BoundRule::cut_of(std::size_t tensor, const Shard& shard, int ranks) const {
  const auto d = static_cast<std::size_t>(shard.dim);
  const std::string& dim = dims_[tensor][d];
  const std::int64_t each = inner(dim);
  LabelCut cut{dim.front(), offsets_of(shard, ranks, shapes_[tensor][d])};
  for (std::int64_t& offset : cut.offsets) {
    if (each == 0 || offset % each != 0) return std::nullopt;
    offset /= each;
  }
  return cut;
}

std::optional<Placement> BoundRule::placed(std::size_t tensor, const LabelCut& cut, int ranks) const {
  for (std::size_t d = 0; d < dims_[tensor].size(); ++d) {
    const std::string& dim = dims_[tensor][d];
    if (dim.find(cut.label) == std::string::npos) continue;
    if (dim.front() != cut.label) return std::nullopt;
    Shard shard{static_cast<int>(d), cut.offsets};
    for (std::int64_t& offset : shard.offsets) offset *= inner(dim);
    return plain(std::move(shard), shapes_[tensor], ranks);
  }
  return Replicate{};
}

std::vector<std::pair<int, int>> BoundRule::shared_dims(std::size_t a, std::size_t b) const {
  std::vector<std::pair<int, int>> shared;
  for (std::size_t i = 0; i < dims_[a].size(); ++i) {
    for (std::size_t k = 0; k < dims_[b].size(); ++k) {
      if (dims_[a][i].front() == dims_[b][k].front()) shared.emplace_back(static_cast<int>(i), static_cast<int>(k));
    }
  }
  return shared;
}

std::string BoundRule::complaint(std::size_t tensor, const Axis& axis, const Placement& found,
                                 std::string_view expected) const {
  return fmt::format("'{}' along {}: found {}, expected {}", names_[tensor], axis.name, to_string(found), expected);
}

BoundRule::Outcome BoundRule::derive(std::span<const Placement> operands, const Axis& axis) const {
  if (std::ranges::any_of(operands, is_partial)) return derive_sums(operands, axis);
  if (std::ranges::any_of(operands, is_shard)) return derive_cut(operands, axis);
  return {{}, std::vector<Placement>(dims_.size() - operands_, Replicate{})};
}

BoundRule::Outcome BoundRule::derive_sums(std::span<const Placement> operands, const Axis& axis) const {
  const auto first = static_cast<std::size_t>(std::ranges::find_if(operands, is_partial) - operands.begin());
  const std::string also = fmt::format(" beside '{}', which is {}", names_[first], to_string(operands[first]));
  for (std::size_t t = 0; t < operands.size(); ++t) {
    if (is_partial(operands[t]) && std::get<Partial>(operands[t]).op != combines_) {
      const std::string_view expected =
          combines_ == ReduceOp::Sum ? "Replicate: only sums may be missing" : "Replicate: another operator is missing";
      return {complaint(t, axis, operands[t], expected), {}};
    }
    if (adds_ && !is_partial(operands[t])) return {complaint(t, axis, operands[t], "Partial(sum)" + also), {}};
    if (!adds_ && t != first && !is_whole(operands[t]))
      return {complaint(t, axis, operands[t], "Replicate" + also), {}};
  }
  if (!adds_ && std::ranges::find(linear_, first) == linear_.end())
    return {complaint(first, axis, operands[first], "Replicate: the compute is not linear in it"), {}};
  return {{}, std::vector<Placement>(dims_.size() - operands_, Partial{combines_})};
}

BoundRule::Outcome BoundRule::derive_cut(std::span<const Placement> operands, const Axis& axis) const {
  const auto first = static_cast<std::size_t>(std::ranges::find_if(operands, is_shard) - operands.begin());
  const std::optional<LabelCut> cut = cut_of(first, std::get<Shard>(operands[first]), axis.size);
  if (!cut) return {complaint(first, axis, operands[first], "a cut that leaves its inner labels whole"), {}};
  if (whole_.find(cut->label) != std::string::npos)
    return {complaint(first, axis, operands[first], fmt::format("Replicate: '{}' must be whole", cut->label)), {}};
  for (std::size_t t = 0; t < operands.size(); ++t) {
    const std::optional<Placement> expected = placed(t, *cut, axis.size);
    if (!expected) return {complaint(t, axis, operands[t], "Replicate: its inner labels must be whole"), {}};
    if (plain(operands[t], shapes_[t], axis.size) != *expected)
      return {complaint(t, axis, operands[t],
                        fmt::format("{} beside '{}', which is {}", to_string(*expected), names_[first],
                                    to_string(operands[first]))),
              {}};
  }
  Outcome outcome;
  for (std::size_t t = operands_; t < dims_.size(); ++t) {
    const std::optional<Placement> result = has(t, cut->label) ? placed(t, *cut, axis.size) : Partial{combines_};
    if (!result)
      return {complaint(first, axis, operands[first],
                        fmt::format("Replicate: '{}' is inside a dimension of '{}'", cut->label, names_[t])),
              {}};
    outcome.results.push_back(*result);
  }
  return outcome;
}

/// If no operand has a label, each rank can make its own part of the results along that label.
bool BoundRule::is_broadcast(std::span<const Placement> results, const Axis& axis) const {
  const auto first = static_cast<std::size_t>(std::ranges::find_if(results, is_shard) - results.begin());
  if (first == results.size()) return false;
  const std::optional<LabelCut> cut = cut_of(operands_ + first, std::get<Shard>(results[first]), axis.size);
  if (!cut || whole_.find(cut->label) != std::string::npos) return false;
  for (std::size_t t = 0; t < dims_.size(); ++t) {
    if (t < operands_
            ? has(t, cut->label)
            : !has(t, cut->label) || placed(t, *cut, axis.size) != plain(results[t - operands_], shapes_[t], axis.size))
      return false;
  }
  return true;
}

std::string BoundRule::fault_of(std::span<const Placement> all, const Axis& axis) const {
  const auto operands = all.first(operands_), results = all.subspan(operands_);
  Outcome outcome = derive(operands, axis);
  if (!outcome.fault.empty()) return outcome.fault;
  if (std::ranges::all_of(operands, is_whole) && is_broadcast(results, axis)) return {};
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (plain(results[i], shapes_[operands_ + i], axis.size) != outcome.results[i])
      return complaint(operands_ + i, axis, results[i],
                       to_string(outcome.results[i]) + ": what follows from its operands");
  }
  return {};
}

}  // namespace sinew::parallel

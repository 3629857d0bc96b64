#include <algorithm>

#include <sinew/parallel/data_parallel/unit_uses.hpp>

namespace sinew::parallel {

UnitUses::UnitUses(const std::vector<UnitAction>& actions, const std::vector<std::string>& units) {
  using enum StepProtocol::UnitCallKind;
  for (const auto& [kind, name] : actions) {
    const auto unit = static_cast<std::int32_t>(std::ranges::find(units, name) - units.begin());
    if (kind == UnitActionKind::Use) uses_.push_back({unit, calls_.size()});
    if (kind == UnitActionKind::Unshard) calls_.push_back({Unshard, unit});
    if (kind == UnitActionKind::Reshard) calls_.push_back({Reshard, unit});
    if (kind == UnitActionKind::Reduce) calls_.push_back({Reduce, unit});
  }
}

std::optional<std::size_t> UnitUses::before_use(std::int32_t unit, std::size_t made) const {
  for (auto use = std::ranges::lower_bound(uses_, made, {}, &Use::calls); use != uses_.end(); ++use) {
    if (use->unit == unit) return use->calls;
    if (use->calls > made) {
      // Uses with as many calls before them may come in any order.
      const auto same = [&](const Use& other) { return other.unit == unit && other.calls == use->calls; };
      const auto last = std::ranges::upper_bound(use, uses_.end(), use->calls, {}, &Use::calls);
      return std::any_of(use, last, same) ? std::optional(use->calls) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::size_t UnitUses::to_reshard(std::int32_t unit, std::size_t made) const {
  const auto is_of_unit = [&](const StepProtocol::UnitCall& call) {
    return call.unit == unit && call.kind != StepProtocol::UnitCallKind::Reduce;
  };
  const auto next = calls_.begin() + static_cast<std::ptrdiff_t>(made);
  const auto last = std::find_if(std::make_reverse_iterator(next), calls_.rend(), is_of_unit);
  if (last == calls_.rend() || last->kind == StepProtocol::UnitCallKind::Reshard) return made;
  const auto reshard = std::find_if(next, calls_.end(), is_of_unit);
  return static_cast<std::size_t>(reshard - calls_.begin()) + (reshard == calls_.end() ? 0 : 1);
}

}  // namespace sinew::parallel

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/data_parallel/plan/unit_order.hpp>

namespace sinew::parallel {
namespace {

std::string_view name_of_action(UnitActionKind kind) noexcept {
  constexpr std::array<std::string_view, 5> kActions{"unshard", "use", "reshard", "add gradients", "reduce"};
  return kActions[static_cast<std::size_t>(kind)];
}

/// Follows the state of units through an order, and collects what is wrong.
class OrderJudge {
 public:
  OrderJudge(const std::vector<DataParameter>& parameters, const DataRow& row)
      : row_(row), sharded_(sharded_axis(row)) {
    for (const DataParameter& p : parameters) units_.insert(p.unit);
  }

  std::vector<std::string> run(const UnitOrder& order) && {
    take_all(order.training, "training");
    for (const std::string& unit : units_) {
      if (states_[unit].reduces == 0)
        complain(fmt::format("unit '{}' is never reduced, expected a Reduce after its last gradient", unit));
    }
    states_.clear();
    for (const UnitAction& action : order.evaluation) {
      if (action.kind == UnitActionKind::AddGradients || action.kind == UnitActionKind::Reduce)
        complain(fmt::format("an evaluation has '{} {}', expected a pass without gradients",
                             name_of_action(action.kind), action.unit));
    }
    take_all(order.evaluation, "evaluation");
    return std::move(wrong_);
  }

 private:
  struct UnitState {
    bool unsharded = false, adds = false;
    int reduces = 0;
  };

  bool gathers() const noexcept { return sharded_.parameter == Held::Sharded; }
  void complain(std::string what) { wrong_.push_back(std::move(what)); }

  void take_all(const std::vector<UnitAction>& actions, std::string_view pass) {
    for (const UnitAction& action : actions) {
      if (!units_.contains(action.unit)) {
        complain(fmt::format("the order of {} names unit '{}', expected one of {}", pass, action.unit,
                             fmt::join(units_, ", ")));
        return;
      }
      take(action, states_[action.unit]);
    }
    for (const auto& [unit, state] : states_) {
      if (state.unsharded)
        complain(fmt::format("unit '{}' is unsharded at the end of the {}, expected a Reshard", unit, pass));
      if (state.adds)
        complain(fmt::format("gradients of unit '{}' are added up after its last Reduce, expected a Reduce after them",
                             unit));
    }
  }

  void take(const UnitAction& action, UnitState& state) {
    const std::string& unit = action.unit;
    switch (action.kind) {
      case UnitActionKind::Unshard:
        if (state.unsharded) complain(fmt::format("unit '{}' is unsharded twice, expected a Reshard between", unit));
        state.unsharded = true;
        return;
      case UnitActionKind::Reshard:
        if (!state.unsharded) complain(fmt::format("unit '{}' is resharded, expected an Unshard before", unit));
        state.unsharded = false;
        return;
      case UnitActionKind::AddGradients:
        if (state.adds)
          complain(fmt::format("unit '{}' begins to add gradients twice, expected a Reduce between", unit));
        state.adds = true;
        [[fallthrough]];
      case UnitActionKind::Use:
        if (gathers() && !state.unsharded)
          complain(
              fmt::format("unit '{}' computes while its parameters are sharded, expected an Unshard before it, "
                          "because row '{}' shards parameters",
                          unit, row_.name));
        return;
      case UnitActionKind::Reduce:
        if (!state.adds) complain(fmt::format("unit '{}' is reduced without new gradients", unit));
        state.adds = false;
        if (++state.reduces == 2 && sharded_.gradient == Held::Whole)
          complain(
              fmt::format("unit '{}' is reduced more than once in a step, expected one Reduce, because row '{}' "
                          "keeps whole gradients",
                          unit, row_.name));
        return;
    }
  }

  const DataRow& row_;
  DataAxis sharded_;
  std::set<std::string> units_;
  std::map<std::string, UnitState> states_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::string to_string(const std::vector<UnitAction>& actions) {
  std::vector<std::string> texts;
  for (const UnitAction& action : actions)
    texts.push_back(fmt::format("{} {}", name_of_action(action.kind), action.unit));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<std::string> violations_of(const UnitOrder& order, const std::vector<DataParameter>& parameters,
                                       const DataRow& row) {
  return OrderJudge(parameters, row).run(order);
}

bool reduces_again(const UnitOrder& order) {
  std::set<std::string_view> reduced;
  return std::ranges::any_of(order.training, [&](const UnitAction& action) {
    return action.kind == UnitActionKind::Reduce && !reduced.insert(action.unit).second;
  });
}

}  // namespace sinew::parallel

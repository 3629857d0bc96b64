#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/parameter_use.hpp>

namespace sinew::parallel {
namespace {

enum class Parameters : std::uint8_t { Always, Sharded, Whole };

std::vector<Parameters> at_first(const Inventory& inventory) {
  std::vector<Parameters> all(static_cast<std::size_t>(inventory.schedule().stages()), Parameters::Always);
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    const Action& a = inventory.action(n);
    if (a.kind == ActionKind::Unshard || a.kind == ActionKind::Reshard)
      all[static_cast<std::size_t>(a.stage)] = Parameters::Sharded;
  }
  return all;
}

/// Changes the state of the parameters by an action. Returns what is wrong with the action in that state.
std::string take(const Action& a, Parameters& state) {
  if (is_compute(a.kind) && state == Parameters::Sharded)
    return fmt::format("{}: the parameters of stage {} are not unsharded", to_string(a), a.stage);
  if (a.kind == ActionKind::Unshard) {
    if (state == Parameters::Whole) return fmt::format("{}: they are unsharded already", to_string(a));
    state = Parameters::Whole;
  }
  if (a.kind == ActionKind::Reshard) {
    if (state == Parameters::Sharded) return fmt::format("{}: they are not unsharded", to_string(a));
    state = Parameters::Sharded;
  }
  return {};
}

/// The first Reduce without new gradients, or a stage with gradients after its last Reduce.
std::optional<ScheduleFault> find_misuse_of_gradients(const Inventory& inventory) {
  std::vector<std::int32_t> added(static_cast<std::size_t>(inventory.schedule().stages()), 0);
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    const Action& a = inventory.action(n);
    std::int32_t& of_stage = added[static_cast<std::size_t>(a.stage)];
    if (a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient) ++of_stage;
    if (a.kind != ActionKind::Reduce) continue;
    const std::int32_t rank = inventory.rank(n);
    if (of_stage == 0)
      return ScheduleFault{fmt::format("{}: there are no new gradients of stage {}", to_string(a), a.stage), rank,
                           n - inventory.first(rank)};
    of_stage = 0;
  }
  for (std::int32_t s = 0; s < inventory.schedule().stages(); ++s) {
    const std::int32_t last = inventory.find(ActionKind::Reduce, s);
    if (last < 0 || added[static_cast<std::size_t>(s)] == 0) continue;
    const std::int32_t rank = inventory.rank(last);
    return ScheduleFault{fmt::format("{}: {} gradients of stage {} come after its last Reduce",
                                     to_string(inventory.action(last)), added[static_cast<std::size_t>(s)], s),
                         rank, last - inventory.first(rank)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScheduleFault> find_misuse_of_parameters(const Inventory& inventory) {
  std::vector<Parameters> states = at_first(inventory);
  for (std::int32_t n = 0; n < inventory.count(); ++n) {
    const Action& a = inventory.action(n);
    std::string wrong = take(a, states[static_cast<std::size_t>(a.stage)]);
    const std::int32_t rank = inventory.rank(n);
    if (!wrong.empty()) return ScheduleFault{std::move(wrong), rank, n - inventory.first(rank)};
  }
  for (std::int32_t s = 0; s < inventory.schedule().stages(); ++s) {
    if (states[static_cast<std::size_t>(s)] == Parameters::Whole)
      return ScheduleFault{fmt::format("stage {} is not resharded at the end", s), rank_of(inventory.schedule(), s)};
  }
  return find_misuse_of_gradients(inventory);
}

}  // namespace sinew::parallel

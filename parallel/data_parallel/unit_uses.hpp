#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/parallel/data_parallel/plan/unit_order.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {

/// An order of actions on units as calls, and the uses between them.
class UnitUses {
 public:
  UnitUses() = default;
  UnitUses(const std::vector<UnitAction>& actions, const std::vector<std::string>& units);

  const std::vector<StepProtocol::UnitCall>& calls() const noexcept { return calls_; }
  /// The number of calls that come before the next use of the unit, for a rank that has made `made` calls. {}: another
  /// unit is used first, or the unit is not used any more.
  std::optional<std::size_t> before_use(std::int32_t unit, std::size_t made) const;
  /// The number of calls up to the next reshard of the unit, this one included. `made` if the unit is sharded.
  std::size_t to_reshard(std::int32_t unit, std::size_t made) const;

 private:
  struct Use {
    std::int32_t unit = 0;
    std::size_t calls = 0;  // that come before it
  };
  std::vector<StepProtocol::UnitCall> calls_;
  std::vector<Use> uses_;
};

}  // namespace sinew::parallel

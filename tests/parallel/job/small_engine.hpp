#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/job/engine_facts.hpp>

namespace sinew::parallel::test {

/// An engine of three units of 1000, 100 and 1000 elements, of which a sample takes 1000 bytes, or 100 where everything
/// is computed again.
inline EngineFacts small_engine() {
  return {.axes = {"dp"},
          .parameters =
              [](const JobConfig& config, const RankPlace& /*place*/) {
                std::vector<DataParameter> all;
                for (const auto& [unit, elements] : {std::pair("a", 1000), {"b", 100}, {"c", 1000}})
                  all.push_back({.path = std::string(unit) + ".weight",
                                 .dtype = config.precision.parameter,
                                 .elements = elements,
                                 .unit = unit,
                                 .gradient = config.precision.gradient});
                return all;
              },
          .activation_bytes =
              [](const JobConfig& config, std::int64_t samples, const RankPlace& /*place*/) {
                return static_cast<std::size_t>(samples) * (config.recompute == Recompute::Full ? 100U : 1000U);
              },
          .outer_unit = ""};
}

}  // namespace sinew::parallel::test

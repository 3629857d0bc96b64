#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/simulator/simulate.hpp>

namespace sinew::tools {

/// Reports and traces show microseconds; forecasts are in seconds.
inline constexpr double kMicrosecondsPerSecond = 1e6;

/// One candidate for a call: the time that it takes, or why it was rejected.
struct SimulatedWay {
  std::string algorithm;  ///< "ring", "hierarchical"
  std::string way;        ///< "direct inside hosts, ring across"; may be empty
  std::string across;     ///< "ring": of a composition; else empty
  std::optional<Recipe> recipe;
  Forecast forecast;
  std::string rejected;  ///< empty: it was simulated
};

/// "ring", "hierarchical, direct inside hosts, ring across".
std::string full_name(const SimulatedWay& way);
/// "ring", "hierarchical ring".
std::string short_name(const SimulatedWay& way);

/// Receives what begins, and the share of all simulations that had begun before.
using ShowBegin = std::function<void(const std::string& what, double share)>;

/// Simulates every algorithm, or those of one name. The fastest comes first, rejected candidates last. `begins` is
/// called with the name of each before it is simulated. For a large cluster up to four threads simulate, and `begins`
/// is called by one of them at a time.
/// Errors: Error{InvalidArgument} that lists the known names.
std::vector<SimulatedWay> simulate_ways(const CollectiveDesc& desc, const Network& network,
                                        const std::string& algorithm, const ShowBegin& begins,
                                        const SimulationOptions& options = {});

}  // namespace sinew::tools

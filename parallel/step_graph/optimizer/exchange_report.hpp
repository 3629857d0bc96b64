#pragma once

// Optimizes the exchanges of step graphs, and says what it has done. The room holds optimize_exchanges(), which all
// builders of step graphs call, its report, and the steps of which the passes know nothing. It may include the rooms
// `step_graph`, `placed` and `passes`, and the mesh.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// The costs of exchanges, as far as the caller knows them.
struct ExchangePrices {
  /// The number of ranks along axes of the mesh. Empty: unknown. The bytes of a report are then those of whole tensors.
  std::function<int(std::string_view axes)> ranks{};
  /// The predicted seconds of an exchange of whole tensors that have `bytes` together. Empty: unknown. A report then
  /// has no times.
  std::function<double(NodeKind kind, std::string_view axes, std::int64_t bytes)> seconds{};

  /// Bytes that all ranks of a group together send at least, with a ring, for whole tensors of `bytes`.
  SINEW_API std::int64_t sent(NodeKind kind, std::string_view axes, std::int64_t bytes) const;
};

/// The kinds of changes of exchanges.
enum class ExchangeChange : std::uint8_t {
  Removed,
  Added,   ///< it takes the place of removed ones, or saves memory
  Merged,  ///< several exchanges became this one
  Moved,   ///< it starts earlier, or is waited for later
};
SINEW_API std::string_view name_of(ExchangeChange change) noexcept;

/// A line of a report.
struct ExchangeEntry {
  ExchangeChange change = ExchangeChange::Removed;
  NodeKind kind = NodeKind::AllGather;
  std::string axes{};
  std::vector<TensorId> tensors{};
  std::string why{};
  /// Removed: the bytes that are sent no more. Otherwise those that the exchange sends.
  std::int64_t bytes = 0;
  /// The predicted time that the change saves, in seconds. It is negative for an added exchange. Moved: the time of the
  /// exchange if the engine now works between its start and its wait, and did not before.
  double seconds = 0;
};

/// The exchanges of a graph along some axes.
struct AxesTraffic {
  std::int32_t exchanges = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  friend bool operator==(const AxesTraffic&, const AxesTraffic&) = default;
};
/// The traffic by the axes of the exchanges. A send counts, and its receive does not.
using TrafficByAxes = std::map<std::string, AxesTraffic, std::less<>>;
SINEW_API TrafficByAxes traffic_by_axes(const StepGraph& graph, const ExchangePrices& prices);

/// The changes that optimize_exchanges() has made to a graph, and why.
/// Units: bytes that all ranks of a group together send. If ExchangePrices::ranks is empty: bytes of whole tensors.
struct ExchangeReport {
  std::vector<ExchangeEntry> entries{};
  TrafficByAxes before{}, after{};
  bool has_times = false;  ///< the prices had seconds

  /// The number of entries of a kind of change.
  SINEW_API std::int64_t count(ExchangeChange change) const noexcept;
  /// A line for the traffic along each of the axes before and after. A line for each entry. Such as:
  ///     dp: 12 exchanges, 40MiB, 3.1 ms -> 4 exchanges, 40MiB, 2.2 ms
  ///     merged all_reduce over dp of w2.grad and 2 others (12KiB): 3 exchanges in one, 20 us saved
  /// Shape: `graph` is the optimized graph.
  SINEW_API std::string to_string(const StepGraph& graph) const;
  /// Appends the report of a later change of the same graph, which may have got more exchanges in the meantime.
  SINEW_API void append(ExchangeReport later);
};

}  // namespace sinew::parallel

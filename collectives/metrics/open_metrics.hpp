#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/runtime/call_record.hpp>

namespace sinew {

/// The metrics of one rank.
struct RankMetrics {
  std::string host;
  std::uint32_t world = 0;  ///< tells Worlds of one process apart: 0, 1, ... in the order in which they were made
  int rank = -1;            ///< in that World
  bool is_in_world = true;  ///< false: it has left the World, or was lost
  std::uint64_t open_calls = 0;
  double longest_open_s = 0;  ///< seconds since the oldest open call began; 0: none is open
  std::vector<CountersSeen> counters{};
};

/// Reads a rank's page while the rank writes it. `host`, `world` and `is_in_world` are left as they are. now: on the
/// clock of the records.
SINEW_API RankMetrics read_metrics(const RecordPage& page, std::int64_t now);

/// The metrics of all these ranks as OpenMetrics text, version 1.0.0.
/// Source: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
SINEW_API std::string open_metrics_text(std::span<const RankMetrics> ranks);

}  // namespace sinew

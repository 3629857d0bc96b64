#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/metrics/open_metrics.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/net/control_thread.hpp>

namespace sinew {

class MetricsOutlet;

/// Shows the metrics of the ranks of one World on this host, where SINEW_METRICS_FILE or SINEW_METRICS_SOCKET asks for
/// them. The file is written at once, every five seconds, and a last time when the World ends. Runs on the control
/// thread.
/// Errors: none. A path that cannot be used is one warning, and the job goes on.
class WorldMetrics {
 public:
  /// Null if nobody asks for metrics, or if a lower rank of this host shows them.
  /// Lifetime: `control` outlives the object.
  static std::unique_ptr<WorldMetrics> make(const Config& config, const ControlService& control);
  ~WorldMetrics();
  WorldMetrics(const WorldMetrics&) = delete;
  WorldMetrics& operator=(const WorldMetrics&) = delete;

 private:
  friend class MetricsOutlet;

  WorldMetrics(const Config& config, const ControlService& control);
  void add_to(std::vector<RankMetrics>& all) const;

  const ControlService& control_;
  std::uint32_t world_ = 0;
  bool is_ending_ = false;
  std::shared_ptr<ControlThread> thread_;
  std::shared_ptr<MetricsOutlet> outlet_;
};

}  // namespace sinew

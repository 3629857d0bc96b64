#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/core/host/run_queue_delay.hpp>

#include "ranks.hpp"

namespace sinew::tools {

/// More than this share of the cores, taken by others, spoils a measurement.
inline constexpr double kNoiseShare = 0.02;

/// What the kernel has counted so far.
struct CpuCounts {
  double wall_s = 0;
  double idle_s = 0;  ///< of all cores together
  double own_s = 0;   ///< of this process, all its threads
  int cores = 1;
};
CpuCounts read_cpu_counts();

/// Cores' seconds that processes outside the job took between two readings on one host; `job_s` is what all ranks of
/// the host took. The kernel counts idle time in ticks of 10 ms, which are given the benefit of the doubt.
double outside_share(const CpuCounts& before, const CpuCounts& after, double job_s) noexcept;

/// Judges what others took while a measurement ran: all ranks of a job use it together and hear the same verdict.
class NoiseGauge {
 public:
  /// `accounted`: ranks of this rank's host, one of each process. Only they judge: a further thread of a process begins
  /// and ends its span when it gets a core, and what the process took in that time nobody has told it. `ranks_fit`: the
  /// ranks of a host are not more than its usable cores.
  NoiseGauge(Ranks& ranks, std::vector<int> accounted, bool ranks_fit,
             std::function<CpuCounts()> read_counts = read_cpu_counts);

  /// Around a timed batch that took `elapsed_s`, on each rank for itself.
  void begin_batch() noexcept {
    if (fits_) batch_before_ = delay_.read();
  }
  bool batch_was_delayed(double elapsed_s) const noexcept;

  /// Around many batches, which the coarse counters need.
  void begin_span() { span_before_ = read_counts_(); }
  bool span_was_noisy();

 private:
  Ranks& ranks_;
  std::vector<int> accounted_;
  bool fits_;
  std::function<CpuCounts()> read_counts_;
  RunQueueDelay delay_;
  Displacement batch_before_;
  CpuCounts span_before_;
};

}  // namespace sinew::tools

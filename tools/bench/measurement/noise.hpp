#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/core/host/run_queue_delay.hpp>

#include "ranks.hpp"

namespace sinew::tools {

/// A measurement is noisy if other processes take more than this share of the cores.
inline constexpr double kNoiseShare = 0.02;

/// The kernel's counters at one moment.
struct CpuCounts {
  double wall_s = 0;
  double idle_s = 0;  ///< of all cores together
  double own_s = 0;   ///< of this process, all its threads
  int cores = 1;
};
CpuCounts read_cpu_counts();

/// The share of a host's CPU time that processes outside the job took between two readings. `job_s`: CPU seconds of all
/// ranks of the host. The kernel counts idle time in ticks of 10 ms, so two ticks are counted as time of the job.
double outside_share(const CpuCounts& before, const CpuCounts& after, double job_s) noexcept;

/// Judges how much CPU time other processes took during a measurement. All ranks of a job use it together and get the
/// same verdict.
class NoiseGauge {
 public:
  /// `accounted`: the ranks of this rank's host, but only one for each process. Only these ranks judge. Another thread
  /// of a process begins and ends its span when it gets a core, while the CPU time is that of the whole process.
  /// `ranks_fit`: true if no host has more ranks than usable cores.
  NoiseGauge(Ranks& ranks, std::vector<int> accounted, bool ranks_fit,
             std::function<CpuCounts()> read_counts = read_cpu_counts);

  /// These two enclose a timed batch that took `elapsed_s`. Each rank judges for itself.
  void begin_batch() noexcept {
    if (fits_) batch_before_ = delay_.read();
  }
  bool batch_was_delayed(double elapsed_s) const noexcept;

  /// These two enclose many batches, since the kernel's counters are too coarse for one.
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

#pragma once

#include <cstddef>
#include <optional>

#include "contestant.hpp"
#include "noise.hpp"
#include "ranks.hpp"
#include "workload.hpp"

namespace sinew::tools {

struct ProtocolOptions {
  double batch_s = 200e-6;
  std::size_t least_batches = 11;
  double least_s = 0.1;         ///< all batches of a measurement together, so that noise can be told
  std::size_t iterations = 20;  ///< calls timed at least; 0: nothing is timed, one call of each is made and checked
  std::size_t warmup = 5;
  std::size_t repeats = 3;    ///< of what was noisy
  bool warm_buffers = false;  ///< one slot over and over, nothing written or read in between
};

struct Timing {
  double seconds = 0;      ///< per call: median over batches of the slowest rank
  double p99_seconds = 0;  ///< per call, from a pass of its own; of the peer not taken
  std::size_t calls_per_batch = 1;
};

struct Measurement {
  bool timed = true;  ///< else there are no times, of nobody
  Timing ours;
  std::optional<Timing> peer;
  std::uint64_t wrong = 0;  ///< elements, on all ranks, of ours
  std::uint64_t peer_wrong = 0;
  bool noisy = false;
};

/// One line of the table. All ranks call it together; it ends the same on all.
/// A batch is enough calls to last batch_s and uses no slot twice; ours and the peer's batches take turns on the same
/// slots; before each, untimed, all inputs are written anew, after each all outputs are read.
Measurement measure(const ProtocolOptions& options, Ranks& ranks, NoiseGauge& noise, Workload& work, std::size_t slots,
                    Contestant& ours, Contestant* peer);

/// Do so many batches that somebody delayed, in spite of repeats, spoil the median of all? More than a quarter may.
bool delays_spoil(std::size_t delayed, std::size_t batches) noexcept;

/// The middle one; of an even number the mean of the middle two. `values` is not empty.
double median(std::vector<double> values);
/// The smallest value that at least this share of the values does not exceed.
double quantile(std::vector<double> values, double share);

}  // namespace sinew::tools

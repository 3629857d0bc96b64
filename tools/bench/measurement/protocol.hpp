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

/// Measures one line of the table. All ranks call it together and get the same result.
/// A batch has enough calls to last batch_s and uses no slot twice. Our batches and the peer's take turns on the same
/// slots. Before each batch all inputs are written anew, after it all outputs are read; neither is timed.
Measurement measure(const ProtocolOptions& options, Ranks& ranks, NoiseGauge& noise, Workload& work, std::size_t slots,
                    Contestant& ours, Contestant* peer);

/// True if so many batches were delayed that the median of all batches is spoilt: more than a quarter.
bool delays_spoil(std::size_t delayed, std::size_t batches) noexcept;

/// The middle value; of an even number of values the mean of the middle two.
/// Shape: `values` is not empty.
double median(std::vector<double> values);
/// The smallest value that is not exceeded by at least this share of the values.
double quantile(std::vector<double> values, double share);

}  // namespace sinew::tools

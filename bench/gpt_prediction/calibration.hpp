#pragma once

#include <cstdint>
#include <gpt/text/text.hpp>
#include <gpt/train/options.hpp>
#include <memory>
#include <vector>

#include <sinew/collectives/world.hpp>

/// What computing takes on this machine, measured on one rank of each core at a time, without any exchange. Seconds.
struct Calibration {
  struct Stage {
    double forward = 0, backward = 0;                ///< of a micro-batch
    double input_gradient = 0, weight_gradient = 0;  ///< where a schedule has them apart

    double total() const noexcept { return forward + backward + input_gradient + weight_gradient; }
  };
  std::vector<Stage> stages;  ///< of this rank's pipeline place
  double update = 0;          ///< of what a rank's optimizer owns: norm, Adam, gradients to zero
};

/// How many ranks run on a host, and on how many cores: what a rank's computing is slowed down by.
struct Sharing {
  int ranks = 1, cores = 1;
  double factor() const noexcept { return ranks > cores ? static_cast<double>(ranks) / cores : 1; }
};

/// Of the host of this rank.
Sharing sharing_of(sinew::World& world);

/// Measures that again and again, as neighbours come and go. Stages are those of the layout, with whole layers and
/// sequences: of what tensor- and context-parallel ranks share each computes its part, of norms and sums of residuals
/// without --sp each all.
/// Lifetime: ends before World, options and text.
class Calibrator {
 public:
  /// owned: elements that this rank's optimizer updates, of `whole` whose gradients it has.
  /// Errors: InvalidArgument for other types than f32.
  Calibrator(sinew::World& world, const gpt::Options& options, const gpt::Text& text, std::int64_t owned,
             std::int64_t whole);
  ~Calibrator();

  /// One pass of each stage and one update. All ranks call it.
  Calibration sample();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/optim/update_rule/loss_scaling.hpp>

#include "../model/model.hpp"
#include "../shape.hpp"

namespace gpt {

/// What a training run is asked to do: `gpt --help` says what each means.
struct Options {
  sp::JobConfig job;
  Shape shape;
  ExpertsWay experts;  ///< how tokens get to them
  int ulysses = 1;     ///< of the context-parallel ranks, that share heads; goes into job.layout
  std::int64_t steps = 300;
  double rate = 1e-3;          ///< of AdamW, at its highest
  std::int64_t warmup = 20;    ///< steps in which the rate rises to that; then it falls to a tenth along a cosine
  double weight_decay = 0.01;  ///< of matrices and vectors alike
  double clip = 1.0;           ///< largest norm of the gradients; 0: as they are
  /// The factor of the loss in the backward pass, fixed or dynamic. {}: the loss is not scaled.
  std::optional<sp::LossScalerOptions> loss_scale;
  /// Steps, ascending, in which one gradient of the last rank becomes infinite before it is summed: for tests.
  std::vector<std::int64_t> overflow_at;
  int blas_threads = 1;
  std::string blas = "host";
  std::string device = "host";    ///< where the model is: host, or a name that sp::OpenedDevice takes
  bool tf32 = false;              ///< f32 products on a device with TF32
  std::string data;               ///< a file; empty: the licence texts of the system
  std::string metrics;            ///< JSON lines; empty: none
  std::string plot;               ///< an SVG of the loss; empty: none
  std::string save, resume;       ///< directories of checkpoints; empty: none
  std::int64_t save_every = 50;   ///< steps
  std::string offload;            ///< a folder for activations between both passes; empty: they stay in memory
  bool elastic = false;           ///< when ranks die the others go on
  std::int64_t buddy_copies = 0;  ///< steps between copies of each rank's state on another rank; 0: none
  bool explain = false;           ///< say what the optimizer of exchanges did
  bool plan = false;              ///< say what would be made, and end
  int plan_ranks = 0;             ///< for so many ranks; 0: those that there are
};

/// The command line asks for no run: for help (code 0), or for something that it cannot have (2).
struct NoRun {
  int code = 0;
  std::string text;
};

/// Errors: throws NoRun.
/// A file of the same options (--config FILE, TOML) is read first; what the command line says wins.
Options read_options(int argc, char** argv);

}  // namespace gpt

#pragma once

#include <cstdint>
#include <gpt/text/text.hpp>
#include <gpt/train/options.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gpt::test {

/// What a training run came to: its losses, what routers did, and the gradients of its first step by path, whole.
struct Training {
  std::vector<double> losses, norms;
  std::vector<sinew::parallel::RouterReport> routers;
  std::map<std::string, std::vector<double>> gradients;
};

/// Words of unequal lengths and runs of spaces, so that some positions of some sequences have nothing to predict; or
/// other ones.
Text words(bool others = false);

/// Of one process.
Training train_alone(const Options& options, const Text& text = words());

/// How far runs were from one process at most.
struct Deviation {
  int runs = 0;
  double gradient = 0;               ///< of an element, as part of the largest of its parameter; of the norm of all
  double loss = 0;                   ///< as part of it
  int routed = 0;                    ///< steps that dropped others, or had other loads or a balance loss off by 1e-9
  std::string of_gradient, of_loss;  ///< in which layout

  void add(const Deviation& other);
};

/// One run of that layout, ranks as threads. changed: the rank whose text has other words than everybody's; -1: none.
Deviation train_together(int ranks, const Options& options, const Training& alone, const Text& text = words(),
                         int changed = -1);

/// The same on fake devices, whose memory faults where the host touches it.
Deviation train_on_devices(int ranks, const Options& options, const Training& alone, const Text& text = words());

/// Every layout of so many ranks over dp, cp and tp that the rules admit: rows cut between layers, taken apart or not;
/// every number of ranks that share heads; ZeRO 0 to 3.
std::vector<sinew::parallel::JobConfig> layouts_of(int ranks, const Options& options);

/// Every pipeline of so many ranks beside dp, cp and tp that the rules admit: every schedule, several stages on each
/// rank where it has such, ZeRO 0 to 3.
std::vector<sinew::parallel::JobConfig> pipelines_of(int ranks, const Options& options);

/// Every layout of so many ranks over pp, dp, cp, tp, ep and etp that the rules admit, of a model with experts: every
/// schedule, ZeRO 0 to 3; ways to dispatch take turns, and where experts are cut (etp) ZeRO, too.
std::vector<std::pair<sinew::parallel::JobConfig, ExpertsWay>> expert_layouts_of(int ranks, const Options& options);

/// Models with experts: with a capacity and balance losses; in every second block, without drops, with biases, shared
/// heads, dropout, several passes, recomputed.
std::vector<std::pair<std::string, Options>> models_with_experts();

/// The same for pipelines: five blocks, so that stages are unequal; several micro-batches.
std::vector<std::pair<std::string, Options>> models_of_pipelines();

/// Models of few parameters that do not divide: plain; with shared heads, dropout, documents of unequal lengths and
/// several passes; with scans in some blocks.
std::vector<std::pair<std::string, Options>> models();

/// Models for a seeded sample of layouts: those above, and some whose steps overflow under a loss scale.
std::vector<std::pair<std::string, Options>> models_to_draw_from();

/// A layout of a model, drawn by a number. The rules admit it. Drawn are ranks, all axes, the schedule, ZeRO and
/// replicas. Recomputation, how tokens are sent to experts, and the offload of activations are drawn, too.
struct Drawn {
  std::size_t model = 0;  ///< of models_to_draw_from()
  int ranks = 1;
  Options options;
};
Drawn draw_layout(const std::vector<std::pair<std::string, Options>>& models, std::uint64_t number);

/// Trains `runs` layouts drawn from `first` on. Each is compared with one process. Returns one Deviation for each
/// model.
std::vector<Deviation> train_sample(std::uint64_t first, int runs);

}  // namespace gpt::test

// Predicts the time of gpt's steps under a layout, and measures it. The time of computing is measured on one rank
// alone. The time of exchanges comes from this World's cost model. Both are combined as in parallel/planner.
//   sinew-run -n 2 gpt_prediction --tp 2 --sp --batch 16      options of gpt; --steps of them are measured
// prints one JSON object.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <gpt/text/text.hpp>
#include <gpt/train/options.hpp>
#include <gpt/train/plan.hpp>
#include <gpt/train/trainer.hpp>
#include <gpt/train/training.hpp>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/planner.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "calibration.hpp"
#include "exchange_times.hpp"

namespace {

namespace sp = sinew::parallel;

constexpr double kNano = 1e9;

struct Owned {
  std::int64_t mine = 0, whole = 0;
};

Owned owned_by(const sinew::World& world, const gpt::Options& options, const sp::EngineFacts& engine) {
  const sp::DataStrategy strategy = sp::data_strategy(world.size(), options.job, engine);
  const sp::RankPlace place{strategy.shape.index(world.rank(), "tp"), 0, strategy.shape.index(world.rank(), "pp")};
  Owned owned;
  for (const sp::DataParameter& p : engine.parameters(options.job, place)) owned.whole += p.elements;
  const int shards = options.job.zero == 0 ? 1 : strategy.sizes.front();
  owned.mine = (owned.whole + shards - 1) / shards;
  return owned;
}

/// Of all ranks the most.
double most_of(sinew::World& world, double value) {
  std::array<double, 1> all{value};
  world.communicator().all_reduce(all, sinew::ReduceOp::Max).get();
  return all[0];
}

/// By stage, of the slowest rank that has it.
std::vector<Calibration::Stage> all_stages(sinew::World& world, const gpt::Options& options, const Calibration& mine,
                                           int pp) {
  const auto stages = static_cast<std::size_t>(sp::stages(options.job));
  std::vector<double> flat(4 * stages, 0);
  for (std::size_t k = 0; k < mine.stages.size(); ++k) {
    const Calibration::Stage& s = mine.stages[k];
    const std::size_t at = 4 * (static_cast<std::size_t>(pp) + k * static_cast<std::size_t>(options.job.layout.pp));
    std::ranges::copy(std::array{s.forward, s.backward, s.input_gradient, s.weight_gradient},
                      flat.begin() + static_cast<std::ptrdiff_t>(at));
  }
  world.communicator().all_reduce(flat, sinew::ReduceOp::Max).get();
  std::vector<Calibration::Stage> all;
  for (std::size_t s = 0; s < stages; ++s)
    all.push_back({flat[4 * s], flat[4 * s + 1], flat[4 * s + 2], flat[4 * s + 3]});
  return all;
}

struct Prediction {
  double passes = 0, gradients = 0, gathers = 0, layers = 0, update = 0;
  double total() const noexcept { return passes + gradients + gathers + layers + update; }
};

/// What is left of sums of gradients when the backward pass of the last micro-batch ends.
double exposed(const ExchangeTimes& times, double backward, bool hides) {
  double end = hides ? 0 : backward;
  for (const ExchangeTimes::Bucket& b : times.gradients)
    end = std::max(end, hides ? b.ready * backward : 0.0) + b.seconds;
  return std::max(end - backward, 0.0);
}

/// Passes alone: of a pipeline its simulated time, and never less than its host's cores need for all ranks there.
double time_of_passes(const gpt::Options& options, const std::vector<Calibration::Stage>& stages,
                      const ExchangeTimes& exchanges, const Sharing& sharing) {
  const sp::JobConfig& job = options.job;
  const auto passes = static_cast<double>(job.micro_batches);
  double work = 0;
  for (const Calibration::Stage& s : stages)
    work += passes * (s.forward + s.backward + s.input_gradient + s.weight_gradient);
  if (stages.size() == 1) return work * sharing.factor();
  sp::PipelineCosts costs{.stages = {}};
  const auto whole = [](double s) { return static_cast<std::int64_t>(s * kNano); };
  for (const Calibration::Stage& s : stages)
    costs.stages.push_back({whole(s.forward), whole(s.backward), whole(s.input_gradient), whole(s.weight_gradient), 0});
  costs.latency = whole(exchanges.to_next_stage);
  sp::PipelineMakespans simulated;
  const double makespan = static_cast<double>(simulated.makespan(sp::schedule_shape(job), costs)) / kNano;
  // Each of the host's ranks has its part of its pipeline's work.
  return std::max(makespan, work / job.layout.pp * sharing.factor());
}

Prediction predict(sinew::World& world, const gpt::Options& options, const Calibration& mine,
                   const ExchangeTimes& exchanges, int pp) {
  const sp::JobConfig& job = options.job;
  const Sharing sharing = sharing_of(world);
  const auto stages = all_stages(world, options, mine, pp);
  Prediction found;
  found.passes = most_of(world, time_of_passes(options, stages, exchanges, sharing));
  const bool alone = stages.size() == 1;
  const double backward = alone ? (stages.front().backward + stages.front().input_gradient) * sharing.factor() : 0;
  const auto passes = static_cast<double>(job.micro_batches);
  const double layers = static_cast<double>(options.shape.layers) / job.layout.pp;
  found.gradients = most_of(world, exposed(exchanges, backward, alone && exchanges.data_leaves_host));
  found.gathers = most_of(world, exchanges.gathers_of_step + passes * exchanges.gathers_of_pass);
  found.layers = most_of(world, passes * (layers * exchanges.of_layer + exchanges.of_ends) + exchanges.tied);
  found.update = most_of(world, mine.update * sharing.factor());
  return found;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int run(sinew::World& world, const gpt::Options& options) {
  const gpt::Text text = gpt::text_of(options);
  const sp::EngineFacts engine = gpt::engine_facts(options.shape);
  sp::require_no_violations(world.size(), options.job, engine);
  const Owned owned = owned_by(world, options, engine);
  Calibrator calibrator(world, options, text, owned.mine, owned.whole);
  const ExchangeTimes exchanges = exchange_times(world, options);
  gpt::Trainer trainer(world, options, text);
  constexpr int kWarmup = 2;
  std::vector<double> measured, predicted, ratios;
  Prediction last;
  for (std::int64_t step = 0; step < options.steps + kWarmup; ++step) {  // in turns: neighbours come and go
    last = predict(world, options, calibrator.sample(), exchanges, trainer.job().place().pp);
    const double seconds = most_of(world, trainer.step(step).seconds);
    if (step < kWarmup) continue;
    measured.push_back(seconds);
    predicted.push_back(last.total());
    ratios.push_back(last.total() / seconds);
  }
  const auto held = static_cast<double>(trainer.most_held());
  const auto expected =
      static_cast<double>(sp::predict_memory(world.size(), options.job, engine, trainer.job().place()).total());
  const double least = -most_of(world, -held / expected), most = most_of(world, held / expected);
  const Sharing sharing = sharing_of(world);
  if (world.rank() == 0) {
    std::puts(sinew::json_object({{"ranks", world.size()},
                                  {"ranks_of_host", sharing.ranks},
                                  {"cores_of_host", sharing.cores},
                                  {"predicted_s", median(predicted), 5},
                                  {"measured_s", median(measured), 5},
                                  {"step_error", median(ratios) - 1, 4},
                                  {"memory_error", std::max(most - 1, 1 - least), 5},
                                  {"passes_s", last.passes, 5},
                                  {"gradients_s", last.gradients, 5},
                                  {"gathers_s", last.gathers, 5},
                                  {"layers_s", last.layers, 5},
                                  {"update_s", last.update, 5}})
                  .c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const gpt::Options options = gpt::read_options(argc, argv);
    sinew::WorldOptions how{};
    how.threads = sinew::Threads::Multiple;  // as gpt
    sinew::World world = sinew::World::from_environment(how);
    return run(world, options);
  } catch (const gpt::NoRun& e) {
    fmt::print(stderr, "{}", e.text);
    return e.code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt_prediction: {}\n", e.what());
    return 1;
  }
}

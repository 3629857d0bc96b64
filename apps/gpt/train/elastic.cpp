
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/surviving_job.hpp>

#include "plan.hpp"
#include "trainer.hpp"
#include "training.hpp"

namespace gpt {
namespace {

/// A rank died, or another one found that and shrinks the World.
bool is_of_deaths(const sinew::Error& e) {
  return e.code() == sinew::Code::PeerLost || e.code() == sinew::Code::Aborted;
}

/// The Worlds of one job, each what was left of the one before, and the training of the latest.
class Elastic {
 public:
  Elastic(sinew::World& first, const Options& options, const Text& text, const sinew::StopRequest* stop)
      : options_(options), text_(text), stop_(stop), world_(&first), trained_(first.size()) {}

  int run() {
    std::optional<sinew::Error> why;
    for (;;) {
      try {
        if (why && !take_over(*why)) return 0;
        if (!training_) training_ = std::make_unique<Training>(*world_, options_, text_, stop_);
        return training_->run();
      } catch (const sinew::Error& e) {
        if (!is_of_deaths(e) || is_given_up_) throw;
        why = e;
      }
    }
  }

 private:
  /// false: there is nothing to do for this rank any more. Errors: of deaths, with all that is held still there.
  bool take_over(const sinew::Error& why) {
    const int before = world_->size();
    sp::SurvivingJob job = shrink();
    if (world_->size() == before) {  // nobody died: somebody gave up
      is_given_up_ = true;
      throw why;
    }
    if (world_->rank() == 0) fmt::print(stderr, "gpt: {}\n", why.what());
    while (world_->size() > job.ranks) {
      if (leaves(world_->size() - job.ranks)) {
        fmt::print("{} ranks are left, the layout has places for {}: this one ends\n", world_->size(), job.ranks);
        return false;
      }
      wait_for_leaving();
      job = shrink();
    }

    Options changed = options_;
    changed.job = job.config;
    auto next = std::make_unique<Training>(*world_, changed, text_, stop_);
    const std::int64_t step = next->recover(training_.get());
    say(*world_, fmt::format("{} of {} ranks go on with step {}, {} samples a step", world_->size(), trained_, step,
                             job.config.global_batch));
    training_ = std::move(next);
    trained_ = world_->size();
    worlds_.erase(worlds_.begin(), worlds_.end() - 1);
    return true;
  }

  bool leaves(int how_many) {
    Checkpoints* held = training_ ? &training_->checkpoints() : nullptr;
    const std::vector<int> leaving = Checkpoints::ranks_to_leave(*world_, held, how_many);
    return std::ranges::find(leaving, world_->rank()) != leaving.end();
  }

  /// Whoever shrinks the World sooner ends what others still ask each other in it.
  void wait_for_leaving() {
    try {
      world_->communicator().barrier().get();
    } catch (const sinew::Error& e) {
      if (!is_of_deaths(e)) throw;
    }
  }

  sp::SurvivingJob shrink() {
    auto next = std::make_unique<sinew::World>(world_->shrink());
    world_ = next.get();
    worlds_.push_back(std::move(next));
    return sp::surviving_job(world_->size(), options_.job, engine_facts(options_.shape));
  }

  const Options& options_;
  const Text& text_;
  const sinew::StopRequest* stop_;
  sinew::World* world_;
  int trained_;  // ranks
  bool is_given_up_ = false;
  std::vector<std::unique_ptr<sinew::World>> worlds_;  // that came after the first; the last one is world_
  std::unique_ptr<Training> training_;                 // of one of them; goes before them
};

}  // namespace

int train_elastic(sinew::World& first, const Options& options, const Text& text, const sinew::StopRequest* stop) {
  return Elastic(first, options, text, stop).run();
}

}  // namespace gpt

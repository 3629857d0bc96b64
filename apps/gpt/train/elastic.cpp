
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/launch/rendezvous.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/job/elastic_job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
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

/// The parts of the time in which the members of a job change, on this rank.
class ChangeTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// The last step is over, or a death is known.
  void begin() {
    begin_ = last_ = Clock::now();
    parts_.clear();
  }
  /// The part of this name has ended. Equal names are added up.
  void end_part(const std::string& name) {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
    const auto at = std::ranges::find(parts_, name, &Part::name);
    if (at == parts_.end()) {
      parts_.push_back({name, seconds});
    } else {
      at->seconds += seconds;
    }
  }
  /// "0.214 s (rendezvous 0.101 s, World 0.080 s, model 0.013 s, state 0.020 s)"
  std::string to_string() const {
    std::string text;
    for (const Part& part : parts_)
      text += fmt::format("{}{} {:.3f} s", text.empty() ? "" : ", ", part.name, part.seconds);
    return fmt::format("{:.3f} s ({})", std::chrono::duration<double>(last_ - begin_).count(), text);
  }

 private:
  struct Part {
    std::string name;
    double seconds = 0;
  };
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  std::vector<Part> parts_;
};

/// The Worlds of one job, each made after the one before, and the training of the latest. A derived class says who is
/// in the next World.
class Elastic {
 public:
  /// first: null if the job has no World yet.
  Elastic(sinew::World* first, const Options& options, const Text& text, const sinew::StopRequest* stop)
      : options_(options), text_(text), stop_(stop), world_(first), trained_(first != nullptr ? first->size() : 0) {}
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  int run() {
    bool goes_on = world_ != nullptr;
    std::optional<sinew::Error> why;
    for (;;) {
      try {
        if (!goes_on) times_.begin();
        if (!goes_on && !take_over(why ? &*why : nullptr)) return 0;
        goes_on = true;
        why.reset();
        if (!training_) training_ = std::make_unique<Training>(*world_, options_, text_, stop_);
        if (const auto code = training_->run(stops())) return *code;
      } catch (const sinew::Error& e) {
        if (!is_of_deaths(e) || is_given_up_) throw;
        why = e;
      }
      goes_on = false;
    }
  }

 protected:
  ~Elastic() = default;

  /// Asked after each step, on all ranks alike: true if the members of the job are to change.
  virtual std::function<bool()> stops() { return {}; }
  /// Makes the next World and its training. `why` is null if no rank has failed. Returns false if there is nothing to
  /// do for this rank any more. If it throws because a rank has died, this rank still holds its state.
  virtual bool take_over(const sinew::Error* why) = 0;

  /// Goes on with the next training in the latest World.
  void go_on_with(std::unique_ptr<Training> next, std::int64_t step, std::int64_t samples) {
    times_.end_part("state");
    const std::string of_before = trained_ > 0 ? fmt::format(" of {}", trained_) : "";  // a new process does not know
    if (trained_ > 0 || is_change_)
      say(*world_, fmt::format("{}{} ranks go on with step {}, {} samples a step, after {}", world_->size(), of_before,
                               step, samples, times_.to_string()));
    training_ = std::move(next);
    trained_ = world_->size();
    worlds_.erase(worlds_.begin(), worlds_.end() - 1);
  }
  Checkpoints* held() { return training_ ? &training_->checkpoints() : nullptr; }

  const Options& options_;
  const Text& text_;
  const sinew::StopRequest* stop_;
  sinew::World* world_;
  int trained_;  // ranks
  bool is_given_up_ = false;
  bool is_change_ = false;  // the job has had other members before, which this rank may not know
  ChangeTimes times_;
  std::vector<std::unique_ptr<sinew::World>> worlds_;  // that came after the first; the last one is world_
  std::unique_ptr<Training> training_;                 // of one of them; goes before them
};

/// A job that loses ranks only.
class Shrinking final : public Elastic {
 public:
  using Elastic::Elastic;

 private:
  bool take_over(const sinew::Error* why) override {
    const int before = world_->size();
    sp::SurvivingJob job = shrink();
    if (world_->size() == before) {  // nobody died: somebody gave up
      is_given_up_ = true;
      throw *why;
    }
    if (world_->rank() == 0) fmt::print(stderr, "gpt: {}\n", why->what());
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
    times_.end_part("World");
    auto next = std::make_unique<Training>(*world_, changed, text_, stop_);
    times_.end_part("model");
    const std::int64_t step = next->recover(training_.get());
    go_on_with(std::move(next), step, job.config.global_batch);
    return true;
  }

  bool leaves(int how_many) {
    const std::vector<int> leaving = Checkpoints::ranks_to_leave(*world_, held(), how_many);
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
};

/// The numbers of ranks with which the job can run.
std::vector<int> counts_of(const Options& options, const sinew::ElasticLimits& limits) {
  const sp::EngineFacts engine = engine_facts(options.shape);
  std::vector<int> counts = sp::elastic_counts(limits.most, options.job, engine);
  if (!counts.empty() && counts.back() >= limits.least) return counts;
  sp::JobConfig any = options.job;
  any.layout.dp = 0;
  sp::require_no_violations(limits.most, any, engine);
  throw sinew::Error(sinew::Code::InvalidArgument,
                     fmt::format("elastic: a global batch of {} samples is shared evenly by no number of ranks from {} "
                                 "to {}; expected a batch that more numbers divide",
                                 options.job.global_batch, limits.least, limits.most));
}

/// A job that loses and gains ranks. Its members meet at the launcher's rendezvous.
class Growing final : public Elastic {
 public:
  Growing(const Options& options, const Text& text, const sinew::StopRequest* stop)
      : Elastic(nullptr, options, text, stop),
        most_(sinew::Rendezvous::limits()->most),
        counts_(counts_of(options, *sinew::Rendezvous::limits())),
        rendezvous_(sinew::Rendezvous::of_process(sinew::Config::from_environment())) {}

 private:
  Options options_for(int ranks) const {
    Options changed = options_;
    changed.job = sp::elastic_job(ranks, most_, options_.job, engine_facts(options_.shape)).value();
    return changed;
  }

  std::function<bool()> stops() override {
    return [this] {
      std::array<int, 1> due{world_->rank() == 0 && world_->is_change_due() ? 1 : 0};
      world_->communicator().broadcast(due, 0).get();
      return due[0] != 0;
    };
  }

  bool take_over(const sinew::Error* why) override {
    if (why != nullptr && world_ != nullptr) {
      // Other ranks may still wait for each other in this World. They must come to the rendezvous, too.
      world_->abort(why->what());
      if (world_->rank() == 0) fmt::print(stderr, "gpt: {}\n", why->what());
    }
    while (const std::optional<sinew::Round> round = next_round()) {
      if (!training_) times_.begin();  // a process without a rank has only waited until now
      times_.end_part("rendezvous");
      is_change_ = round->number() > 1;
      if (join(*round)) return true;
      training_.reset();  // its state has been handed over
    }
    return false;
  }

  /// nullopt: the launcher forms no round any more, since the job is done.
  std::optional<sinew::Round> next_round() {
    try {
      return rendezvous_->next(counts_, training_ != nullptr);
    } catch (const sinew::Error& e) {
      if (e.code() != sinew::Code::Aborted) throw;
      return std::nullopt;
    }
  }

  /// Makes the Worlds of a round. Returns false if this process has no rank in it.
  bool join(const sinew::Round& round) {
    sinew::WorldOptions of_world{};
    of_world.threads = sinew::Threads::Multiple;
    of_world.measures = false;
    std::optional<sinew::World> everyone;
    std::unique_ptr<sinew::World> fresh;
    std::unique_ptr<Training> next;  // waits in its destructor for messages, and an abort of `fresh` ends them
    try {
      if (round.has_leaving_members()) everyone.emplace(sinew::World::of_members(round, of_world));
      if (!round.has_rank()) {
        Checkpoints::hand_over(*everyone, held(), nullptr);
        return false;
      }
      fresh = std::make_unique<sinew::World>(sinew::World::of_ranks(round, of_world));
      const Options changed = options_for(round.ranks());
      times_.end_part("World");
      next = std::make_unique<Training>(*fresh, changed, text_, stop_);
      times_.end_part("model");
      const std::int64_t step = next->take_state(everyone ? *everyone : *fresh, training_.get());
      world_ = fresh.get();
      worlds_.push_back(std::move(fresh));
      go_on_with(std::move(next), step, changed.job.global_batch);
      return true;
    } catch (const sinew::Error& e) {
      // Other ranks may already use these Worlds. Without the abort they would wait there for this rank.
      if (fresh) fresh->abort(e.what());
      if (everyone) everyone->abort(e.what());
      throw;
    }
  }

  const int most_;
  const std::vector<int> counts_;
  const std::shared_ptr<sinew::Rendezvous> rendezvous_;
};

}  // namespace

int train_elastic(sinew::World& first, const Options& options, const Text& text, const sinew::StopRequest* stop) {
  return Shrinking(&first, options, text, stop).run();
}

int train_growing(const Options& options, const Text& text) {
  const std::unique_ptr<sinew::StopRequest> stop = stop_request(options);
  return Growing(options, text, stop.get()).run();
}

}  // namespace gpt

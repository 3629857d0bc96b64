#include "protocol.hpp"

#include <algorithm>
#include <cmath>

#include <sinew/core/deadline.hpp>

namespace sinew::tools {
namespace {

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Course {
 public:
  Course(const ProtocolOptions& options, Ranks& ranks, NoiseGauge& noise, Workload& work, std::size_t slots)
      : options_(options), ranks_(ranks), noise_(noise), work_(work), slots_(slots) {}

  /// The first call is checked.
  void warm_up(Contestant& who) {
    work_.rewrite(1);
    ranks_.meet();
    who.run(0, 1);
    work_.read(1);
    for (std::size_t w = 1; w < options_.warmup; ++w) who.run(0, 1);
    who.settle();
  }

  /// Finds how many calls last a batch.
  std::size_t calls_for_batch(Contestant& who) {
    std::size_t calls = 1;
    for (int round = 0; round < kRounds; ++round) {
      double least = timed(who, calls).seconds;  // of several: one that was disturbed would make batches too short
      for (int again = 1; again < kCalibrations; ++again) least = std::min(least, timed(who, calls).seconds);
      const double per_call = least / static_cast<double>(calls);
      const double wanted = std::ceil(options_.batch_s / std::max(per_call, kShortestCall));
      const auto next = std::min(static_cast<std::size_t>(wanted), options_.warm_buffers ? kMostWarmCalls : slots_);
      if (next <= calls + calls / 4) return next > calls ? next : calls;
      calls = std::min(next, calls * kGrowth);
    }
    return calls;
  }

  struct Batch {
    double seconds = 0;  ///< of the slowest rank
    bool delayed = false;
  };
  Batch timed(Contestant& who, std::size_t calls) {
    prepare(calls);
    ranks_.meet();
    noise_.begin_batch();
    const auto start = Clock::now();
    who.run(0, calls);
    const double mine = seconds_since(start);
    const double told[] = {mine, noise_.batch_was_delayed(mine) ? 1.0 : 0.0};
    who.settle();
    finish(calls);
    Batch batch;
    const std::vector<double> all = ranks_.gather(told);
    for (std::size_t r = 0; r < all.size(); r += 2) {
      batch.seconds = std::max(batch.seconds, all[r]);
      batch.delayed = batch.delayed || all[r + 1] != 0;
    }
    return batch;
  }

  /// The slowest rank's time of one call each; more calls are made where they are short.
  std::vector<double> single_calls(Contestant& who, std::size_t calls_per_batch, double per_call) {
    const double fit = kSinglesBudget / std::max(per_call, kShortestCall);
    const auto total = static_cast<std::size_t>(std::clamp(fit, kLeastSingles, kMostSingles));
    std::vector<double> mine;
    while (mine.size() < total) {
      const std::size_t calls = std::min(calls_per_batch, total - mine.size());
      prepare(calls);
      ranks_.meet();
      for (std::size_t c = 0; c < calls; ++c) {
        const auto start = Clock::now();
        who.run(c, 1);
        mine.push_back(seconds_since(start));
      }
      finish(calls);
    }
    const std::vector<double> all = ranks_.gather(mine);
    for (std::size_t i = 0; i < all.size(); ++i) mine[i % total] = std::max(mine[i % total], all[i]);
    return mine;
  }

 private:
  static constexpr int kRounds = 6;
  static constexpr int kCalibrations = 3;
  static constexpr std::size_t kGrowth = 64;
  static constexpr std::size_t kMostWarmCalls = 1 << 14;
  static constexpr double kShortestCall = 1e-8;
  static constexpr double kSinglesBudget = 0.2;
  static constexpr double kLeastSingles = 20;
  static constexpr double kMostSingles = 1000;

  void prepare(std::size_t calls) {
    if (!options_.warm_buffers) work_.rewrite(calls);
  }
  void finish(std::size_t calls) {
    if (!options_.warm_buffers) work_.read(calls);
  }

  const ProtocolOptions& options_;
  Ranks& ranks_;
  NoiseGauge& noise_;
  Workload& work_;
  std::size_t slots_;
};

/// Batches of one contestant.
struct Entrant {
  Contestant* who = nullptr;
  std::size_t calls = 1;
  std::uint64_t wrong = 0;
  std::vector<double> per_call{};
  std::size_t delayed = 0;  ///< batches that stayed so
};

/// One batch, and again while somebody else had a rank's core; not where it is too late for that.
void add_batch(Course& course, Entrant& entrant, Workload& work, const ProtocolOptions& options) {
  const std::size_t repeats = delays_spoil(entrant.delayed, options.least_batches) ? 0 : options.repeats;
  for (std::size_t attempt = 0;; ++attempt) {
    const std::uint64_t before = work.wrong();
    const Course::Batch batch = course.timed(*entrant.who, entrant.calls);
    entrant.wrong += work.wrong() - before;
    if (batch.delayed && attempt < repeats) continue;
    entrant.per_call.push_back(batch.seconds / static_cast<double>(entrant.calls));
    entrant.delayed += batch.delayed ? 1 : 0;
    return;
  }
}

std::uint64_t sum_of_wrong(Ranks& ranks, std::uint64_t mine) {
  return static_cast<std::uint64_t>(ranks.sum(static_cast<double>(mine)));
}

/// All batches of all entrants, taking turns. True if others disturbed them in spite of repeats.
bool run_batches(const ProtocolOptions& options, Course& course, Ranks& ranks, Workload& work,
                 std::vector<Entrant>& entrants) {
  const std::size_t least =
      std::max(options.least_batches, (options.iterations + entrants.front().calls - 1) / entrants.front().calls);
  for (Entrant& e : entrants) {
    e.per_call.clear();
    e.delayed = 0;
  }
  const auto start = Clock::now();
  for (std::size_t batch = 0;; ++batch) {
    if (batch >= least && ranks.largest(seconds_since(start)) >= options.least_s) break;
    for (Entrant& e : entrants) add_batch(course, e, work, options);
  }
  return std::ranges::any_of(entrants, [](const Entrant& e) { return delays_spoil(e.delayed, e.per_call.size()); });
}

}  // namespace

bool delays_spoil(std::size_t delayed, std::size_t batches) noexcept { return 4 * delayed > batches; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

Measurement measure(const ProtocolOptions& options, Ranks& ranks, NoiseGauge& noise, Workload& work, std::size_t slots,
                    Contestant& ours, Contestant* peer) {
  Course course(options, ranks, noise, work, slots);
  std::vector<Entrant> entrants{{&ours}};
  if (peer != nullptr) entrants.push_back({peer});
  for (Entrant& e : entrants) {
    const std::uint64_t before = work.wrong();
    course.warm_up(*e.who);
    if (options.iterations > 0) e.calls = course.calls_for_batch(*e.who);
    e.wrong = work.wrong() - before;
  }
  Measurement m;
  m.timed = options.iterations > 0;
  if (!m.timed) {
    m.wrong = sum_of_wrong(ranks, entrants[0].wrong);
    if (peer != nullptr) m.peer = Timing{};
    if (peer != nullptr) m.peer_wrong = sum_of_wrong(ranks, entrants[1].wrong);
    return m;
  }
  for (std::size_t attempt = 0; attempt <= options.repeats; ++attempt) {
    noise.begin_span();
    const bool delayed = run_batches(options, course, ranks, work, entrants);
    m.noisy = noise.span_was_noisy() || delayed;
    if (!m.noisy || delayed) break;  // batches that stayed delayed were repeated one by one already
  }
  const double per_call = median(entrants[0].per_call);
  const std::uint64_t before = work.wrong();
  m.ours = {per_call, quantile(course.single_calls(ours, entrants[0].calls, per_call), 0.99), entrants[0].calls};
  m.wrong = sum_of_wrong(ranks, entrants[0].wrong + work.wrong() - before);
  if (peer != nullptr) {
    m.peer = Timing{median(entrants[1].per_call), 0, entrants[1].calls};
    m.peer_wrong = sum_of_wrong(ranks, entrants[1].wrong);
  }
  return m;
}

}  // namespace sinew::tools

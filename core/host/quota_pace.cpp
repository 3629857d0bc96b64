#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <sinew/core/host/quota_pace.hpp>

namespace sinew {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Other threads of the job, and what a core keeps of a granted slice without using it, need the rest of the quota.
constexpr double kShareForWaits = 0.85;
/// CPU time that a rank may save up. The kernel counts over periods of 100 ms, in which this is little.
constexpr Duration kMostSaved = milliseconds(1);
/// A shorter rest would cost as much as it saves.
constexpr Duration kLeastRest = milliseconds(1);
constexpr Duration kLongestRest = milliseconds(4);
/// Turns that are further apart have a computation between them, if the thread worked meanwhile.
constexpr Duration kCloseTogether = microseconds(200);

Duration scaled_by(Duration time, double by) noexcept {
  return Duration(static_cast<Duration::rep>(static_cast<double>(time.count()) * by));
}

/// Of the calling thread.
Duration thread_cpu_time() noexcept {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

QuotaPace::QuotaPace(double share_cores) noexcept : share_(share_cores * kShareForWaits), credit_(kMostSaved) {}

Duration QuotaPace::owed(Clock::time_point now, Duration cpu) noexcept {
  const bool first = looked_ == Clock::time_point{};
  const Duration passed = now - looked_;
  const Duration used = std::clamp(cpu - cpu_, Duration::zero(), passed);  // another thread may have waited before
  looked_ = now;
  cpu_ = cpu;
  if (first || (passed > kCloseTogether && used > passed / 2)) return Duration::zero();
  credit_ = std::min(credit_ + scaled_by(passed, share_) - used, kMostSaved);
  const Duration until_even = scaled_by(-credit_, 1 / share_);
  return until_even < kLeastRest ? Duration::zero() : std::min(until_even, kLongestRest);
}

void QuotaPace::rest() noexcept {
  const Duration rest = owed(Clock::now(), thread_cpu_time());
  if (rest > Duration::zero()) std::this_thread::sleep_for(rest);
}

}  // namespace sinew

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

#include <sinew/core/runtime/shared_progress.hpp>
#include <sinew/core/system/futex.hpp>
#include <sinew/core/system/quiet_thread.hpp>

namespace sinew {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// The length of a nap. An engine leaves idle sources unpolled for as long.
constexpr long kNapNs = 50'000;
/// A nap during which calls came is followed by one of twice the length, up to this one.
constexpr long kLongestNapNs = 16 * kNapNs;
/// Beside a thread that drives, naps grow to this length: when that thread leaves, its pending calls wait as long for
/// the next turn.
constexpr long kLongestNapBesideADriverNs = 4 * kNapNs;
/// The thread naps for so long after the last call or event. Waking it from deep sleep costs the next caller a system
/// call, so a loop of calls must find it napping.
constexpr auto kLinger = milliseconds(2);
constexpr long kLingerNs = std::chrono::nanoseconds(kLinger).count();
/// So many turns without an event come before a nap. A peer that runs answers within that time.
constexpr int kTurnsBeforeNap = 16;
/// How often a sleeping waiter looks if it waits for something that no call's end tells.
constexpr auto kLookAgain = milliseconds(1);
constexpr auto kDeepSleep = milliseconds(10);

}  // namespace

SharedProgress::SharedProgress(Engine& engine) : engine_(engine) { engine_.share(lock_); }

SharedProgress::~SharedProgress() { stop_thread(); }

void SharedProgress::start_thread() {
  thread_ = quiet_thread([this] { loop(); });
}

void SharedProgress::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  {
    const Hold hold(this);
    stop_ = true;
    wake_thread();
  }
  thread_.join();
}

void SharedProgress::posted(bool waits_at_once) noexcept {
  if (is_driven()) {
    if (engine_.asleep()) engine_.ring();
    return;
  }
  if (waits_at_once) return;
  posts_.fetch_add(1, std::memory_order_relaxed);
  engine_.progress();
  wake_thread();
}

void SharedProgress::wake_thread() noexcept {
  if (rest_ == Rest::Park) unpark();
  if (rest_ == Rest::Sleep) engine_.ring();
  if (rest_ != Rest::Nap) rest_ = Rest::None;  // one call wakes the thread, not each
}

void SharedProgress::ended(const void* call) noexcept {
  --pending_;
  for (Sleeper* s = sleepers_; s != nullptr; s = s->next) {
    if (s->call == call) return wake(*s);
  }
  if (is_driven() && engine_.asleep()) engine_.ring();
}

void SharedProgress::wake(Sleeper& sleeper) noexcept {
  if (sleeper.woken.exchange(1, std::memory_order_release) == 0) futex_wake(sleeper.woken, 1);
}

bool SharedProgress::sleep(const void* call, Deadline deadline) noexcept {
  Sleeper self{call, sleepers_};
  sleepers_ = &self;
  lock_.unlock();
  futex_wait(self.woken, 0, call != nullptr ? deadline : Deadline(std::min(deadline.at(), Clock::now() + kLookAgain)));
  lock_.lock();
  Sleeper** at = &sleepers_;
  while (*at != &self) at = &(*at)->next;
  *at = self.next;
  return !deadline.passed();
}

void SharedProgress::hand_on() noexcept {
  if (sleepers_ != nullptr) {
    wake(*sleepers_);
  } else if (pending_ > 0) {
    wake_thread();
  }
}

void SharedProgress::nap() noexcept {
  rest_ = Rest::Nap;
  lock_.unlock();
  long length_ns = kNapNs;
  long slept_ns = 0;
  bool goes_on = true;
  while (goes_on) {
    const std::uint64_t before = posts_.load(std::memory_order_relaxed);
    const timespec length{0, length_ns};
    ::nanosleep(&length, nullptr);
    slept_ns += length_ns;
    // A thread that drives would have to pass the lock here and back.
    const bool more_calls = posts_.load(std::memory_order_relaxed) != before && length_ns < kLongestNapNs;
    goes_on = more_calls || (is_driven() && slept_ns < kLingerNs);
    length_ns = std::min(2 * length_ns, more_calls ? kLongestNapNs : kLongestNapBesideADriverNs);
  }
  lock_.lock();
  rest_ = Rest::None;
}

void SharedProgress::park() noexcept {
  rest_ = Rest::Park;
  parked_.store(1, std::memory_order_relaxed);
  lock_.unlock();
  futex_wait(parked_, 1);
  lock_.lock();
  rest_ = Rest::None;
}

void SharedProgress::unpark() noexcept {
  parked_.store(0, std::memory_order_relaxed);
  futex_wake(parked_, 1);
}

void SharedProgress::loop() noexcept {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // else a nap of 50 us takes 100
  const Hold hold(this);
  Clock::time_point busy_until{};
  std::uint64_t seen = 0;
  int idle_turns = 0;
  while (!stop_) {
    const auto now = Clock::now();
    if (const std::uint64_t posts = posts_.load(std::memory_order_relaxed); posts != seen) {
      seen = posts;
      busy_until = now + kLinger;
    }
    if (is_driven()) {
      now < busy_until ? nap() : park();
      idle_turns = 0;
      continue;
    }
    engine_.look(now);
    const int events = idle_turns == 0 ? engine_.progress_all() : engine_.progress();
    if (events > 0) {
      if (pending_ > 0) busy_until = now + kLinger;
      idle_turns = 1;
      if (lock_.wanted()) lock_.give_way();
    } else if (pending_ > 0 && ++idle_turns < kTurnsBeforeNap) {
      engine_.yield();
    } else {
      idle_turns = 0;
      if (now < busy_until) {
        nap();
        continue;
      }
      rest_ = Rest::Sleep;
      if (engine_.sleep(now + kDeepSleep) == Engine::Slept::NotAtAll) nap();
      rest_ = Rest::None;
    }
  }
}

}  // namespace sinew

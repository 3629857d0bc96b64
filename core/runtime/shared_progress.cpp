#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

#include <sinew/core/runtime/shared_progress.hpp>
#include <sinew/core/system/futex.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// The length of the thread's first nap. The engine polls idle sources as seldom as that.
constexpr long kNapNs = 50'000;
/// If calls were posted during a nap, the next nap is twice as long, but no longer than this.
constexpr long kLongestNapNs = 16 * kNapNs;
/// While another thread drives, naps grow up to this length. When that thread leaves, calls that are still pending may
/// wait this long for the next turn.
constexpr long kLongestNapBesideADriverNs = 4 * kNapNs;
/// The thread naps for so long after the last call or event. Waking it from deep sleep costs the next caller a system
/// call, so a loop of calls must find it napping.
constexpr auto kLinger = milliseconds(2);
constexpr long kLingerNs = std::chrono::nanoseconds(kLinger).count();
/// The thread naps after this many turns without an event. A peer that is running answers within that time.
constexpr int kTurnsBeforeNap = 16;
/// A sleeping thread that waits for something other than the end of a call checks this often whether it has happened.
constexpr auto kLookAgain = milliseconds(1);
constexpr auto kDeepSleep = milliseconds(10);

}  // namespace

SharedProgress::SharedProgress(Engine& engine) : engine_(engine) { engine_.share(lock_); }

SharedProgress::~SharedProgress() { stop_thread(); }

void SharedProgress::start_thread() {
  thread_ = thread_without_signals([this] { loop(); });
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
  if (rest_ == Rest::Futex) wake();
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
  while (true) {
    const std::uint64_t before = posts_.load(std::memory_order_relaxed);
    const timespec length{0, length_ns};
    ::nanosleep(&length, nullptr);
    slept_ns += length_ns;
    const bool more_calls = posts_.load(std::memory_order_relaxed) != before;
    // To take the lock now would interrupt the thread that drives.
    const bool driven = is_driven() && slept_ns < kLingerNs;
    const long longest_ns = more_calls ? kLongestNapNs : driven ? kLongestNapBesideADriverNs : 0;
    if (!driven && length_ns >= longest_ns) break;
    length_ns = std::min(2 * length_ns, longest_ns);
  }
  lock_.lock();
  rest_ = Rest::None;
}

void SharedProgress::sleep_on_futex() noexcept {
  rest_ = Rest::Futex;
  sleeping_.store(1, std::memory_order_relaxed);
  lock_.unlock();
  futex_wait(sleeping_, 1);
  lock_.lock();
  rest_ = Rest::None;
}

void SharedProgress::wake() noexcept {
  sleeping_.store(0, std::memory_order_relaxed);
  futex_wake(sleeping_, 1);
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
      now < busy_until ? nap() : sleep_on_futex();
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/quota_pace.hpp>
#include <sinew/core/runtime/engine_lock.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// Drives the progress of one World and decides how a wait passes its time: spin while the host's ranks fit its cores
/// and a yield now and then finds nobody else who wants this one, else yield; after a while sleep on the sources'
/// descriptors. Sources with something posted are polled at every turn, the others every 50 us of waiting.
/// Where a CPU quota leaves less than a core to each rank, waits keep to a pace that the quota allows (QuotaPace).
/// Thread: one at a time; after share() any, each under the lock.
class SINEW_API Engine {
 public:
  /// `may_spin`: the ranks of this host fit the cores they may use.
  /// `quota_share`: cores' worth of CPU time that a quota leaves to this rank; 0: there is no quota.
  explicit Engine(bool may_spin, double quota_share = 0);
  bool may_spin() const noexcept { return may_spin_; }
  void set_may_spin(bool may) noexcept { may_spin_ = may; }

  void add(ProgressSource& source);
  void remove(ProgressSource& source);

  /// Several threads use this engine, under `lock`. A wait unlocks it while it sleeps or yields, and lets others in
  /// between two turns.
  void share(EngineLock& lock);

  /// Polls the active sources; returns how many events they handled.
  int progress() noexcept {
    int events = 0;
    // By index: what progresses may add and remove sources.
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i]->active()) events += sources_[i]->progress();
    }
    return events;
  }
  /// Polls every source.
  int progress_all() noexcept;

  /// Makes progress until done() or until the deadline has passed; a deadline not given means `default_timeout` from
  /// the first look at the clock on. Returns done().
  /// `Shared`: share() has been called.
  template <bool Shared = false, class Done>
  bool wait(Done&& done, Deadline deadline, Duration default_timeout) {
    Waiter waiter(*this, deadline, default_timeout);
    while (!done()) {
      const bool moved = progress() > 0;
      if (!(moved ? waiter.moved() : waiter.pass_time())) return done();
      if constexpr (Shared) {
        if (lock_->wanted()) [[unlikely]]
          lock_->give_way();
      }
    }
    return true;
  }

  /// Called during waits that last long enough to look at the clock, at most every 10 ms.
  void set_watch(std::function<void(Clock::time_point now)> watch) { watch_ = std::move(watch); }

  /// For who waits elsewhere: calls the watch if it is due.
  void look(Clock::time_point now);

  /// Readable when a source may have something; for event loops of others. Arm with prepare_sleep() first.
  int descriptor() const noexcept { return epoll_.get(); }
  /// Arms every source; false: something is there already (nothing stays armed).
  bool prepare_sleep() noexcept;
  void after_sleep() noexcept;

  enum class Slept : std::uint8_t { NotAtAll, WithoutEvents, UntilEvents };
  /// Sleeps on the sources' descriptors until one is readable, ring() is called, or the time has come. Then polls every
  /// source. Does not sleep where a source has something to do or must be polled.
  Slept sleep(Clock::time_point wake_by);
  /// Lets a thread have the core.
  void yield() noexcept;
  /// Sleeps for a moment, at most every 10 ms, because another thread wants this core. The kernel moves a spinning
  /// thread to a free core only after some milliseconds, but it chooses a free core for a thread that wakes up.
  void look_for_free_core() noexcept;

  // For an engine that several threads share:

  /// Does a thread sleep with the sources armed?
  bool asleep() const noexcept { return asleep_; }
  /// Disarms the sources that a sleeping thread has armed. That thread continues to sleep. It does not disarm them
  /// again.
  void disarm() noexcept {
    if (!asleep_) return;
    asleep_ = false;
    after_sleep();
  }
  /// Wakes whoever sleeps in sleep().
  void ring() noexcept;

 private:
  /// One wait's patience. Reads no clock in its first few hundred turns.
  class SINEW_API Waiter {
   public:
    Waiter(Engine& engine, Deadline deadline, Duration default_timeout) noexcept
        : engine_(engine), deadline_(deadline), default_timeout_(default_timeout) {}
    /// One turn with progress, perhaps of others; false as below.
    bool moved() {
      restart();
      return (++moves_ & 1023) != 0 || in_time(Clock::now());
    }
    /// One turn without progress; false when the deadline has passed.
    bool pass_time() {
      if (spins() && (++turns_ & 255) != 0) {
        if ((turns_ & 1) != 0) cpu_relax();  // it takes as long as a turn
        return true;
      }
      return slow_turn();
    }

   private:
    void restart() noexcept {
      turns_ = 0;
      idle_since_ = {};
    }
    bool spins() const noexcept { return engine_.may_spin_ && !crowded_; }
    bool slow_turn();
    /// Lets the watch look, now and then; false when the deadline has passed.
    bool in_time(Clock::time_point now);

    Engine& engine_;
    Deadline deadline_;
    Duration default_timeout_;
    bool crowded_ = false;  ///< somebody that we do not know of wants this core
    std::uint32_t turns_ = 0;
    std::uint32_t moves_ = 0;
    Clock::time_point idle_since_{};
    Clock::time_point polled_{};
  };

  struct Watched {
    int descriptor;
    int users;
  };

  bool may_spin_;
  std::vector<ProgressSource*> sources_;
  std::vector<Watched> descriptors_;
  FileDescriptor epoll_;
  std::function<void(Clock::time_point)> watch_;
  Clock::time_point watched_{};
  std::optional<QuotaPace> pace_;
  EngineLock* lock_ = nullptr;  ///< null: one thread
  FileDescriptor wake_up_;      ///< an eventfd, if threads share the engine
  std::uint64_t sleeps_ = 0;    ///< the number of the latest sleep()
  bool asleep_ = false;
  bool rung_ = false;
};

}  // namespace sinew

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/system/fork_count.hpp>

#include "python.hpp"

namespace sinew::python {

class Call;
class Members;

/// A World, with what Python needs to know of its users. All objects that are made from the World hold the Session.
/// Thread: every function is called with Python's lock, unless it says otherwise.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(World world, const WorldOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Precondition: a Turn lives.
  World& world() noexcept { return *world_; }
  bool is_open() const noexcept { return world_.has_value(); }
  bool in_child() const noexcept { return fork_.in_child(); }
  bool is_single() const noexcept { return single_; }
  Duration timeout() const noexcept { return timeout_; }
  /// True if each call is named by its line of Python: Config::python_sites.
  bool names_calls() const noexcept { return names_calls_; }

  /// Runs `use`, which calls into the World. With Threads::Multiple Python's lock is released meanwhile, because a
  /// thread that has the engine's lock may wait for Python's to run a user's reduction.
  template <class Use>
  auto outside(Use&& use) {
    if (single_) return use();
    const nb::gil_scoped_release unlocked;
    return use();
  }

  /// Ends the World: waits for the calls in flight, then ends its communicators and the World. Does nothing if it has
  /// ended.
  /// Errors: InvalidArgument if another thread is inside a call. The exception of a signal handler; the World is open
  ///         then.
  void close();
  /// Ends the World. Calls in flight have a second to end by themselves, then they end with Aborted on this rank. For
  /// Worlds that the program drops, and for its end.
  void end() noexcept;

  /// A Work is for this call. close() waits for it.
  void add_started(const std::shared_ptr<Call>& call) { started_.emplace(call.get(), call); }
  void remove_started(const Call& call) noexcept { started_.erase(&call); }
  /// Keeps a call that nobody waits for any more until it has ended, with the arrays that it uses.
  void keep(Call&& call);
  /// Keeps a communicator that nobody uses any more until a thread may end it.
  void keep(Communicator&& communicator);
  /// Memory of a communicator ends with the World, whoever still has it.
  void add_memory(Memory& memory) { memories_.insert(&memory); }
  void remove_memory(Memory& memory) noexcept { memories_.erase(&memory); }
  /// Keeps such memory until a thread may free it.
  void keep(Memory&& memory);
  /// Frees the kept objects that have ended. Precondition: a Turn lives.
  void sweep() {
    if (!kept_calls_.empty() || !kept_communicators_.empty() || !kept_memories_.empty()) [[unlikely]]
      sweep_kept();
  }
  /// May this thread free what belongs to the World? Not while another thread is inside a World of one thread.
  bool may_free() const noexcept { return !single_ || inside_.load(std::memory_order_relaxed) == 0; }

 private:
  friend class Turn;
  friend class Members;
  friend class Call;

  struct Closing {
    Session& session;
    ~Closing() { session.closing_ = false; }
  };

  void sweep_kept();
  /// The calls that have not ended, of one communicator or of all.
  /// Lifetime: other threads may drop a Work meanwhile.
  std::vector<std::shared_ptr<Call>> in_flight(const Members* of);
  /// Precondition: a Turn lives. Errors: the exception of a signal handler.
  void wait_for_calls(const Members* of);
  /// Gives the calls in flight a second, then ends their communicators on this rank.
  void end_calls() noexcept;
  [[noreturn]] void refuse(const char* call) const;

  const ForkMark fork_;
  const bool single_;
  const Duration timeout_;
  const bool names_calls_;
  std::optional<World> world_;
  bool closing_ = false;
  std::atomic<int> inside_{0};  ///< calls of threads that are inside the World
  std::unordered_set<Members*> members_;
  std::unordered_map<const Call*, std::weak_ptr<Call>> started_;  ///< calls that a Work is for
  std::vector<std::shared_ptr<Call>> kept_calls_;
  std::vector<Communicator> kept_communicators_;
  std::unordered_set<Memory*> memories_;
  std::vector<Memory> kept_memories_;
};

/// One thread's way into a World. Made and destroyed with Python's lock.
/// Errors: InvalidArgument if the World is closed, or if it is for one thread and another one is inside.
class Turn {
 public:
  Turn(Session& session, const char* call) : session_(&session) {
    if (!session.is_open() || session.closing_ ||
        (session.single_ && session.inside_.load(std::memory_order_relaxed) != 0)) [[unlikely]]
      session.refuse(call);
    session.inside_.fetch_add(1, std::memory_order_relaxed);
  }
  Turn(Turn&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (session_ != nullptr) session_->inside_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  Session* session_;
};

/// A communicator of a World. That of all ranks belongs to the World itself.
class Members {
 public:
  explicit Members(std::shared_ptr<Session> session);
  Members(std::shared_ptr<Session> session, Communicator own);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  Session& session() const noexcept { return *session_; }
  const std::shared_ptr<Session>& shared_session() const noexcept { return session_; }
  /// Precondition: a Turn lives.
  Communicator& communicator() { return own_ ? *own_ : session_->world().communicator(); }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Ends the communicator, as Session::close() does.
  void close();
  bool is_closed() const noexcept { return closed_; }
  /// A Turn for a call of this communicator.
  Turn enter(const char* call) {
    if (closed_) [[unlikely]]
      refuse_closed(call);
    return {*session_, call};
  }

 private:
  friend class Session;

  [[noreturn]] static void refuse_closed(const char* call);

  const std::shared_ptr<Session> session_;
  std::optional<Communicator> own_;
  int rank_ = -1;
  int size_ = 0;
  bool closed_ = false;
};

/// Runs `work` and returns when it has ended. Python's signal handlers run meanwhile: the main thread hands `work` to a
/// thread of its own and waits. If a handler throws, its exception leaves this function. `work` then goes on, and keeps
/// `turn`. For calls of sinew that have no Work.
/// Lifetime: `work` refers to nothing on the caller's stack. `session` is the one that `turn` is of, or null.
void run_aside(std::shared_ptr<Session> session, std::optional<Turn> turn, std::function<void()> work);

/// Ends all Worlds before Python ends.
void end_all_before_exit();

}  // namespace sinew::python

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/call/call_options.hpp>

#include "call.hpp"
#include "call_site.hpp"
#include "completion.hpp"
#include "errors.hpp"
#include "timeouts.hpp"
#include "worlds.hpp"

namespace sinew::torch_backend {

/// A process group as its calls see it: where they go, how long they may take, and what happens at their end.
/// Thread:   any. Threads that call at the same time must not count on the order of their calls.
/// Lifetime: the World ends in shut_down(). The object may live longer, as long as a handle of a call does.
class Group final : public CallOwner, public std::enable_shared_from_this<Group> {
 public:
  /// Joins the group. All members must do so. Errors: DistBackendError that names the ranks that did not come.
  static std::shared_ptr<Group> join(const Membership& membership);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  Timeouts& timeouts() noexcept { return timeouts_; }
  Completion& completion() noexcept { return completion_; }
  std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }

  /// Makes one call of sinew. `start` takes the communicator and the options and returns the Work.
  /// A synchronous call is over when this returns, unless it is on a device: there it follows what the current stream
  /// holds, and ends without the host. `inputs` are for the profiler.
  template <class Start>
  c10::intrusive_ptr<c10d::Work> submit(Submission&& s, at::TensorList inputs, Start&& start) {
    return submit_several(std::move(s), inputs, [&](Communicator& communicator, CallOptions& options, WorkList& works) {
      works.push_back(start(communicator, options));
    });
  }
  /// Makes several calls of sinew that count as one. `start` appends the Works.
  template <class Start>
  c10::intrusive_ptr<c10d::Work> submit_several(Submission&& s, at::TensorList inputs, Start&& start) {
    const Inside inside(*this);
    const Clock::time_point now = Clock::now();
    CallOptions options = prepare(s, inputs, now);
    const std::optional<c10::Device> device = s.buffers.device();
    if (device) [[unlikely]]
      follow(*device, options);
    WorkList works;
    translated(s.operation.name(), [&] { start(inside.communicator(), options, works); });
    return s.async || device ? finish_later(std::move(s), std::move(works))
                             : finish_now(std::move(s), std::move(works), now);
  }

  /// Runs `use` on the communicator while the World cannot end. `doing` names the operation in errors.
  template <class Use>
  void with_communicator(const char* doing, Use&& use) {
    const Inside inside(*this);
    translated(doing, [&] { use(inside.communicator()); });
  }

  /// Memory that the members of this host read without copies. It may outlive the group.
  /// Errors: DistBackendError where there is not so much.
  Memory allocate(std::size_t bytes);

  /// Waits until the collectives that are in flight have ended, however they end, and on a device that the group has
  /// been used on also for what the current stream holds.
  void drain();

  void call_ended(const Submission& call, const Status& status) noexcept override;
  void abort(const std::string& reason) override;
  bool enter() noexcept override {
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (state_.load(std::memory_order_seq_cst) != State::Closed) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept override { inside_.fetch_sub(1, std::memory_order_release); }
  /// Leaves the group: its later calls fail. Pending ones have this long to end by themselves, and are aborted then.
  /// Calling it again does nothing.
  void shut_down(Clock::duration patience) noexcept;

 private:
  static constexpr std::size_t kFirstSweep = 64;

  /// Leaving: calls have time to end. Their failures call no hooks any more, as the process may be ending.
  enum class State : std::uint8_t { Open, Leaving, Closed };

  /// Keeps the World alive while a thread is inside a call.
  class Inside {
   public:
    explicit Inside(Group& group) : group_(group) {
      if (!group_.enter()) [[unlikely]]
        group_.reject_closed();
    }
    ~Inside() { group_.leave(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    Communicator& communicator() const { return group_.members_->communicator(); }

   private:
    Group& group_;
  };

  Group(const Membership& membership, std::unique_ptr<Members> members);

  CallOptions prepare(Submission& s, at::TensorList inputs, Clock::time_point now) {
    static std::atomic<std::uint64_t> last_key = 0;
    s.sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
    s.key = last_key.fetch_add(1, std::memory_order_relaxed) + 1;
    const Timeouts::OfCall timeout = timeouts_.of_call(s.asked_timeout);
    s.timeout = timeout.timeout;
    s.latest_extension = timeout.latest_extension;
    s.event = ProfilerEvent(s.operation.title, inputs);
    CallOptions options{};
    options.deadline = Deadline(now + s.timeout);
    options.waits_at_once = !s.async;
    options.where = {};  // no line of this file
    options.label = call_site::label();
    return options;
  }
  /// The call starts after what the current stream of the device holds now.
  void follow(c10::Device device, CallOptions& options);
  c10::intrusive_ptr<c10d::Work> finish_now(Submission&& s, WorkList&& works, Clock::time_point now);
  c10::intrusive_ptr<c10d::Work> finish_later(Submission&& s, WorkList&& works);
  /// The call ended in this thread, before anybody else knew of it.
  c10::intrusive_ptr<c10d::Work> finished(Submission&& s, const Status& status, int source);
  c10::intrusive_ptr<Call> in_flight(Submission&& s, WorkList&& works);
  /// The calls that may be in flight.
  std::vector<c10::intrusive_ptr<Call>> recent();
  /// Waits until all calls have ended, as long as that takes at most. Returns whether they have.
  bool all_end_within(Clock::duration longest);
  [[noreturn]] void reject_closed() const;

  const int rank_;
  const int size_;
  const std::string name_;
  Timeouts timeouts_;
  Completion completion_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<int> device_index_ = -1;  ///< of the device whose tensors the calls had; -1: none

  std::unique_ptr<Members> members_;
  std::atomic<int> inside_ = 0;
  std::atomic<State> state_ = State::Open;

  std::mutex recent_mutex_;
  std::vector<c10::weak_intrusive_ptr<Call>> recent_;  ///< calls that may be in flight
  std::size_t next_sweep_ = kFirstSweep;               ///< how many of them make it time to forget those that are over
};

/// Leaves all groups that are left when the process ends: Python calls this before the interpreter goes.
void leave_all_groups() noexcept;

}  // namespace sinew::torch_backend

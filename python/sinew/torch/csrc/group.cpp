#include "group.hpp"

#include <algorithm>
#include <exception>
#include <thread>

#include <sinew/core/base/process_lock.hpp>

#include "device.hpp"
#include "signals.hpp"
#include "work.hpp"

namespace sinew::torch_backend {
namespace {

/// How long leaving a group waits for threads that are inside its calls. Their calls have been ended before.
constexpr auto kLeaveWithin = std::chrono::seconds(5);
constexpr auto kLeavePause = std::chrono::milliseconds(1);
/// How long calls that are in flight have to end when the process ends. Other ranks may wait to hear of its end.
constexpr auto kPatienceAtExit = std::chrono::seconds(1);

/// All groups of the process, for the end of the process. The list is never destroyed: what is in it must not end
/// after the libraries that it uses.
struct AllGroups {
  std::vector<std::weak_ptr<Group>> groups;

  static AllGroups& get() {
    static auto* const kAll = new AllGroups;
    return *kAll;
  }
  void add(const std::shared_ptr<Group>& group) {
    const ProcessLock lock(OfProcess::Bindings);
    std::erase_if(groups, [](const auto& g) { return g.expired(); });
    groups.push_back(group);
  }
};

}  // namespace

Group::Group(const Membership& membership, std::unique_ptr<Members> members)
    : rank_(membership.rank),
      size_(membership.size),
      name_(membership.name),
      timeouts_(membership.timeout),
      members_(std::move(members)) {}

std::shared_ptr<Group> Group::join(const Membership& membership) {
  if (membership.rank < 0 || membership.rank >= membership.size) {
    reject("create", c10::str("rank is ", membership.rank, " and the world size is ", membership.size,
                              ": expected a rank of 0 to ", membership.size - 1));
  }
  Membership checked = membership;
  checked.timeout = Timeouts::checked(membership.timeout);
  const std::string doing = "joining process group " + membership.name;
  try {
    auto members = translated(doing.c_str(), [&] { return worlds::join(checked); });
    std::shared_ptr<Group> group(new Group(checked, std::move(members)));
    AllGroups::get().add(group);
    return group;
  } catch (const c10::DistNetworkError& e) {
    throw error_of(Status(Code::System, c10::str("PyTorch's store does not answer (", e.what_without_backtrace(),
                                                 "): the process that keeps it, mostly that of rank 0 or torchrun, may "
                                                 "have ended; its output says why")),
                   doing);
  }
}

Memory Group::allocate(std::size_t bytes) {
  const Inside inside(*this);
  return translated("allocating a tensor", [&] { return members_->allocate(bytes); });
}

c10::intrusive_ptr<Call> Group::in_flight(Submission&& s, WorkList&& works) {
  auto call = c10::make_intrusive<Call>(std::move(s), std::move(works), shared_from_this());
  const std::lock_guard lock(recent_mutex_);
  if (recent_.size() >= next_sweep_) {
    std::erase_if(recent_, [](const auto& c) { return c.expired(); });
    next_sweep_ = 2 * recent_.size() + kFirstSweep;
  }
  recent_.emplace_back(call);
  return call;
}

void Group::follow(c10::Device device, CallOptions& options) {
  device_index_.store(device.index(), std::memory_order_relaxed);
  options.after = device::reference(device::current_stream(device));
  options.waits_at_once = false;  // the caller leaves when the call is on the device
}

c10::intrusive_ptr<c10d::Work> Group::finish_now(Submission&& s, WorkList&& works, Clock::time_point now) {
  Status status;
  try {
    status = wait_for(works, now, Deadline::never(), true);
  } catch (...) {
    // A signal handler threw. The call goes on without its caller and keeps the tensors until its end.
    in_flight(std::move(s), std::move(works))->let_go();
    throw;
  }
  return finished(std::move(s), status, -1);
}

c10::intrusive_ptr<c10d::Work> Group::finish_later(Submission&& s, WorkList&& works) {
  if (!s.buffers.device() && std::ranges::all_of(works, [](const Work& w) { return w.done(); })) {
    const Status status = wait_for(works, {}, Deadline::never());
    // A failure is told by the handle, as with every call that is waited for later.
    if (status.ok()) return finished(std::move(s), status, works.front().source());
  }
  return c10::make_intrusive<SinewWork>(in_flight(std::move(s), std::move(works)));
}

c10::intrusive_ptr<c10d::Work> Group::finished(Submission&& s, const Status& status, int source) {
  if (status.ok()) s.buffers.copy_back();
  s.event.end();
  call_ended(s, status);
  require(status, s.operation.name());
  return c10::make_intrusive<SinewWork>(std::move(s), source);
}

void Group::call_ended(const Submission& call, const Status& status) noexcept {
  if (call.latest_extension != 0) timeouts_.ended(call.latest_extension);
  try {
    if (status.ok()) {
      completion_.succeeded(call.key);
    } else if (state_.load(std::memory_order_relaxed) == State::Open) {
      completion_.failed(status.code());
    }
  } catch (const std::exception& e) {
    TORCH_WARN("sinew: a hook of process group ", name_, " failed: ", e.what());
  }
}

std::vector<c10::intrusive_ptr<Call>> Group::recent() {
  std::vector<c10::intrusive_ptr<Call>> calls;
  const std::lock_guard lock(recent_mutex_);
  for (const auto& weak : recent_) {
    if (auto call = weak.lock()) calls.push_back(std::move(call));
  }
  return calls;
}

void Group::drain() {
  if (const int index = device_index_.load(std::memory_order_relaxed); index >= 0) {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
    device::current_stream(device).synchronize();
  }
  for (const auto& call : recent()) {
    if (!call->submission().operation.message()) static_cast<void>(call->wait(Deadline::never()));
  }
}

bool Group::all_end_within(Clock::duration longest) {
  const Clock::time_point last = Clock::now() + longest;
  const auto calls = recent();
  const auto over = [&] {
    return inside_.load(std::memory_order_seq_cst) == 0 &&
           std::ranges::all_of(calls, [](const auto& call) { return call->poll(); });
  };
  while (!over()) {
    if (Clock::now() >= last) return false;
    std::this_thread::sleep_for(kLeavePause);
  }
  return true;
}

void Group::abort(const std::string& reason) {
  if (state_.load(std::memory_order_relaxed) == State::Closed) return;
  completion_.failed(Code::Aborted);
  const WithoutPythonLock unlocked;
  with_communicator("abort", [&](Communicator& communicator) { communicator.abort_here(reason); });
}

void Group::reject_closed() const {
  throw error_of(Status(Code::Aborted, "process group " + name_ + " was destroyed or shut down before"), "call");
}

void Group::shut_down(Clock::duration patience) noexcept {
  State open = State::Open;
  if (!state_.compare_exchange_strong(open, State::Leaving, std::memory_order_seq_cst)) return;
  // Continuations that run may want Python's lock.
  const WithoutPythonLock unlocked;
  try {
    const bool over = all_end_within(patience);
    state_.store(State::Closed, std::memory_order_seq_cst);
    if (!over) members_->communicator().abort_here("it left the process group");
    const Clock::time_point last = Clock::now() + kLeaveWithin;
    while (inside_.load(std::memory_order_seq_cst) != 0) {
      // A thread that does not come out of its call still uses the World.
      if (Clock::now() >= last) return static_cast<void>(members_.release());
      std::this_thread::sleep_for(kLeavePause);
    }
    members_.reset();
  } catch (const std::exception& e) {
    TORCH_WARN("sinew: process group ", name_, " did not end in order: ", e.what());
  }
}

void leave_all_groups() noexcept {
  std::vector<std::weak_ptr<Group>> groups;
  {
    const ProcessLock lock(OfProcess::Bindings);
    groups.swap(AllGroups::get().groups);
  }
  // The last group first: groups within groups end before what they are made of.
  for (auto g = groups.rbegin(); g != groups.rend(); ++g) {
    if (const auto group = g->lock()) group->shut_down(kPatienceAtExit);
  }
}

}  // namespace sinew::torch_backend

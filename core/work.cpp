#include <sched.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/call_slab.hpp>
#include <sinew/core/work.hpp>

namespace sinew {
namespace {

constexpr int kYieldsBeforeSleep = 200;

/// From its end being asked for to its end.
constexpr auto kEndsWithin = std::chrono::seconds(30);

/// Of a call that an exception leaves behind: its ranks have come, as a rule, and it ends by itself.
constexpr auto kEndsByItself = std::chrono::seconds(1);

/// An exception unwinds the stack, which may hold the call's buffers: nobody shall write there any more.
void leave_in_order(PendingCall& call) noexcept {
  try {
    if (call.slab->wait(call, Deadline::after(kEndsByItself))) return;
    call.slab->expire(call);
    static_cast<void>(call.slab->wait(call, Deadline::after(kEndsWithin)));
  } catch (const Error&) {
    // A fork's child: the call is its parent's.
  }
}

/// Apart from get(), which every call pays for.
[[gnu::noinline]] void end_late(PendingCall& call) {
  call.slab->expire(call);
  if (call.slab->wait(call, Deadline::after(kEndsWithin))) return;
  const std::string why = call.slab->explain(call);
  throw Error(Code::Timeout, fmt::format("{} called at {} does not end, and may still use its buffers{}{}",
                                         describe_fingerprint(call.fingerprint), site_text(call.where, call.label),
                                         why.empty() ? "" : ": ", why));
}

}  // namespace

void CallSlab::grow() {
  blocks_.push_back(std::make_unique<PendingCall[]>(kBlock));
  for (std::size_t i = kBlock; i-- > 0;) {
    PendingCall& op = blocks_.back()[i];
    op.slab = this;
    op.fire = judge_.at_end ? &CallSlab::fired<true> : &CallSlab::fired<false>;
    op.next_free = std::exchange(free_, &op);
  }
}

void CallSlab::release(PendingCall& op) noexcept {
  guarded([&] { give_back(op); });
}

template <bool Observed>
void CallSlab::fired(Completion& completion) noexcept {
  auto& op = static_cast<PendingCall&>(completion);
  if (!op.status.ok() && op.slab->judge_.hold && op.slab->judge_.hold(op)) return;
  if constexpr (Observed) op.slab->judge_.at_end(op);
  finish(op);
}

void CallSlab::settle(PendingCall& op) noexcept {
  op.slab->tell_end(op);
  finish(op);
}

void CallSlab::finish(PendingCall& op) noexcept {
  CallSlab& slab = *op.slab;
  op.record.complete(op.status.code());
  if (slab.guarded([&] { return slab.end(op); })) slab.ended_.notify_all();
}

void CallSlab::expire(PendingCall& op) noexcept {
  guarded([&] { op.deadline = Deadline(Clock::now()); });
}

void CallSlab::abandon(PendingCall& op) noexcept {
  const bool last = guarded([&] {
    op.abandoned = true;
    if (op.done.load(std::memory_order_acquire)) give_back(op);
    return retired_ && in_use_ == 0;
  });
  if (last) delete this;
}

void CallSlab::retire(CallSlab* slab) noexcept {
  // The runtimes that their events are of may go now.
  slab->guarded([slab] {
    for (auto& block : slab->blocks_) {
      for (std::size_t i = 0; i < kBlock; ++i) block[i].mark.clear();
    }
  });
  slab->for_each_pending([&](PendingCall& op) {
    op.status = Status(Code::Aborted, "its World has ended");
    op.done.store(true, std::memory_order_release);
    if (op.abandoned) slab->give_back(op);
  });
  const bool last = slab->guarded([slab] {
    slab->retired_ = true;
    return slab->in_use_ == 0;
  });
  if (last) delete slab;
}

void CallSlab::require_own_process() const {
  if (fork_.in_child())
    throw Error(Code::InvalidArgument, "this call was made before a fork: only the process that made it can wait");
}

bool CallSlab::wait(PendingCall& op, Deadline deadline) {
  require_own_process();
  const auto done = [&op] { return op.done.load(std::memory_order_acquire); };
  return threaded_ ? sleep(op, deadline) : engine_.wait(done, deadline, default_timeout_);
}

bool CallSlab::test(PendingCall& op) { return !threaded_ && wait(op, Deadline(Clock::now())); }

bool CallSlab::wait_for_mark(PendingCall& op, Deadline deadline) {
  require_own_process();
  const auto marked = [&op] { return op.mark.set() || op.done.load(std::memory_order_acquire); };
  if (!threaded_) return engine_.wait(marked, deadline, default_timeout_);
  // Enqueueing takes microseconds: not worth the sleepers' lock, which those that mark would have to take.
  const Deadline until = deadline.or_after(default_timeout_);
  while (!marked() && !until.passed()) ::sched_yield();
  return marked();
}

/// Another thread makes progress: gives it the core a few times, then sleeps until it says that a call has ended.
bool CallSlab::sleep(PendingCall& op, Deadline deadline) {
  const auto done = [&op] { return op.done.load(std::memory_order_acquire); };
  for (int turn = 0; turn < kYieldsBeforeSleep; ++turn) {
    if (done()) return true;
    ::sched_yield();
  }
  const Deadline until = deadline.or_after(default_timeout_);
  std::unique_lock lock(mutex_);
  ++sleepers_;
  const bool ended = ended_.wait_until(lock, until.at(), done);
  --sleepers_;
  return ended;
}

std::size_t CallSlab::pending_of(const void* owner) {
  std::size_t count = 0;
  for_each_pending([&](const PendingCall& op) { count += op.owner == owner ? 1 : 0; });
  return count;
}

bool Work::done() const noexcept { return call_ == nullptr || call_->done.load(std::memory_order_acquire); }

bool Work::test() { return done() || call_->slab->test(*call_); }

Status Work::wait(Deadline deadline) {
  if (call_ == nullptr) return {};
  if (!done() && !call_->slab->wait(*call_, deadline)) return Status::pending();
  return call_->status;
}

void Work::get() {
  if (call_ == nullptr) return;
  if (!done() && !call_->slab->wait(*call_, {})) end_late(*call_);
  call_->status.require();
}

void Work::order(StreamRef stream) {
  if (call_ == nullptr) return;
  if (done() || stream.device < 0 || !call_->slab->wait_for_mark(*call_, {}) || !call_->mark.set()) return get();
  call_->mark.order(stream);
}

void Work::abandon() noexcept {
  const bool done = call_->done.load(std::memory_order_acquire);
  if (!done && std::uncaught_exceptions() != 0) leave_in_order(*call_);
  call_->slab->abandon(*call_);
}

}  // namespace sinew

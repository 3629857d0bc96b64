#include <sched.h>

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include <sinew/core/call_slab.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

void CallSlab::grow() {
  const auto first = static_cast<std::uint32_t>(blocks_.size() * kBlock);
  auto block = std::make_unique<PendingCall[]>(kBlock);
  for (std::uint32_t i = kBlock; i-- > 0;) {
    block[i].index = first + i;
    block[i].slab = this;
    block[i].fire = &CallSlab::fired;
    free_.push_back(first + i);
  }
  free_.reserve(first + kBlock);
  blocks_.push_back(std::move(block));
}

PendingCall& CallSlab::acquire() {
  const auto lock = guard();
  if (free_.empty()) grow();
  PendingCall& op = at(free_.back());
  free_.pop_back();
  op.done.store(false, std::memory_order_relaxed);
  op.abandoned = false;
  ++op.serial;
  return op;
}

void CallSlab::release(PendingCall& op) noexcept {
  const auto lock = guard();
  op.owner = nullptr;
  op.peer = -1;
  op.deadline = {};
  op.first_seen_waiting = {};
  op.note = 0;
  op.status = {};
  op.record = {};
  free_.push_back(op.index);
}

void CallSlab::fired(Completion& completion) noexcept {
  auto& op = static_cast<PendingCall&>(completion);
  if (!op.status.ok() && op.slab->judge_.hold && op.slab->judge_.hold(op)) return;
  settle(op);
}

void CallSlab::settle(PendingCall& op) noexcept {
  op.record.complete(op.status.code());
  bool abandoned = false;
  {
    const auto lock = op.slab->guard();
    abandoned = op.abandoned;
    op.done.store(true, std::memory_order_release);
  }
  if (abandoned) op.slab->release(op);
}

void CallSlab::abandon(PendingCall& op) noexcept {
  {
    const auto lock = guard();
    if (!op.done.load(std::memory_order_acquire)) {
      op.abandoned = true;
      return;
    }
  }
  release(op);
}

bool CallSlab::wait(PendingCall& op, Deadline deadline) {
  const auto done = [&op] { return op.done.load(std::memory_order_acquire); };
  if (!threaded_) return engine_.wait(done, deadline, default_timeout_);
  const Deadline until = deadline.or_after(default_timeout_);
  for (int turn = 0; !done(); ++turn) {
    if (turn < 200) {
      ::sched_yield();
    } else {
      if (until.passed()) return false;
      const timespec pause{0, 20000};
      ::nanosleep(&pause, nullptr);
    }
  }
  return true;
}

std::size_t CallSlab::pending_of(const void* owner) {
  std::size_t count = 0;
  for_each_pending([&](const PendingCall& op) { count += op.owner == owner ? 1 : 0; });
  return count;
}

bool Work::done() const noexcept { return slab_ == nullptr || slab_->at(index_).done.load(std::memory_order_acquire); }

Status Work::wait(Deadline deadline) {
  if (slab_ == nullptr) return {};
  PendingCall& op = slab_->at(index_);
  if (!slab_->wait(op, deadline)) return Status::pending();
  return op.status;
}

void Work::get() {
  const Status status = wait();
  if (status.code() == Code::Pending) {
    const PendingCall& op = slab_->at(index_);
    const std::string why = slab_->explain(op);
    throw Error(Code::Timeout,
                fmt::format("{} called at {}:{} is not done after the configured timeout; it goes on{}{}",
                            describe_fingerprint(op.fingerprint), op.where.file_name(), op.where.line(),
                            why.empty() ? "" : ": ", why));
  }
  status.require();
}

void Work::order(StreamRef) { get(); }

void Work::abandon() noexcept { slab_->abandon(slab_->at(index_)); }

}  // namespace sinew

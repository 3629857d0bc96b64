#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/work.hpp>

namespace sinew {
namespace {

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
  throw Error(Code::Timeout,
              fmt::format("{} called at {} does not end, and may still use its buffers{}{}",
                          describe_fingerprint(call.fingerprint), site_of(call), why.empty() ? "" : ": ", why));
}

}  // namespace

void CallSlab::grow() {
  blocks_.push_back(std::make_unique<PendingCall[]>(kBlock));
  for (std::size_t i = kBlock; i-- > 0;) {
    PendingCall& op = blocks_.back()[i];
    op.slab = this;
    op.fire = judge_.observes_all ? &CallSlab::fired<true> : &CallSlab::fired<false>;
    op.next_free = std::exchange(free_, &op);
  }
}

CallSlab::CallSlab(Engine& engine, Duration default_timeout, bool threaded)
    : engine_(engine),
      default_timeout_(default_timeout),
      shared_(threaded ? std::make_unique<SharedProgress>(engine) : nullptr) {}

CallSlab::~CallSlab() = default;

void CallSlab::release(PendingCall& op) noexcept {
  if (shared_) shared_->ended(&op);
  give_back(op);
}

template <bool Observed>
void CallSlab::fired(Completion& completion) noexcept {
  auto& op = static_cast<PendingCall&>(completion);
  if (!op.status.ok() && op.slab->judge_.hold && op.slab->judge_.hold(op)) return;
  if constexpr (Observed) {
    const Judge& judge = op.slab->judge_;
    if (!judge.observes_all) op.fire = &CallSlab::fired<false>;  // for the next call in this place
    judge.at_end(op);
  }
  finish(op);
}

void CallSlab::settle(PendingCall& op) noexcept {
  op.slab->tell_end(op);
  finish(op);
}

void CallSlab::finish(PendingCall& op) noexcept {
  CallSlab& slab = *op.slab;
  op.record.complete(op.status.code());
  if (op.after) [[unlikely]]
    slab.start_after(op);
  op.done.store(true, std::memory_order_release);
  if (slab.shared_) [[unlikely]]
    slab.shared_->ended(&op);
  if (op.abandoned) slab.give_back(op);
}

void CallSlab::start_after(PendingCall& op) noexcept {
  for (std::unique_ptr<Continuation> at = std::move(op.after); at; at = std::move(at->next)) {
    continuations_->post([run = std::move(at->run), status = op.status] { run(status); });
  }
}

void CallSlab::then(PendingCall& op, std::function<void(const Status&)> run) {
  require_own_process();
  {
    const Hold hold(shared_.get());
    if (!op.done.load(std::memory_order_acquire)) {
      if (!continuations_) continuations_ = std::make_unique<Continuations>();
      std::unique_ptr<Continuation>* last = &op.after;
      while (*last) last = &(*last)->next;
      *last = std::make_unique<Continuation>(Continuation{std::move(run), nullptr});
      return;
    }
  }
  run(op.status);
}

void CallSlab::name_site(PendingCall& op, const std::string& text) {
  if (fork_.in_child()) return;
  const Hold hold(shared_.get());
  if (!op.done.load(std::memory_order_acquire) && judge_.name_site) judge_.name_site(op, text);
}

void CallSlab::expire(PendingCall& op) noexcept {
  const Hold hold(shared_.get());
  op.deadline = Deadline(Clock::now());
}

void CallSlab::abandon(PendingCall& op) noexcept {
  if (fork_.in_child()) return;
  bool last = false;
  {
    const Hold hold(shared_.get());
    op.abandoned = true;
    if (op.done.load(std::memory_order_acquire)) give_back(op);
    last = in_use_ == 0 && retired_;
  }
  if (last) delete this;
}

void CallSlab::retire(CallSlab* slab) noexcept {
  bool last = false;
  std::unique_ptr<Continuations> continuations;
  {
    const Hold hold(slab->shared_.get());
    // The runtimes that the calls' events are of may go now.
    for (auto& block : slab->blocks_) {
      for (std::size_t i = 0; i < kBlock; ++i) block[i].mark.clear();
    }
    slab->for_each_pending([&](PendingCall& op) {
      op.status = Status(Code::Aborted, "its World has ended");
      if (op.after) slab->start_after(op);
      op.done.store(true, std::memory_order_release);
      if (op.abandoned) slab->give_back(op);
    });
    slab->retired_ = true;
    last = slab->in_use_ == 0;
    continuations = std::move(slab->continuations_);
  }
  continuations.reset();  // waits for the functions
  if (last) delete slab;
}

void CallSlab::require_own_process() const {
  if (fork_.in_child())
    throw Error(Code::InvalidArgument, "this call was made before a fork: only the process that made it can wait");
}

bool CallSlab::wait(PendingCall& op, Deadline deadline) {
  require_own_process();
  const Hold hold(shared_.get());
  return wait_until([&op] { return op.done.load(std::memory_order_acquire); }, deadline, &op);
}

bool CallSlab::wait_and_free(PendingCall& op) {
  require_own_process();
  bool last = false;
  {
    const Hold hold(shared_.get());
    const auto done = [&op] { return op.done.load(std::memory_order_acquire); };
    if (!wait_until(done, {}, &op) || !op.status.ok() || is_message(op)) return false;
    give_back(op);
    last = in_use_ == 0 && retired_;
  }
  if (last) [[unlikely]]
    delete this;
  return true;
}

bool CallSlab::test(PendingCall& op) {
  require_own_process();
  if (!shared_) return wait(op, Deadline(Clock::now()));
  const Hold hold(shared_.get());
  shared_->turn();
  return op.done.load(std::memory_order_acquire);
}

bool CallSlab::wait_for_mark(PendingCall& op, Deadline deadline) {
  require_own_process();
  const Hold hold(shared_.get());
  return wait_until([&op] { return op.mark.set() || op.done.load(std::memory_order_acquire); }, deadline);
}

std::size_t CallSlab::pending_of(const void* owner) {
  std::size_t count = 0;
  for_each_pending([&](const PendingCall& op) { count += op.owner == owner ? 1 : 0; });
  return count;
}

bool Work::done() const noexcept { return call_ == nullptr || call_->done.load(std::memory_order_acquire); }

bool Work::captured() const noexcept { return call_ != nullptr && call_->mark.set() && call_->mark.captured(); }

bool Work::test() { return done() || call_->slab->test(*call_); }

Status Work::wait(Deadline deadline) {
  if (call_ == nullptr) return {};
  if (!done() && !call_->slab->wait(*call_, deadline)) return Status::pending();
  return call_->status;
}

void Work::get() {
  if (call_ == nullptr) return;
  if (call_->slab->wait_and_free(*call_)) {
    call_ = nullptr;
    return;
  }
  if (!done()) end_late(*call_);
  call_->status.require();
}

void Work::then(std::function<void(const Status&)> run) {
  if (call_ == nullptr) return run(Status());
  call_->slab->then(*call_, std::move(run));
}

void Work::name_site(const std::string& text) {
  if (call_ != nullptr) call_->slab->name_site(*call_, text);
}

int Work::source() const noexcept {
  return call_ != nullptr && done() && collective_of(call_->fingerprint) == Collective::Recv ? call_->peer : -1;
}

void Work::order(StreamRef stream) {
  if (call_ == nullptr) return;
  if (!order(stream, {}).ok()) get();
}

Status Work::order(StreamRef stream, Deadline deadline) {
  if (call_ == nullptr || stream.device < 0) return wait(deadline);
  // A captured call is done before it has run: streams of the capture must wait for it all the same.
  if (done() && !captured()) return wait(deadline);
  if (!call_->slab->wait_for_mark(*call_, deadline)) return Status::pending();
  if (!call_->mark.set()) return wait(deadline);
  call_->mark.order(stream);
  return {};
}

void Work::abandon() noexcept {
  const bool done = call_->done.load(std::memory_order_acquire);
  if (!done && std::uncaught_exceptions() != 0) leave_in_order(*call_);
  call_->slab->abandon(*call_);
}

Status wait_all(std::span<Work> works, Deadline deadline) {
  Status first;
  for (Work& work : works) {
    Status status = work.wait(deadline);
    if (status.code() == Code::Pending) return status;
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace sinew

#include "call.hpp"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

#include "device.hpp"
#include "errors.hpp"
#include "signals.hpp"

namespace sinew::torch_backend {
namespace {

/// Between two looks whether a World that ends has ended a call.
constexpr auto kWorldEnds = std::chrono::milliseconds(1);

}  // namespace

template <class Use>
void Call::with_works(Lock& lock, Use&& use) {
  struct Turn {
    Call& call;
    Lock& lock;
    bool entered;
    ~Turn() {
      if (entered) call.owner_->leave();
      lock.lock();
      call.used_ = false;
      call.changed_.notify_all();
    }
  };
  used_ = true;
  lock.unlock();
  const Turn turn{*this, lock, owner_->enter()};
  while (!turn.entered && !works_have_ended()) std::this_thread::sleep_for(kWorldEnds);
  use();
}

bool Call::works_have_ended() const noexcept {
  return std::ranges::all_of(works_, [](const Work& w) { return w.done(); });
}

bool Call::is_captured() const noexcept {
  return std::ranges::any_of(works_, [](const Work& w) { return w.captured(); });
}

bool Call::poll() {
  Lock lock(mutex_);
  if (ended_ || ender_ == std::this_thread::get_id()) return true;
  if (used_ || ender_ != std::thread::id{}) return false;
  Status status = Status::pending();
  with_works(lock, [&] {
    if (std::ranges::all_of(works_, [](Work& w) { return w.test(); })) status = wait_for(works_, {}, Deadline::never());
  });
  if (status.code() != Code::Pending) end(lock, status);
  return ended_;
}

bool Call::wait(Deadline until) {
  Lock lock(mutex_);
  while (!ended_) {
    // A continuation of the future waits for the call that it is a continuation of.
    if (ender_ == std::this_thread::get_id()) return true;
    if (!used_ && ender_ == std::thread::id{}) {
      Status status;
      with_works(lock, [&] { status = wait_for(works_, Clock::now(), until); });
      if (status.code() != Code::Pending) {
        end(lock, status);
      } else {
        // Somebody may have asked for the future meanwhile, while the Works were in use.
        if (future_) continue_later(lock);
        return ended_;
      }
    } else {
      sleep(lock, until);
      if (!ended_ && until.passed()) return false;
    }
  }
  return true;
}

void Call::order(const c10::Stream& stream) {
  Lock lock(mutex_);
  while (!ended_) {
    if (ender_ == std::this_thread::get_id()) return;
    if (used_ || ender_ != std::thread::id{}) {
      sleep(lock, {});
      continue;
    }
    Status status;
    with_works(lock, [&] {
      status = wait_for(works_, Clock::now(), {}, false, device::reference(stream));
      if (status.ok() && s_.buffers.copies_back()) {
        const c10::StreamGuard guard(stream);
        copy_back();
      }
    });
    if (status.ok()) break;
    end(lock, status);
  }
  if (copied_) copied_->block(stream);
}

void Call::sleep(Lock& lock, Deadline until) {
  const Clock::time_point pause = Clock::now() + kSignalPause;
  changed_.wait_until(lock, until.given() ? std::min(until.at(), pause) : pause);
  if (ended_ || until.passed()) return;
  lock.unlock();
  run_signal_handlers();
  lock.lock();
}

void Call::copy_back() {
  if (!device_) return s_.buffers.copy_back();
  if (!s_.buffers.copies_back()) return;
  const c10::Stream stream = device::current_stream(*device_);
  s_.buffers.copy_back();
  s_.buffers.keep_for(stream);
  copied_.emplace(device_->type());
  copied_->record(stream);
}

void Call::let_go() noexcept {
  try {
    Lock lock(mutex_);
    continue_later(lock);
  } catch (const std::exception&) {
    // A process that was forked off since: the call is its parent's.
  }
}

void Call::abort() { owner_->abort(c10::str("a Work of ", s_.operation.name(), " was aborted")); }

void Call::continue_later(Lock& lock) {
  if (continued_ || used_ || ender_ != std::thread::id{}) return;
  continued_ = true;
  registrar_ = std::this_thread::get_id();
  with_works(lock, [&] {
    works_.back().then([call = c10::intrusive_ptr<Call>::reclaim_copy(this)](const Status&) { call->continuation(); });
  });
  registrar_ = {};
  if (ended_at_once_ && !ended_ && ender_ == std::thread::id{}) {
    Status status;
    with_works(lock, [&] { status = wait_for(works_, Clock::now(), Deadline::never()); });
    end(lock, status);
  }
}

void Call::continuation() {
  {
    const Lock lock(mutex_);
    // The last Work had ended before the function was registered. continue_later(), further up this stack, goes on.
    if (registrar_ == std::this_thread::get_id()) {
      ended_at_once_ = true;
      return;
    }
  }
  static_cast<void>(wait(Deadline::never()));
}

void Call::end(Lock& lock, const Status& status) {
  ender_ = std::this_thread::get_id();
  lock.unlock();
  std::exception_ptr failure;
  if (status.ok()) {
    try {
      copy_back();
    } catch (...) {
      failure = std::current_exception();
    }
  } else {
    failure = std::make_exception_ptr(error_of(status, s_.operation.name()));
  }
  const int source = works_.front().source();
  s_.buffers.clear();
  s_.event.end();
  owner_->call_ended(s_, status);
  lock.lock();
  failure_ = std::move(failure);
  source_ = source;
  resolved_ = true;
  if (future_) {
    lock.unlock();
    complete(*future_);
    lock.lock();
  }
  ended_ = true;
  changed_.notify_all();
}

void Call::complete(c10::ivalue::Future& future) const {
  if (failure_) {
    future.setError(failure_);
  } else {
    future.markCompleted(s_.outputs.value());
  }
}

std::exception_ptr Call::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

int Call::source() const {
  const Lock lock(mutex_);
  return source_;
}

c10::intrusive_ptr<c10::ivalue::Future> Call::future() {
  if (device_) return future_on_device();
  Lock lock(mutex_);
  if (future_) return future_;
  future_ = s_.outputs.future();
  if (resolved_) {
    complete(*future_);
  } else {
    continue_later(lock);
  }
  return future_;
}

/// The future belongs to a stream of this backend, which waits for the call. torch makes the streams of those that wait
/// for the future wait for that stream. The future of a captured call belongs to the caller's stream, which has the
/// call itself, because each stream of a capture has to join the first one again.
c10::intrusive_ptr<c10::ivalue::Future> Call::future_on_device() {
  {
    const Lock lock(mutex_);
    if (device_future_) return device_future_;
  }
  const c10::Stream on = is_captured() ? device::current_stream(*device_) : device::side_stream(*device_);
  order(on);
  const Lock lock(mutex_);
  if (device_future_) return device_future_;
  auto future = s_.outputs.future(device_);
  const c10::StreamGuard guard(on);
  complete(*future);
  device_future_ = future;
  return future;
}

}  // namespace sinew::torch_backend

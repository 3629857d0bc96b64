#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>

#include "operation.hpp"
#include "outputs.hpp"
#include "profiler_event.hpp"
#include "tensors.hpp"
#include "waits.hpp"

namespace sinew::torch_backend {

/// What a call is made of, beside the Works. The group fills in the numbers below `event`.
struct Submission {
  const Operation& operation;
  std::chrono::milliseconds asked_timeout;  ///< c10d::kUnsetTimeout: that of the group
  bool async;
  Outputs outputs{};
  Buffers buffers{};
  ProfilerEvent event{};
  std::uint64_t sequence = 0;
  std::uint64_t key = 0;
  std::uint64_t latest_extension = 0;
  std::chrono::milliseconds timeout{0};
};

/// What a call knows of its process group.
class CallOwner {
 public:
  virtual ~CallOwner() = default;
  /// Is told how a call ended.
  virtual void call_ended(const Submission& call, const Status& status) noexcept = 0;
  /// Ends all calls of the group.
  virtual void abort(const std::string& reason) = 0;
  /// Keeps the World alive until leave(). False: the World ends, or has ended, and its calls end with it.
  virtual bool enter() noexcept = 0;
  virtual void leave() noexcept = 0;
};

/// A call that is in flight. It keeps its tensors alive and ends exactly once, whoever finds out first: a thread that
/// waits, one that asks, or a thread of the World's executor.
/// Thread: any, several at once. The first one that waits drives the Works; the others sleep until it is done.
class Call final : public c10::intrusive_ptr_target {
 public:
  Call(Submission submission, WorkList works, std::shared_ptr<CallOwner> owner)
      : s_(std::move(submission)), device_(s_.buffers.device()), works_(std::move(works)), owner_(std::move(owner)) {}

  const Submission& submission() const noexcept { return s_; }
  /// Of its tensors; nothing: the CPU.
  std::optional<c10::Device> device() const noexcept { return device_; }

  /// Says whether the call has ended, and ends it if its Works have.
  bool poll();
  /// Waits for the end. Returns false if `until` passes first.
  /// Errors: the exception of a signal handler of Python; not the failure of the call.
  bool wait(Deadline until);
  /// Of a call on a device: makes the stream wait for the call. The host waits until the call is on the device.
  /// Errors: as wait().
  void order(const c10::Stream& stream);
  /// Makes the call end by itself, without anybody who waits or asks.
  void let_go() noexcept;
  void abort();

  std::exception_ptr failure() const;
  int source() const;
  /// Completed at the end of the call, by the thread that finds it and not by the one that makes progress. Of a call on
  /// a device it is complete when this returns, and who waits for it makes the current stream wait.
  c10::intrusive_ptr<c10::ivalue::Future> future();

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Runs `use` on the Works without the lock, while no other thread uses them and their World is there.
  /// If the World ends, waits until the Works have ended with it, and runs `use` then.
  template <class Use>
  void with_works(Lock& lock, Use&& use);
  bool works_have_ended() const noexcept;
  /// True if the call is part of a CUDA graph.
  bool is_captured() const noexcept;
  /// Until something changes, signal handlers included, or `until` passes.
  void sleep(Lock& lock, Deadline until);
  /// Makes the copies that follow the call, on the current stream where the call is on a device.
  void copy_back();
  /// Makes a thread of the executor call wait() when the Works have ended.
  void continue_later(Lock& lock);
  void continuation();
  /// Ends the call. The lock is released while it does so.
  void end(Lock& lock, const Status& status);
  void complete(c10::ivalue::Future& future) const;
  c10::intrusive_ptr<c10::ivalue::Future> future_on_device();

  Submission s_;
  const std::optional<c10::Device> device_;
  WorkList works_;
  const std::shared_ptr<CallOwner> owner_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool used_ = false;       ///< a thread uses the Works
  bool continued_ = false;  ///< the executor will call continuation()
  bool ended_at_once_ = false;
  std::thread::id registrar_{};  ///< the thread that is in continue_later()
  std::thread::id ender_{};      ///< the thread that is, or was, in end()
  bool resolved_ = false;        ///< failure_ and source_ are final
  bool ended_ = false;
  std::optional<c10::Event> copied_;  ///< on a device: after the copies that follow the call
  std::exception_ptr failure_;
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;         ///< to be completed at the end
  c10::intrusive_ptr<c10::ivalue::Future> device_future_;  ///< complete
};

}  // namespace sinew::torch_backend

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <sinew/core/completion.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/transports/nccl/calls/nccl_call.hpp>
#include <sinew/transports/nccl/errand.hpp>

namespace sinew::nccl {

class Issuer;

/// A call, or an errand, between launch and its end, in one list at a time.
struct Launch {
  Launch* next = nullptr;
  Issuer* issuer = nullptr;
  NcclCall call{};
  DeviceRuntime::Event event = 0;  ///< before it is issued: what it waits for, if `waits`; after: its end
  bool waits = false;
  StreamRef capturing = {};   ///< of a captured call: the stream on which it is captured
  std::uint64_t capture = 0;  ///< of that stream; 0: the call is not captured
  DeviceMark* mark = nullptr;
  Completion* done = nullptr;
  Extent* parts = nullptr;  ///< of the call
  std::size_t part_count = 0;
  std::shared_ptr<Errand> errand = {};  ///< instead of a call
};

class LaunchList {
 public:
  Launch* front() const noexcept { return head_; }
  void push(Launch& l) noexcept {
    l.next = nullptr;
    (head_ ? tail_->next : head_) = &l;
    tail_ = &l;
  }
  Launch& pop() noexcept { return *std::exchange(head_, head_->next); }

 private:
  Launch* head_ = nullptr;
  Launch* tail_ = nullptr;
};

/// A communicator as the order of its device sees it.
class Issuer {
 public:
  enum class Answer : std::uint8_t { Yes, NotYet, Failed };

  /// Tells if NCCL is through with what it was asked before. `next` is what this issuer has to start, or is that which
  /// was asked. Failed: this issuer's launches were taken out of the order.
  virtual Answer ready(const Launch& next) noexcept = 0;
  /// Hands the call to NCCL, which may put it on the stream later: it is there when ready() says Yes again.
  virtual Answer issue(const Launch& launch) noexcept = 0;
  /// The call is on the stream; the errand is done.
  virtual void started(Launch& launch) noexcept = 0;

 protected:
  ~Issuer() = default;
};

/// Starts the calls of all communicators of a World on its device in the order in which they were made. Otherwise ranks
/// that share two communicators could wait for each other, each inside another communicator's call. A call whose
/// communicator is not ready holds up those behind it. Each communicator has a stream of its own, so that calls overlap
/// once they have started.
/// Thread: of the World's engine.
class LaunchOrder {
 public:
  /// `orders_itself`: NCCL keeps the order on the device (NCCL_LAUNCH_ORDER_IMPLICIT).
  LaunchOrder(DeviceRuntime& runtime, int device, bool orders_itself);
  ~LaunchOrder();
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  DeviceRuntime& runtime() noexcept { return runtime_; }
  int device() const noexcept { return device_; }

  /// Count the communicators that live.
  void enter() noexcept { ++issuers_; }
  void leave() noexcept { --issuers_; }

  void add(Launch& launch) noexcept { waiting_.push(launch); }
  /// Lets the work that is put on `stream` next start after that of the call before, if that is on another stream.
  /// Cost: an event, if there are several communicators.
  void start_on(StreamRef stream);
  /// Within one capture, lets a captured call run after the captured call of another communicator that was made before
  /// it. Between branches of a graph nothing else holds the order: the device starts them in any.
  void capture_on(StreamRef stream, std::uint64_t capture);
  /// The call that was announced by capture_on() is on the stream.
  void captured_on(StreamRef stream, std::uint64_t capture);
  /// Issues what can be; returns how many.
  int advance() noexcept;
  /// Moves the launches of an issuer to `to`, in order; true: one of them is with NCCL, perhaps on the stream.
  bool drop(const Issuer& issuer, LaunchList& to) noexcept;

 private:
  DeviceRuntime& runtime_;
  const int device_;
  const bool orders_itself_;
  int issuers_ = 0;
  StreamRef last_;                                // the stream of the last call that was issued
  std::optional<DeviceRuntime::Event> start_;     // on that stream, before the call's work
  std::uint64_t capture_ = 0;                     // of the captured call that was issued last
  std::optional<DeviceRuntime::Event> captured_;  // after it, within that capture
  Launch* issued_ = nullptr;                      // with NCCL, not known to be on the stream
  LaunchList waiting_;
};

}  // namespace sinew::nccl

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <sinew/conformance/fault.hpp>
#include <sinew/core/transport.hpp>

namespace sinew::test {

/// Another transport, whose messages meet faults; what no fault hits goes through as it is. A World over one must end
/// each call with the right numbers, or with an Error that names a rank. Whoever waits polls: nothing wakes a thread
/// when a delay is over. Cost: one comparison per rule and operation.
class FaultInjector final : public Transport {
 public:
  /// `inner` outlives it; `rank` is this process's.
  FaultInjector(Transport& inner, const std::vector<Fault>& faults, int rank);
  ~FaultInjector() override;

  std::string_view name() const noexcept override { return inner_.name(); }
  const Capabilities& capabilities() const noexcept override { return inner_.capabilities(); }
  Address address() const override { return inner_.address(); }
  Reach probe(const Address& peer) override { return inner_.probe(peer); }
  std::unique_ptr<Endpoint> connect(const Address& peer) override;

  int progress() noexcept override;
  bool active() const noexcept override { return inner_.active() || waits(); }
  int wake_descriptor() const noexcept override { return inner_.wake_descriptor(); }
  bool arm() noexcept override { return !waits() && inner_.arm(); }
  void disarm() noexcept override { inner_.disarm(); }

  /// How many operations and connections met a fault.
  std::uint64_t hits() const noexcept { return hits_; }

 private:
  class FaultyEndpoint;
  /// An operation that was begun while nothing moves.
  struct Stopped {
    FaultyEndpoint* at;
    Completion* done;
    std::function<void()> begin;
  };
  /// A send that has not been handed on.
  struct Held {
    FaultyEndpoint* to;
    ConstBuffer from;
    Tag tag;
    std::uint64_t note;
    Completion* done;
    Clock::time_point due;
    bool overtakable;  ///< by the next send to that peer
  };
  struct Copy;

  bool waits() const noexcept { return stalled_ || !stopped_.empty() || !held_.empty() || !decided_.empty(); }
  void count_operation();
  bool is_stopped() const noexcept { return stalled_ && Clock::now() < stalled_until_; }
  void begin(FaultyEndpoint& at, Completion& done, std::function<void()> operation);
  const Fault* fault_of_next_send();
  void send(Held message);
  void pass(Held message);
  void send_copy(const Held& message);
  void hand_on(const Held& message);
  void release_due();
  void decide(Completion& done, Status status);
  int fire_decided() noexcept;
  std::optional<bool> cancel_own(const Completion& done);
  void forget(const FaultyEndpoint& endpoint);

  Transport& inner_;
  std::vector<Fault> faults_;  // of this rank
  std::uint64_t operations_ = 0;
  std::uint64_t sends_ = 0;
  std::uint64_t connections_ = 0;
  std::uint64_t hits_ = 0;
  bool stalled_ = false;
  Clock::time_point stalled_until_{};
  std::list<Stopped> stopped_;
  std::list<Held> held_;             // in the order of their sends
  std::list<Copy> copies_;           // in flight
  std::deque<Completion*> decided_;  // to be fired by the next progress
};

}  // namespace sinew::test

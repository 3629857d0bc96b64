#pragma once

#include <cstdint>
#include <map>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>
#include <sinew/transports/ofi/flow.hpp>
#include <sinew/transports/ofi/frame.hpp>
#include <sinew/transports/ofi/shared.hpp>

namespace sinew::ofi {

/// The endpoint to one peer. It connects frames and flows with the matcher.
///
/// When an endpoint ends, it first cancels the provider's operations on users' buffers (fi_cancel). Receives can be
/// cancelled until their message has come, sends cannot. If operations remain after half a second, the endpoint cuts
/// them off with the connection to the peer. Some providers cannot do that: then the users' operations end, and
/// `closed` waits for the provider.
class OfiEndpoint final : public Endpoint, MatcherWire, FlowOwner {
 public:
  OfiEndpoint(Shared& shared, PeerAddress peer, const RailsTo& to, Lane& lane, std::uint64_t their_key);
  ~OfiEndpoint() override;

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override;
  void recv(Sink to, Tag tag, Completion& done) override;
  bool has_unexpected(Tag tag) const noexcept override { return matcher_.has_unexpected(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& closed) override;

  std::uint64_t their_key() const noexcept { return their_key_; }
  /// A frame of the peer, in whatever order the provider completed it.
  void frame(const FrameHeader& header, const std::byte* payload);
  /// Frames to the peer can no more be sent.
  void lane_failed();
  /// Everything ends with this: at once, or when what the peer sent before has had time to come.
  void lose(const Status& why, bool at_once);
  /// It waits for the provider. true: there is nothing to wait for any more.
  bool pass_time(Clock::time_point now);
  void wait_on();

 private:
  // MatcherWire
  void grant(std::uint64_t id, Completion& receive) override;
  void refuse(std::uint64_t id, Code why, std::uint64_t note) override;
  void return_credit(std::size_t charge) override;
  // FlowOwner
  void receives_posted(Flow& flow) override;
  void piece_arrived(Flow& flow, const std::byte* scratch, std::size_t bytes) override;
  void flow_ended(Flow& flow, const Status& why) override;

  Place place_of(MemoryKind kind) const noexcept {
    return kind == MemoryKind::Device ? Place{kind, shared_.options.device} : Place{kind};
  }
  std::size_t piece_bytes(std::size_t total) const noexcept;
  void control(const FrameHeader& header, ConstBuffer payload = {}, Completion* done = nullptr);
  void handle(const FrameHeader& header, const std::byte* payload);
  void cleared(const FrameHeader& header);
  void granted(const FrameHeader& header);
  void refused(const FrameHeader& header);
  void withdrawn(std::uint32_t number);
  Status about_peer(const Status& why) const;
  Flow& flow_of(Way way, Completion& operation);
  void finish(Completion& c, Status status) { shared_.finished.add(c, std::move(status)); }

  void end_messages(const Status& reason);
  void stop_flows();
  /// Unless that was ended before, with an endpoint that could not be cut off.
  void end_operation(Flow& flow, const Status& why);
  void cut_off();
  void fire_closed_if_idle();

  Shared& shared_;
  const PeerAddress peer_;
  const RailsTo to_;
  Lane& lane_;
  const std::uint64_t their_key_;
  Matcher matcher_;
  CreditWindow credit_;
  OwedCredit owed_credit_;
  std::uint32_t next_frame_ = 0;
  std::map<std::uint32_t, Bytes> early_;  // frames whose turn has not come
  SlotTable<Completion> announced_;
  SlotTable<Flow> flows_;

  Status end_{};
  Completion* closed_ = nullptr;
  enum class Ending : std::uint8_t { No, Patient, Stopped, Over } ending_ = Ending::No;
  Clock::time_point patience_{};
};

}  // namespace sinew::ofi

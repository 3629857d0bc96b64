#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/transports/ucx/peer_address.hpp>
#include <sinew/transports/ucx/requests.hpp>

namespace sinew::ucx {

class UcxEndpoint;

/// What UCX has to one peer, for as long as the worker lives. Frames leave and arrive through it, in their order.
class Link final : RequestOwner {
 public:
  struct Kept {
    Frame frame;
    Bytes payload;
  };

  /// Where it puts itself: `all_connected` when UCX has connected it, `all_broken` when UCX gives it up.
  Link(Requests& all_requests, int own_rank, std::vector<Link*>& all_connected, std::vector<Link*>& all_broken)
      : requests_(all_requests), rank_(own_rank), now_connected_(all_connected), broken_(all_broken) {}

  /// `watch_peer`: UCX is to notice the peer's end by itself, and to end what waits for it.
  /// A peer that is not there any more is a failure like later ones, not an error.
  void open(ucp_worker_h worker, const PeerAddress& peer, bool watch_peer, HostPeers* host);
  /// It is connected: gives UCX what has waited for that. From no callback of UCX's, which does not bear the first send
  /// to a peer within its own dispatch (1.13: "scheduling arbiter group while it's being dispatched").
  void begin();
  bool is_open() const noexcept { return ep_ != nullptr; }
  bool is_connected() const noexcept { return connected_; }
  /// Is there anything to be sent as soon as it is connected?
  bool waits_to_be_connected() const noexcept { return !connected_ && !waiting_.empty(); }
  bool watches_peer() const noexcept { return watches_peer_; }
  ucp_ep_h ep() const noexcept { return ep_; }
  std::uint32_t token() const noexcept { return token_; }

  /// Gives the frame to UCX, now or when the connection is there. Never waits for the receiver. The payload is copied.
  void post(const Frame& frame) { post(requests_.take(Request::What::Frame), frame, sizeof frame, {}); }
  void post(Request& r, const Frame& frame, std::size_t header_bytes, ConstBuffer payload);
  /// A frame that came: it, and what waited for it, go to the endpoint, or are kept for the one that will be.
  void accept(const Frame& frame, const std::byte* payload, std::size_t bytes);
  void attach(UcxEndpoint& endpoint);
  void detach() noexcept;
  UcxEndpoint* endpoint() const noexcept { return endpoint_; }

  /// UCX is to forget the peer; what it has begun ends.
  void abandon();
  /// What waits for a connection that will not be there ends.
  void end_waiting();
  /// Has UCX given it up?
  bool failed() const noexcept { return failure_ != UCS_OK; }
  ucs_status_t failure() const noexcept { return failure_; }
  const std::string& why() const noexcept { return why_; }
  Clock::time_point failed_at() const noexcept { return failed_at_; }
  /// No frame will come any more, and nobody ask UCX for memory of this rank: the peer's worker has ended, or its
  /// process.
  bool peer_is_gone() const;

 private:
  struct Waiting {
    Request* request;
    std::size_t header_bytes;
  };

  static void on_failure(void* self, ucp_ep_h ep, ucs_status_t status);
  void fail(ucs_status_t status, const std::string& details);
  void completed(Request& connecting, ucs_status_t status) override;
  ucs_status_ptr_t send(Request& r, std::size_t header_bytes);
  void dispatch(const Frame& frame, const std::byte* payload, std::size_t bytes);

  Requests& requests_;
  const int rank_;
  std::vector<Link*>& now_connected_;
  std::vector<Link*>& broken_;
  HostPeers* host_ = nullptr;  // where the peer is another process of this host
  int peer_rank_ = -1;
  ucp_ep_h ep_ = nullptr;
  std::uint32_t token_ = 0;
  bool watches_peer_ = false;
  bool connected_ = false;
  ucs_status_t failure_ = UCS_OK;
  std::string why_;
  Clock::time_point failed_at_{};
  bool gone_ = false;
  bool left_ = false;  // there is no endpoint any more: what comes is dropped
  UcxEndpoint* endpoint_ = nullptr;
  std::deque<Waiting> waiting_;
  std::uint32_t next_out_ = 0;
  std::uint32_t next_in_ = 0;
  std::map<std::uint32_t, Kept> ahead_;  // by sequence
  std::deque<Kept> early_;               // in order, from before the endpoint
};

}  // namespace sinew::ucx

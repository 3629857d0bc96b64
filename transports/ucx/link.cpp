#include <poll.h>

#include <utility>

#include <fmt/format.h>

#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/endpoint.hpp>
#include <sinew/transports/ucx/link.hpp>

namespace sinew::ucx {

/// UCX is given nothing to send before it has connected: with a request for the peer's id in its queue (all but the
/// shortest messages make one) it aborts the process if the connection fails (1.13: "got REQ message").
void Link::open(ucp_worker_h worker, const PeerAddress& peer, bool watch_peer, HostPeers* host) {
  const Embedded embedded;
  token_ = peer.token();
  watches_peer_ = watch_peer;
  peer_rank_ = peer.rank;
  if (host != nullptr && host->contains(peer.rank) && !host->same_process(peer.rank)) host_ = host;
  ucp_ep_params_t p{};
  p.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  p.address = reinterpret_cast<const ucp_address_t*>(peer.worker.data());
  p.err_mode = watch_peer ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  p.err_handler = {&on_failure, this};
  const ucs_status_t status = ucp_ep_create(worker, &p, &ep_);
  if (status != UCS_OK) {
    ep_ = nullptr;
    return fail(status, Embedded::first_error());
  }
  Request& r = requests_.take(Request::What::Frame, this);
  ucp_request_param_t q{};
  q.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  q.cb.send = &Requests::sent;
  q.user_data = &r;
  Requests::returned(r, ucp_ep_flush_nbx(ep_, &q));
}

void Link::completed(Request& /*connecting*/, ucs_status_t status) {
  if (status != UCS_OK) return fail(status, {});
  now_connected_.push_back(this);
}

void Link::begin() {
  if (failed()) return;
  connected_ = true;
  for (Waiting& w : std::exchange(waiting_, {})) {
    Requests::take_back(*w.request);
    Requests::returned(*w.request, send(*w.request, w.header_bytes));
  }
}

/// In the mode without recovery, too: of a socket that broke, or a process that CMA does not find.
void Link::on_failure(void* self, ucp_ep_h /*ep*/, ucs_status_t status) { static_cast<Link*>(self)->fail(status, {}); }

void Link::fail(ucs_status_t status, const std::string& details) {
  if (failed()) return;
  failure_ = status;
  why_ = fmt::format("cannot be reached: {}{}{}", ucs_status_string(status), details.empty() ? "" : ": ", details);
  failed_at_ = Clock::now();
  broken_.push_back(this);
}

void Link::end_waiting() {
  for (Waiting& w : std::exchange(waiting_, {})) {
    Requests::take_back(*w.request);
    Requests::returned(*w.request, UCS_STATUS_PTR(failure_));
  }
}

void Link::post(Request& r, const Frame& frame, std::size_t header_bytes, ConstBuffer payload) {
  r.frame = frame;
  r.frame.token = token_;
  r.frame.sequence = next_out_++;
  r.frame.rank = static_cast<std::uint32_t>(rank_);
  requests_.keep(r, payload);
  if (failed()) return Requests::returned(r, UCS_STATUS_PTR(failure_));
  if (connected_) return Requests::returned(r, send(r, header_bytes));
  Requests::begin(r);
  waiting_.push_back({&r, header_bytes});
}

ucs_status_ptr_t Link::send(Request& r, std::size_t header_bytes) {
  const Embedded embedded;
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  p.flags = UCP_AM_SEND_FLAG_EAGER;  // not UCX's rendezvous: it would wait
  p.cb.send = &Requests::sent;
  p.user_data = &r;
  return ucp_am_send_nbx(ep_, kFrameId, &r.frame, header_bytes, r.kept(), r.bytes, &p);
}

void Link::accept(const Frame& f, const std::byte* payload, std::size_t bytes) {
  if (f.sequence != next_in_) {
    ahead_.emplace(f.sequence, Kept{f, Bytes(payload, payload + bytes)});
    return;
  }
  ++next_in_;
  dispatch(f, payload, bytes);
  for (auto next = ahead_.find(next_in_); next != ahead_.end(); next = ahead_.find(next_in_)) {
    const Kept kept = std::move(ahead_.extract(next).mapped());
    ++next_in_;
    dispatch(kept.frame, kept.payload.data(), kept.payload.size());
  }
}

void Link::dispatch(const Frame& f, const std::byte* payload, std::size_t bytes) {
  if (f.kind == FrameKind::Gone) gone_ = true;
  if (endpoint_ != nullptr) return endpoint_->take(f, payload, bytes);
  if (!left_) early_.push_back({f, Bytes(payload, payload + bytes)});
}

void Link::attach(UcxEndpoint& endpoint) {
  endpoint_ = &endpoint;
  left_ = false;
  for (const Kept& k : std::exchange(early_, {})) endpoint.take(k.frame, k.payload.data(), k.payload.size());
}

void Link::detach() noexcept {
  endpoint_ = nullptr;
  left_ = true;
}

void Link::abandon() {
  failure_ = UCS_ERR_CANCELED;
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  p.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t closing = ucp_ep_close_nbx(std::exchange(ep_, nullptr), &p);
  if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
  end_waiting();
}

bool Link::peer_is_gone() const {
  if (gone_ || failed()) return true;
  if (host_ == nullptr) return false;
  pollfd life{host_->life_of(peer_rank_), POLLIN, 0};
  return ::poll(&life, 1, 0) == 1;
}

}  // namespace sinew::ucx

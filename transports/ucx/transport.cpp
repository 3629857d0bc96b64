#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/transport.hpp>

namespace sinew::ucx {
namespace {

/// For frames that are still on their way out when the transport ends.
constexpr auto kFlushPatience = std::chrono::seconds(1);
/// A peer that leaves breaks its connections, maybe before its last words have been read from others of them.
constexpr auto kLastWords = std::chrono::milliseconds(200);

}  // namespace

UcxTransport::UcxTransport(const Options& options) : shared_(options) {
  takes_device_memory_ = shared_.ucx.carries_cuda();
  if (takes_device_memory_.ok && !options.has_device)
    takes_device_memory_ = Availability::no("this rank has no device");
  shared_.self = {.rank = options.rank,
                  .instance = random_id(),
                  .host_id = options.host_id,
                  .leads_elsewhere = shared_.ucx.leads_elsewhere(),
                  .device_memory = takes_device_memory_.ok,
                  .worker = shared_.ucx.address(),
                  .rails = shared_.rails.addresses()};
  shared_.links.resize(static_cast<std::size_t>(options.size));
  capabilities_.device_memory = takes_device_memory_.ok;
  capabilities_.cancels_sends = true;
  capabilities_.eager_bytes = options.eager_bytes;
  shared_.rails.sleep_beside(shared_.ucx);
  handle(shared_.ucx.worker(), kFrameId, &on_frame);
  handle(shared_.ucx.worker(), kDataId, &on_data);
  for (std::size_t rail = 0; rail < shared_.rails.count(); ++rail)
    handle(shared_.rails.worker(rail), kDataId, &on_data);
}

void UcxTransport::handle(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t p{};
  p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  p.id = id;
  p.cb = callback;
  p.arg = &arrivals_.emplace_back(Arrivals{this, worker});
  require(ucp_worker_set_am_recv_handler(worker, &p), "setting a handler of active messages");
}

UcxTransport::~UcxTransport() {
  const Embedded embedded;
  const auto give_up = Deadline::after(kFlushPatience);
  for (const auto& link : shared_.links) {
    if (!link || !link->is_open()) continue;
    const auto wait_while = [&](auto holds) {
      while (holds() && !give_up.passed() && !link->peer_is_gone()) shared_.turn();
    };
    wait_while([&] { return link->waits_to_be_connected(); });
    if (!link->is_connected() || link->peer_is_gone()) continue;
    link->post({.kind = FrameKind::Gone});
    ucp_request_param_t p{};
    const ucs_status_ptr_t flush = ucp_ep_flush_nbx(link->ep(), &p);
    if (!UCS_PTR_IS_PTR(flush)) continue;
    wait_while([&] { return ucp_request_check_status(flush) == UCS_INPROGRESS; });
    ucp_request_free(flush);
  }
}

Reach UcxTransport::probe(const Address& peer) {
  try {
    const PeerAddress p = PeerAddress::decode(peer);
    if (p.instance == shared_.self.instance) return {false, "a rank does not reach itself over ucx", {}, {}};
    if (p.host_id == shared_.self.host_id) {
      if (const Link& link = open_link(p, false); link.failed()) return {false, link.why(), {}, {}};
      return {true, {}, {5e-7, 1e-6, {{64 << 10, 4e9}, {1 << 20, 8e9}}}, "memory"};
    }
    for (const PeerAddress* end : {&std::as_const(shared_.self), &p}) {
      if (end->leads_elsewhere) continue;
      return {false, fmt::format("UCX has no network transport on rank {}'s host (UCX_TLS?)", end->rank), {}, {}};
    }
    return {true, {}, {1e-6, 10e-6, {{1 << 20, 1.2e9}}}, "network"};
  } catch (const Error& e) {
    return {false, e.what(), {}, {}};
  }
}

/// As far as UCX knows at once, when it is asked for a connection: its transports may lead nowhere.
Link& UcxTransport::open_link(const PeerAddress& peer, bool watch_peer) {
  if (peer.rank < 0 || peer.rank >= shared_.options.size)
    throw Error(Code::InvalidArgument, fmt::format("ucx: rank {} of {}", peer.rank, shared_.options.size));
  Link& link = shared_.link_to(peer.rank);
  if (!link.is_open() && !link.failed()) link.open(shared_.ucx.worker(), peer, watch_peer, shared_.options.host);
  return link;
}

std::vector<Link*> UcxTransport::open_rails(const PeerAddress& peer) {
  std::vector<Link*> links;
  for (const RailPair& pair : rails_between(shared_.self, peer)) {
    PeerAddress there = peer;
    there.worker = peer.rails[pair.there].worker;
    Link& link =
        shared_.rail_links.emplace_back(shared_.requests, shared_.self.rank, shared_.connected, shared_.broken);
    link.open(shared_.rails.worker(pair.here), there, true, nullptr);
    links.push_back(&link);
  }
  return links;
}

std::unique_ptr<Endpoint> UcxTransport::connect(const Address& peer) {
  PeerAddress p = PeerAddress::decode(peer);
  if (const Reach r = probe(peer); !r.ok && !shared_.has_failed(p.rank))
    throw Error(Code::Unavailable, fmt::format("ucx: rank {} {}", p.rank, r.reason), p.rank);
  Link& link = open_link(p, p.host_id != shared_.self.host_id);
  if (link.endpoint() != nullptr) {
    throw Error(Code::InvalidArgument, fmt::format("ucx: rank {} has an endpoint already", p.rank));
  }
  std::vector<Link*> rails = open_rails(p);
  auto endpoint = std::make_unique<UcxEndpoint>(shared_, std::move(p), link, std::move(rails));
  link.attach(*endpoint);
  // A peer that has ended cannot be reached, but what it sent before may be here: end_broken() waits for that.
  const bool waits_for_last_words = std::ranges::find(shared_.broken, &link) != shared_.broken.end();
  if (link.failed() && !waits_for_last_words) endpoint->lose(link.why());
  return endpoint;
}

ucs_status_t UcxTransport::on_frame(void* arrivals, const void* header, std::size_t header_bytes, void* payload,
                                    std::size_t bytes, const ucp_am_recv_param_t* /*how*/) {
  Shared& shared = static_cast<Arrivals*>(arrivals)->transport->shared_;
  Frame f;
  if (header_bytes != kEagerHeaderBytes && header_bytes != sizeof f) return UCS_OK;
  std::memcpy(&f, header, header_bytes);
  if (f.token != shared.self.token() || f.rank >= shared.links.size()) return UCS_OK;
  shared.link_to(static_cast<int>(f.rank)).accept(f, static_cast<const std::byte*>(payload), bytes);
  return UCS_OK;
}

ucs_status_t UcxTransport::on_data(void* arrivals, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* how) {
  const auto [transport, worker] = *static_cast<Arrivals*>(arrivals);
  Shared& shared = transport->shared_;
  DataFrame d;
  if (header_bytes != sizeof d) return UCS_OK;
  std::memcpy(&d, header, sizeof d);
  Stream* stream = shared.streams.find(d.stream);
  if (d.token != shared.self.token() || stream == nullptr) return UCS_OK;  // cancelled meanwhile
  const bool waits_at_sender = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return stream->endpoint->take_data(*stream, d, {worker, data, bytes, waits_at_sender});
}

int UcxTransport::progress() noexcept {
  int events = 0;
  {
    const Embedded embedded;
    events = static_cast<int>(shared_.turn());
  }
  if (!shared_.broken.empty()) events += end_broken();
  if (!shared_.ending.empty()) {
    std::erase_if(shared_.ending, [&](UcxEndpoint* e) { return e->settle(events == 0); });
  }
  const int fired = shared_.finished.fire();
  shared_.pending -= static_cast<std::size_t>(fired);
  return events + fired;
}

int UcxTransport::end_broken() {
  const auto now = Clock::now();
  return static_cast<int>(std::erase_if(shared_.broken, [&](Link* link) {
    if (now - link->failed_at() < kLastWords) return false;
    if (link->endpoint() != nullptr) {
      link->endpoint()->lose(link->why());
    }
    link->end_waiting();
    return true;
  }));
}

bool UcxTransport::arm() noexcept {
  if (!shared_.finished.empty() || !shared_.connected.empty() || !shared_.broken.empty()) return false;
  const bool watch = std::ranges::any_of(shared_.ending, [](UcxEndpoint* e) { return e->must_be_watched(); });
  const Embedded embedded;
  return !watch && ucp_worker_arm(shared_.ucx.worker()) == UCS_OK && shared_.rails.arm();
}

std::unique_ptr<Transport> make_transport(const Options& options) { return std::make_unique<UcxTransport>(options); }

}  // namespace sinew::ucx

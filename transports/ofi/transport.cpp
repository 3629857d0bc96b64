
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>
#include <sinew/transports/ofi/session_key.hpp>
#include <sinew/transports/ofi/transport.hpp>

namespace sinew::ofi {
namespace {

constexpr std::size_t kReceives = 64;
constexpr auto kFarewell = std::chrono::seconds(1);
/// What a made-up rank may cost.
constexpr int kMostRanks = 1 << 20;

/// The offer of the first rail, then those of the others.
std::vector<Info> infos_of(Choice& choice) {
  std::vector<Info> all;
  all.push_back(std::move(choice.info));
  for (Info& further : choice.further) all.push_back(std::move(further));
  return all;
}

}  // namespace

Shared::Shared(const Options& o, std::vector<Info> infos)
    : options(o),
      rails(std::move(infos), o.sleeps),
      self{.rank = o.rank,
           .instance = random_id(),
           .host_id = o.host_id,
           .provider = rails.first().provider(),
           .format = rails.first().info().addr_format,
           .place = rails.first().is_shm() ? shared_memory_place() : "",
           .name = rails.first().name(),
           .further = rails.further_names()},
      outgoing(rails.first(), sizeof(FrameHeader) + o.eager_bytes),
      incoming(rails.first(), sizeof(FrameHeader) + o.eager_bytes) {}

void Shared::forget(const OfiEndpoint& endpoint) noexcept {
  std::ranges::replace(peers, &endpoint, nullptr);
  std::erase_if(faults, [&](const Fault& f) { return f.endpoint == &endpoint; });
  std::erase(ending, &endpoint);
}

OfiTransport::OfiTransport(const Options& options, Choice choice)
    : shared_(options, infos_of(choice)),
      nic_choice_{.text = fmt::format("{} on {}: {}", shared_.rails.first().provider(),
                                      shared_.rails.first().info().domain_attr->name, choice.reason),
                  .is_nearest = choice.is_nearest},
      takes_device_memory_(std::move(choice.device_memory)) {
  shared_.self.device_memory = takes_device_memory_.ok;
  capabilities_.device_memory = takes_device_memory_.ok;
  capabilities_.cancels_sends = true;
  capabilities_.eager_bytes = options.eager_bytes;
  shared_.outgoing.serve(&OfiTransport::frame_left, this);
  shared_.incoming.serve(&OfiTransport::frame_came, this);
  // The first frames are here from the beginning, so that this rank can say farewell when no more memory can be
  // registered.
  shared_.outgoing.give(shared_.outgoing.take());
  for (std::size_t i = 0; i < kReceives; ++i) unposted_.push_back(&shared_.incoming.take());
  post_receives();
  log::info("ofi: provider {}", nic_choice_.text);
}

OfiTransport::~OfiTransport() {
  say_farewell();
  shared_.rails.close_endpoints();
}

Reach OfiTransport::probe(const Address& peer) {
  try {
    const PeerAddress p = PeerAddress::decode(peer);
    if (std::string why = obstacle_between(shared_.self, p); !why.empty()) return {false, std::move(why), {}, {}};
    const std::string domain = shared_.rails.first().info().domain_attr->name;
    if (shared_.rails.first().is_shm()) return {true, {}, {0.5e-6, 1e-6, {{64 << 10, 6e9}, {1 << 20, 12e9}}}, "memory"};
    if (!shared_.rails.first().provider().starts_with("tcp"))
      return {true, {}, {1e-6, 3e-6, {{1 << 20, 10e9}}}, domain};
    if (p.host_id == shared_.self.host_id)
      return {true, {}, {5e-6, 8e-6, {{64 << 10, 2e9}, {1 << 20, 4e9}}}, "loopback"};
    return {true, {}, {6e-6, 30e-6, {{1 << 20, 1.2e9}}}, domain};
  } catch (const Error& e) {
    return {false, e.what(), {}, {}};
  }
}

std::unique_ptr<Endpoint> OfiTransport::connect(const Address& peer) {
  if (const Reach r = probe(peer); !r.ok) throw Error(Code::Unavailable, "ofi: " + r.reason);
  PeerAddress p = PeerAddress::decode(peer);
  const int rank = p.rank;
  if (rank < 0 || rank >= kMostRanks || shared_.lane_to.contains(rank)) {
    throw Error(Code::InvalidArgument, fmt::format("ofi: rank {} has or had an endpoint already", rank));
  }
  const Options& o = shared_.options;
  const RailsTo to = shared_.rails.reach(shared_.self, p);
  const Lane::Ends ends{.to = to.rails[0].peer,
                        .peer_rank = rank,
                        .life = shared_.rails.first().is_shm() ? o.life_of(rank) : -1,
                        .own_rank = o.rank,
                        .key = session_key(o.secret, o.rank, rank, p.instance)};
  auto lane = std::make_unique<Lane>(shared_.lanes, ends);
  if (shared_.peers.size() <= static_cast<std::size_t>(rank)) shared_.peers.resize(static_cast<std::size_t>(rank) + 1);
  auto endpoint = std::make_unique<OfiEndpoint>(shared_, std::move(p), to, *lane,
                                                session_key(o.secret, rank, o.rank, shared_.self.instance));
  shared_.lane_to[rank] = std::move(lane);
  shared_.peers[static_cast<std::size_t>(rank)] = endpoint.get();
  const auto waiting = parked_.extract(rank);
  for (std::size_t i = 0; !waiting.empty() && i < waiting.mapped().size(); ++i) {
    FrameHeader header;
    std::memcpy(&header, waiting.mapped()[i].data(), sizeof header);
    endpoint->frame(header, waiting.mapped()[i].data() + sizeof header);
  }
  return endpoint;
}

int OfiTransport::progress() noexcept {
  int events = shared_.rails.poll();
  if (!unposted_.empty()) post_receives();
  if (!shared_.lanes.stalled.empty()) flush_lanes();
  if (shared_.flows.anything_stalled()) shared_.flows.retry();
  if (!shared_.faults.empty()) end_faulted();
  if (!shared_.ending.empty()) watch_ending();
  const int fired = shared_.finished.fire();
  shared_.pending -= static_cast<std::size_t>(fired);
  return events + fired;
}

bool OfiTransport::arm() noexcept {
  const bool idle = shared_.finished.empty() && shared_.faults.empty() && shared_.ending.empty() &&
                    shared_.lanes.stalled.empty() && !shared_.flows.anything_stalled() && unposted_.empty();
  return idle && shared_.rails.arm();
}

void OfiTransport::post_receives() {
  while (!unposted_.empty()) {
    Frame& frame = *unposted_.back();
    Request& request = frame;
    const ssize_t result = fi_recv(shared_.rails.first().endpoint(), frame.data, shared_.incoming.frame_bytes(),
                                   frame.descriptor, FI_ADDR_UNSPEC, &request);
    if (is_later(result)) return;
    require(result, "posting a receive");
    unposted_.pop_back();
  }
}

void OfiTransport::frame_came(Request& request, const Outcome& outcome) {
  auto& frame = static_cast<Frame&>(request);
  auto& self = *static_cast<OfiTransport*>(frame.owner);
  if (outcome.error == 0) {
    self.sort_in(frame, outcome.bytes);
  } else {
    log::debug("ofi: a message that is no frame: {}", outcome.text);
  }
  self.unposted_.push_back(&frame);
  self.post_receives();
}

void OfiTransport::frame_left(Request& request, const Outcome& outcome) {
  auto& frame = static_cast<Frame&>(request);
  auto& self = *static_cast<OfiTransport*>(frame.owner);
  self.shared_.outgoing.give(frame);
  // Whose it was does not matter to the others; the peer's other operations will say more.
  if (outcome.error != 0) log::debug("ofi: a frame could not be sent: {}", outcome.text);
}

void OfiTransport::sort_in(const Frame& frame, std::size_t bytes) {
  FrameHeader h;
  if (bytes < sizeof h) return;
  std::memcpy(&h, frame.data, sizeof h);
  const std::size_t payload = h.kind == FrameKind::Eager ? h.bytes : 0;
  if (h.rank < 0 || h.rank >= kMostRanks || bytes - sizeof h != payload) return;
  const auto rank = static_cast<std::size_t>(h.rank);
  OfiEndpoint* peer = rank < shared_.peers.size() ? shared_.peers[rank] : nullptr;
  if (peer == nullptr) return park(h, frame.data, bytes);
  if (h.key == peer->their_key()) peer->frame(h, frame.data + sizeof h);
}

void OfiTransport::park(const FrameHeader& h, const std::byte* frame, std::size_t bytes) {
  if (h.key != session_key(shared_.options.secret, h.rank, shared_.options.rank, shared_.self.instance)) return;
  const auto lane = shared_.lane_to.find(h.rank);
  if (lane == shared_.lane_to.end()) {
    parked_[h.rank].emplace_back(frame, frame + bytes);
  } else if (h.kind == FrameKind::Bye) {
    lane->second->drop(true, [](Completion&) {});  // nobody is there for what this rank had to say
  }
}

void OfiTransport::flush_lanes() {
  std::erase_if(shared_.lanes.stalled, [this](Lane* lane) {
    const bool flushed = lane->flush();
    OfiEndpoint* endpoint = shared_.peers[static_cast<std::size_t>(lane->ends().peer_rank)];
    if (!lane->failure().empty() && endpoint != nullptr) endpoint->lane_failed();
    return flushed;
  });
}

void OfiTransport::end_faulted() {
  for (const Shared::Fault& f : std::exchange(shared_.faults, {})) {
    f.endpoint->lose(f.why, true);
  }
}

void OfiTransport::watch_ending() {
  const auto now = Clock::now();
  const std::vector<OfiEndpoint*> all = std::exchange(shared_.ending, {});
  for (OfiEndpoint* endpoint : all) {
    if (!endpoint->pass_time(now)) endpoint->wait_on();
  }
}

/// What this rank said last is to reach the provider's peers: nobody moves it on after the endpoint.
void OfiTransport::say_farewell() {
  const Deadline until = Deadline::after(kFarewell);
  const auto unsaid = [this] { return !shared_.lanes.stalled.empty() || shared_.outgoing.taken() != 0; };
  while (unsaid() && !until.passed()) {
    shared_.rails.first().poll();
    flush_lanes();
  }
}

}  // namespace sinew::ofi

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <sinew/transports/shm/endpoint.hpp>

// Life and death of an endpoint; see endpoint_send.cpp and endpoint_receive.cpp for what it does in between.
namespace sinew::shm {
namespace {

/// What the owner of the port writes for `rank`.
template <class PortType>
auto& box_for(PortType& port, const HostPeers& host, int rank) {
  const auto ranks = host.ranks();
  return port.box(static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin()), ranks.size());
}

const Port& port_of(HostPeers& host, const PortAddress& a) {
  return *reinterpret_cast<const Port*>(host.memory_of(static_cast<int>(a.rank)) + a.offset);
}

}  // namespace

ShmEndpoint::ShmEndpoint(Hub& hub, const PortAddress& peer)
    : hub_(hub),
      peer_(static_cast<int>(peer.rank)),
      mine_(box_for(*hub.port, hub.host, peer_)),
      theirs_(box_for(port_of(hub.host, peer), hub.host, hub.rank)),
      their_port_(port_of(hub.host, peer)),
      their_heap_(hub.host.memory_of(peer_)),
      waker_(hub.host.waker_of(peer_)),
      same_process_(hub.host.same_process(peer_)),
      out_(Port::ring_of(mine_, hub.host.ranks().size()), hub.salt, theirs_.consumed.value),
      in_(Port::ring_of(theirs_, hub.host.ranks().size()), peer.salt, mine_.consumed.value),
      matcher_(*this, hub.pool, hub.finished, hub.generation) {
  hub_.endpoints.push_back(this);
}

ShmEndpoint::~ShmEndpoint() {
  const Status reason{Code::Cancelled, "the endpoint was destroyed"};
  end(reason);
  announced_.for_each([&](Completion&, std::uint32_t id) { end_send(id, reason); });
  std::erase(hub_.endpoints, this);
}

int ShmEndpoint::progress() noexcept {
  int moved = handle_frames();
  moved += pull();
  moved += flush();
  if (quiet_ != nullptr) fire_quiet();
  return moved;
}

bool ShmEndpoint::active() const noexcept {
  return matcher_.pending() != 0 || !waiting_.empty() || announced_.count() != 0 || !controls_.empty() ||
         !pulls_.empty() || quiet_ != nullptr;
}

bool ShmEndpoint::can_progress() noexcept {
  if (!pulls_.empty()) return true;
  if (end_.ok()) {  // else nobody looks at what comes
    if (in_.next() != nullptr) return true;
    if (theirs_.ended.value.load(std::memory_order_acquire) == in_.position() + 1) return true;
  }
  const bool has_something = !controls_.empty() || !waiting_.empty() || !pouring_.empty();
  return (has_something && out_.has_room(2 * Frame::lines_for(kPieceBytes))) || quiet_ != nullptr;
}

void ShmEndpoint::close(Completion& quiet) {
  end({Code::Cancelled, "the endpoint was closed"});
  quiet_ = &quiet;
  fire_quiet();
}

/// This side ends: nothing is sent or received any more. Messages that the peer is reading right now end when it has.
void ShmEndpoint::end(const Status& reason) noexcept {
  const bool told = end_.code() == Code::Cancelled;
  end_ = reason;
  if (!told) {
    flush_controls();
    controls_.clear();
    mine_.ended.value.store(out_.position() + 1, std::memory_order_release);
    waker_.notify();
  }
  while (Completion* c = waiting_.pop()) hub_.finished.add(*c, reason);
  pouring_.clear();
  take_all_back(reason);
  end_receives(reason);
  matcher_.close(reason);
}

void ShmEndpoint::end_receives(const Status& reason) noexcept {
  mine_.claimed.value.store(0, std::memory_order_release);
  claimed_ = false;
  for (const Pull& p : pulls_) {
    if (p.receive != nullptr) matcher_.fail(*p.receive, reason);
  }
  pulls_.clear();
  granted_.for_each([&](Completion& receive, std::uint32_t number) {
    granted_.erase(number);
    matcher_.fail(receive, reason);
  });
}

void ShmEndpoint::lose_peer() noexcept {
  end_ = {Code::PeerLost, fmt::format("rank {} has closed its end", peer_), peer_};
  controls_.clear();
  while (Completion* c = waiting_.pop()) hub_.finished.add(*c, end_);
  pouring_.clear();
  announced_.for_each([&](Completion&, std::uint32_t id) { end_send(id, end_); });
  end_receives(end_);
  matcher_.fail(end_);
}

/// Quiet once the peer has stopped reading what is left, or has ended itself.
void ShmEndpoint::fire_quiet() noexcept {
  const bool gone = theirs_.ended.value.load(std::memory_order_acquire) != 0 ||
                    (announced_.count() != 0 && !same_process_ && hub_.host.has_ended(peer_));
  announced_.for_each([&](Completion& send, std::uint32_t id) {
    if (gone || !being_read(send, id)) end_send(id, end_);
  });
  if (announced_.count() == 0) hub_.finished.add(*std::exchange(quiet_, nullptr), {});
}

}  // namespace sinew::shm

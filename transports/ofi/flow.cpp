#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/ofi/flow.hpp>
#include <sinew/transports/ofi/frame.hpp>
#include <sinew/transports/ofi/life.hpp>

namespace sinew::ofi {
namespace {

/// A connection that ended shows in the operations that it ends.
bool is_connection(int error) {
  switch (error) {
    case FI_ECANCELED:
    case FI_ECONNABORTED:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_EIO:
    case FI_ENETUNREACH:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT: return true;
    default: return false;
  }
}

Status provider_failed(int error, const std::string& text) {
  return {is_connection(error) ? Code::PeerLost : Code::System, text};
}

}  // namespace

Flows::Flows(Rails& rails) : rails_(rails), most_receives_(rails.first().info().rx_attr->size / 2) {
  for (std::uint32_t i = 0; i < rails.count(); ++i) scratch_.emplace_back(rails.at(i), kScratchBytes);
}

Flow& Flows::take() {
  if (free_.empty()) free_.push_back(&all_.emplace_back(&Flows::piece_ended));
  Flow& f = *free_.back();
  free_.pop_back();
  f.flows = this;
  for (Piece& p : f.window) p.flow = &f;
  return f;
}

void Flows::start(Flow& f) {
  if (rails_.first().registers(f.place.kind) && !f.through_scratch && f.total != 0) {
    try {
      for (std::uint32_t i = 0; i < f.to.count; ++i) {
        const std::uint32_t rail = f.to.rails[i].rail;
        f.registrations[rail] =
            rails_.at(rail).register_memory({f.base, f.total, f.place}, f.way == Way::Send ? FI_SEND : FI_RECV);
      }
    } catch (const Error& e) {
      f.broken = true;
      halt(f, {Code::System, e.what()});
    }
  }
  post(f);
  settle(f);
}

void Flows::grant(Flow& f, std::uint64_t pieces) {
  f.granted = std::max(f.granted, pieces);
  post(f);
  settle(f);
}

void Flows::stop(Flow& f, Status why) {
  if (!f.stopping) halt(f, std::move(why));
  settle(f);
}

void Flows::retry() {
  for (Flow* f : std::exchange(stalled_, {})) {
    f->stalled = false;
    post(*f);
    settle(*f);
  }
}

void Flows::post(Flow& f) {
  while (!f.stopping && !f.stalled && f.posted < f.pieces() && f.has_room()) {
    Piece& p = f.piece(f.posted);
    p.rail = f.rail_of(f.posted).rail;
    if (f.through_scratch && p.scratch == nullptr && !take_scratch(f, p)) return;
    const ssize_t result = post(f, p);
    if (is_later(result)) {
      f.stalled = true;
      stalled_.push_back(&f);
    } else if (result != 0) {
      f.broken = true;
      halt(f, provider_failed(static_cast<int>(-result), fi_strerror(static_cast<int>(-result))));
    } else {
      p.posted = true;
      ++f.posted;
      ++f.in_flight;
      if (f.way == Way::Receive) ++receives_;
    }
  }
  if (f.way == Way::Receive && f.granted < f.posted && !f.stopping && f.owner != nullptr) f.owner->receives_posted(f);
}

/// false: the provider registers no more memory, and the flow is halted.
bool Flows::take_scratch(Flow& f, Piece& p) {
  try {
    p.scratch = &scratch_[p.rail].take();
    return true;
  } catch (const Error& e) {
    f.broken = true;
    halt(f, {Code::System, e.what()});
    return false;
  }
}

ssize_t Flows::post(Flow& f, Piece& p) {
  if (f.way == Way::Receive && receives_ >= most_receives_) return -FI_EAGAIN;
  if (f.way == Way::Send && has_ended(f.life)) return -FI_ESHUTDOWN;
  const std::size_t offset = f.posted * f.piece_bytes;
  p.bytes = std::min(f.piece_bytes, f.total - offset);
  const RailTo& to = f.rail_of(f.posted);
  std::byte* at = p.scratch != nullptr ? p.scratch->data : f.base + offset;
  const fid_mr* registration = f.registrations[to.rail].get();
  void* descriptor = p.scratch != nullptr      ? p.scratch->descriptor
                     : registration != nullptr ? registration->mem_desc
                                               : nullptr;
  Request& request = p;
  fid_ep* ep = rails_.at(to.rail).endpoint();
  if (f.way == Way::Send)
    return fi_tsend(ep, at, p.bytes, descriptor, to.peer, piece_tag(f.theirs, f.posted), &request);
  return fi_trecv(ep, at, p.bytes, descriptor, to.peer, piece_tag(f.number, f.posted), 0, &request);
}

void Flows::piece_ended(Request& request, const Outcome& outcome) {
  auto& piece = static_cast<Piece&>(request);
  piece.flow->flows->ended(*piece.flow, piece, outcome);
}

void Flows::ended(Flow& f, Piece& p, const Outcome& outcome) {
  --f.in_flight;
  if (f.way == Way::Receive) --receives_;
  p.posted = false;
  p.done = outcome.error == 0;
  if (!f.stopping && !p.done) {
    f.broken = true;
    halt(f, provider_failed(outcome.error, outcome.text));
  } else if (!f.stopping && f.way == Way::Receive && outcome.bytes != p.bytes) {
    f.broken = true;
    halt(f, {Code::System, fmt::format("a piece of {} bytes came, expected {}", outcome.bytes, p.bytes)});
  }
  if (!f.stopping) {
    retire(f);
    post(f);
  }
  settle(f);
}

/// Pieces are handed on in their order, whatever order they came in.
void Flows::retire(Flow& f) {
  while (f.retired < f.posted && f.piece(f.retired).done) {
    Piece& p = f.piece(f.retired);
    p.done = false;
    ++f.retired;
    if (f.way == Way::Receive && f.owner != nullptr)
      f.owner->piece_arrived(f, p.scratch != nullptr ? p.scratch->data : nullptr, p.bytes);
  }
}

void Flows::halt(Flow& f, Status why) {
  f.stopping = true;
  f.why = std::move(why);
  for (Piece& p : f.window) {
    Request& request = p;
    if (p.posted) fi_cancel(&rails_.at(p.rail).endpoint()->fid, &request);
  }
}

void Flows::settle(Flow& f) {
  if (f.in_flight != 0 || !(f.stopping || f.retired == f.pieces())) return;
  if (f.stalled) std::erase(stalled_, &f);
  for (Piece& p : f.window) {
    if (p.scratch != nullptr) scratch_[p.rail].give(*p.scratch);
    p.scratch = nullptr;
    p.done = false;
  }
  for (Handle<fid_mr>& registration : f.registrations) registration.reset();
  if (f.owner != nullptr) f.owner->flow_ended(f, f.why);
  f.owner = nullptr;
  f.operation = nullptr;
  f.through_scratch = f.withdrawn = f.stopping = f.broken = f.stalled = false;
  f.base = nullptr;
  f.posted = f.granted = f.retired = 0;
  f.why = {};
  free_.push_back(&f);
}

}  // namespace sinew::ofi

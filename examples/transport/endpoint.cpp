#include "endpoint.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sockets.hpp"

namespace mailbox {
namespace {

using sinew::Code;
using sinew::Completion;
using sinew::Matcher;
using sinew::Stage;
using sinew::Status;

/// Packets read or written before others get their turn.
constexpr int kTurn = 32;

/// The 64 bytes of a send.
struct Send : sinew::Operation {
  sinew::ConstBuffer rest;
  std::size_t piece_bytes = 0;  // whole elements of the receiver's
};

}  // namespace

PeerEndpoint::PeerEndpoint(Box& box, Where peer)
    : box_(box), peer_(std::move(peer)), matcher_(*this, box.pool, box.finished, box.generation) {
  to_peer_ = dial(box.self.box, peer_.box);
  if (to_peer_) box_.watch(to_peer_.get(), *this);
  box_.peers[peer_.box] = this;
  if (auto early = box_.early.extract(peer_.box)) attach(std::move(early.mapped()));
  if (!to_peer_) peer_closed();
}

PeerEndpoint::~PeerEndpoint() {
  end({Code::Cancelled, "the endpoint was destroyed"});
  box_.peers.erase(peer_.box);
}

void PeerEndpoint::attach(sinew::FileDescriptor from_peer) {
  if (!end_.ok() || from_peer_) return;
  from_peer_ = std::move(from_peer);
  box_.watch(from_peer_.get(), *this);
}

void PeerEndpoint::send(sinew::ConstBuffer from, sinew::Tag tag, std::uint64_t note, Completion& done) {
  auto& send = done.make<Send>();
  done.bytes = from.bytes;
  if (!end_.ok()) return box_.finished.add(done, end_);
  send.handle = ++last_message_;
  send.rest = from;
  sends_[send.handle] = &done;
  write({Kind::Request, send.handle, tag.bits, note, from.bytes});
}

void PeerEndpoint::recv(sinew::Sink to, sinew::Tag tag, Completion& done) { matcher_.recv(to, tag, done); }

bool PeerEndpoint::cancel(Completion& done) {
  const std::uint32_t message = sinew::operation_of(done).handle;
  switch (sinew::operation_of(done).stage) {
    case Stage::Sending:
      sends_.erase(message);
      std::erase(granted_, &done);
      write({.kind = Kind::Withdraw, .message = message});
      box_.finished.add(done, {Code::Cancelled, "the send was cancelled"});
      return true;
    case Stage::Posted: return matcher_.cancel(done);
    case Stage::Matched:
    case Stage::Arriving:  // what still comes of it finds nobody
      arriving_.erase(message);
      matcher_.fail(done, {Code::Cancelled, "the receive was cancelled while its message was on the way"});
      return true;
    case Stage::Finished: return false;
  }
  return false;
}

void PeerEndpoint::close(Completion& closed) {
  end({Code::Cancelled, "the endpoint was closed"});
  box_.finished.add(closed, {});
}

void PeerEndpoint::grant(std::uint64_t id, Completion& receive) {
  const auto message = static_cast<std::uint32_t>(id);
  sinew::operation_of(receive).handle = message;
  arriving_[message] = &receive;
  write({.kind = Kind::Grant, .message = message, .bytes = Matcher::element_bytes(receive)});
}

void PeerEndpoint::refuse(std::uint64_t id, Code why, std::uint64_t note) {
  write({.kind = Kind::Refuse,
         .message = static_cast<std::uint32_t>(id),
         .note = note,
         .bytes = static_cast<std::uint64_t>(why)});
}

// To the peer.

void PeerEndpoint::write(const Packet& packet) {
  packets_.push_back(packet);
  if (!wants_room_) flush();
}

void PeerEndpoint::flush() {
  if (!to_peer_) return packets_.clear();
  int turns = kTurn;
  while (!packets_.empty() && put(to_peer_.get(), packets_.front(), {})) packets_.pop_front();
  while (packets_.empty() && !granted_.empty() && --turns >= 0) {
    if (!flush_piece(*granted_.front())) break;
  }
  const bool more = !packets_.empty() || !granted_.empty();
  if (more != wants_room_) box_.want_room(to_peer_.get(), more);
  wants_room_ = more;
}

/// false: no room.
bool PeerEndpoint::flush_piece(Completion& done) {
  auto& send = done.as<Send>();
  const std::size_t bytes = std::min(send.rest.bytes, send.piece_bytes);
  if (!put(to_peer_.get(), {.kind = Kind::Data, .message = send.handle}, {send.rest.data, bytes})) return false;
  granted_.pop_front();
  if (bytes < send.rest.bytes) {
    send.rest = send.rest.part(bytes, send.rest.bytes - bytes);
    granted_.push_back(&done);
  } else {
    sends_.erase(send.handle);
    box_.finished.add(done, {});
  }
  return true;
}

// From the peer.

void PeerEndpoint::ready(int descriptor, std::uint32_t events) {
  if (descriptor == from_peer_.get()) return read();
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return peer_closed();
  flush();
}

void PeerEndpoint::read() {
  for (int turns = kTurn; turns > 0; --turns) {
    Packet packet;
    std::size_t piece_bytes = 0;
    switch (take(from_peer_.get(), packet, box_.piece.get(), piece_bytes)) {
      case Taken::Packet: handle(packet, piece_bytes); break;
      case Taken::Nothing: return;
      case Taken::Ended: return lose();
    }
  }
}

void PeerEndpoint::handle(const Packet& packet, std::size_t piece_bytes) {
  switch (packet.kind) {
    case Kind::Request: return matcher_.rendezvous({{packet.tag}, packet.note, packet.bytes}, packet.message);
    case Kind::Withdraw: return withdrawn(packet.message);
    case Kind::Grant: return granted(packet);
    case Kind::Refuse: return refused(packet);
    case Kind::Data: return data(packet.message, piece_bytes);
  }
}

void PeerEndpoint::granted(const Packet& packet) {
  const auto at = sends_.find(packet.message);
  if (at == sends_.end()) return;  // taken back meanwhile; the peer will hear of it
  at->second->as<Send>().piece_bytes = kPieceBytes - kPieceBytes % packet.bytes;
  granted_.push_back(at->second);
  if (!wants_room_) flush();
}

void PeerEndpoint::refused(const Packet& packet) {
  const auto at = sends_.extract(packet.message);
  if (!at) return;
  Completion& done = *at.mapped();
  if (static_cast<Code>(packet.bytes) != Code::Mismatch) return box_.finished.add(done, {});
  done.note = packet.note;
  box_.finished.add(done,
                    {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer_.rank, packet.note)});
}

void PeerEndpoint::withdrawn(std::uint32_t message) {
  if (matcher_.withdraw(message)) return;
  const auto at = arriving_.extract(message);
  if (!at) return;
  Completion& receive = *at.mapped();
  if (sinew::operation_of(receive).stage == Stage::Matched) return matcher_.repost(receive);
  matcher_.fail(receive, {Code::Cancelled, fmt::format("rank {} gave up sending the message", peer_.rank)});
}

void PeerEndpoint::data(std::uint32_t message, std::size_t piece_bytes) {
  const auto at = arriving_.find(message);
  if (at == arriving_.end()) return;
  Completion& receive = *at->second;
  if (piece_bytes == Matcher::bytes_left(receive)) arriving_.erase(at);
  matcher_.deliver(receive, box_.piece.get(), piece_bytes);
}

// The end.

/// The peer has closed the end that this side writes to. What it has written itself may still wait to be read: then the
/// end of that is the end.
void PeerEndpoint::peer_closed() {
  box_.forget(to_peer_);
  box_.take_visitors();
  if (!from_peer_) lose();
}

void PeerEndpoint::lose() {
  end({Code::PeerLost, fmt::format("rank {} has closed its mailbox", peer_.rank), peer_.rank});
}

void PeerEndpoint::end(const Status& reason) {
  end_ = reason;
  box_.forget(to_peer_);
  box_.forget(from_peer_);
  packets_.clear();
  granted_.clear();
  for (const auto& [message, done] : std::exchange(sends_, {})) box_.finished.add(*done, reason);
  for (const auto& [message, receive] : std::exchange(arriving_, {})) matcher_.fail(*receive, reason);
  reason.code() == Code::PeerLost ? matcher_.fail(reason) : matcher_.close(reason);
}

}  // namespace mailbox

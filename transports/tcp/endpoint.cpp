#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/tcp/endpoint.hpp>

namespace sinew::tcp {

TcpEndpoint::TcpEndpoint(Shared& shared, PeerAddress peer)
    : shared_(shared),
      peer_(std::move(peer)),
      matcher_(*this, shared.pool, shared.finished, shared.options.generation),
      link_(shared, peer_, *this),
      credit_(shared.options.eager_credit_bytes),
      owed_credit_(shared.options.eager_credit_bytes) {
  shared_.peers[peer_.rank] = this;
}

TcpEndpoint::~TcpEndpoint() {
  if (end_.code() != Code::Cancelled) end_everything({Code::Cancelled, "the endpoint was destroyed"});
  link_.hang_up(true);
  shared_.peers.erase(peer_.rank);
  shared_.left.insert(peer_.rank);
}

void TcpEndpoint::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  ++shared_.pending;
  done.bytes = from.bytes;
  Send& s = done.make<Send>();
  if (!end_.ok()) return finish(done, end_);
  s.from = from.data;
  s.left = from.bytes;
  const FrameHeader header{.tag = tag.bits, .note = note, .bytes = from.bytes};
  if (from.bytes <= shared_.options.eager_bytes && credit_.take(from.bytes)) {
    FrameHeader eager = header;
    eager.kind = FrameKind::Eager;
    return link_.control(eager, from, &done);
  }
  s.phase = Send::Phase::Announced;
  s.handle = sends_.insert(done);
  FrameHeader request = header;
  request.kind = FrameKind::Request;
  request.id = s.handle;
  link_.control(request);
}

void TcpEndpoint::recv(Sink to, Tag tag, Completion& done) {
  ++shared_.pending;
  matcher_.recv(to, tag, done);
}

bool TcpEndpoint::cancel(Completion& done) {
  switch (operation_of(done).stage) {
    case Stage::Sending: return cancel_send(done);
    case Stage::Posted: return matcher_.cancel(done);
    case Stage::Matched:
    case Stage::Arriving: return cancel_arriving(done);
    case Stage::Finished: return false;
  }
  return false;
}

bool TcpEndpoint::cancel_send(Completion& done) {
  Send& s = done.as<Send>();
  switch (s.phase) {
    case Send::Phase::Eager:
      if (!link_.take_back(done)) return false;  // written meanwhile, or just now from a copy
      credit_.give(CreditWindow::charge_for(s.left));
      break;
    case Send::Phase::Announced:
      sends_.erase(s.handle);
      link_.control({.kind = FrameKind::Withdraw, .id = s.handle});
      break;
    case Send::Phase::Streaming:
      sends_.erase(s.handle);
      const std::optional<std::size_t> unsent = link_.stop_streaming(done);
      if (!unsent) {  // its last frame is on the way; if a rail ends with one, the receiver will be told
        finish(done, {});
        return false;
      }
      link_.control({.kind = FrameKind::Abort, .id = s.receiver, .bytes = *unsent});
      break;
  }
  finish(done, {Code::Cancelled, "the send was cancelled"});
  return true;
}

/// Its message is lost to this rank: what still comes of it is read and dropped.
bool TcpEndpoint::cancel_arriving(Completion& receive) {
  Incoming* in = incoming_.find(operation_of(receive).handle);
  if (in == nullptr || in->receive != &receive) return false;
  in->receive = nullptr;
  matcher_.fail(receive, {Code::Cancelled, "the receive was cancelled while its message was on the way"});
  return true;
}

void TcpEndpoint::close(Completion& quiet) {
  ++shared_.pending;
  end_everything({Code::Cancelled, "the endpoint was closed"});
  link_.hang_up(true);
  shared_.finished.add(quiet, {});
}

// What the matcher wants.

void TcpEndpoint::grant(std::uint64_t id, Completion& receive) {
  if (free_records_.empty()) free_records_.push_back(&records_.emplace_back());
  Incoming& in = *free_records_.back();
  free_records_.pop_back();
  const std::size_t bytes = Matcher::bytes_left(receive);
  in = {.receive = &receive,
        .into = Matcher::place(receive).data,
        .bytes = bytes,
        .left = bytes,
        .sender = static_cast<std::uint32_t>(id)};
  const std::uint32_t number = incoming_.insert(in);
  operation_of(receive).handle = number;
  link_.control({.kind = FrameKind::Clear, .id = in.sender, .note = number, .bytes = Matcher::element_bytes(receive)});
}

void TcpEndpoint::refuse(std::uint64_t id, Code why, std::uint64_t note) {
  link_.control({.kind = FrameKind::Refuse,
                 .id = static_cast<std::uint32_t>(id),
                 .note = note,
                 .bytes = static_cast<std::uint64_t>(why)});
}

void TcpEndpoint::return_credit(std::size_t charge) {
  const std::size_t now = owed_credit_.add(charge);
  if (now != 0) link_.control({.kind = FrameKind::Credit, .bytes = now});
}

// What the peer says.

void TcpEndpoint::control_frame(const FrameHeader& h, const std::byte* payload) {
  switch (h.kind) {
    case FrameKind::Eager: return matcher_.eager({{h.tag}, h.note, h.bytes}, payload);
    case FrameKind::Request: return matcher_.rendezvous({{h.tag}, h.note, h.bytes}, h.id);
    case FrameKind::Clear: return cleared(h);
    case FrameKind::Refuse: return refused(h.id, static_cast<Code>(h.bytes), h.note);
    case FrameKind::Withdraw: return withdrawn(h.id);
    case FrameKind::Credit: return credit_.give(h.bytes);
    case FrameKind::Abort: return aborted(h.id, h.bytes);
    case FrameKind::Arrived: return forget(h.id, static_cast<std::uint32_t>(h.note));
    case FrameKind::RailLost: return link_.rail_lost_there(static_cast<Channel>(h.id), {h.note, h.bytes});
    case FrameKind::Heard:
    case FrameKind::Resume:
    case FrameKind::Data: return;  // the channel lets none of these through
  }
}

void TcpEndpoint::cleared(const FrameHeader& h) {
  Completion* done = sends_.find(h.id);
  if (done == nullptr) return;  // taken back meanwhile; the peer will hear of it
  Send& s = done->as<Send>();
  s.phase = Send::Phase::Streaming;
  s.receiver = static_cast<std::uint32_t>(h.note);
  s.granule = std::max(static_cast<std::uint32_t>(h.bytes), 1U);
  link_.stream(*done);
}

void TcpEndpoint::data_written(Completion& send) {
  sends_.erase(send.as<Send>().handle);
  finish(send, {});
}

/// The message is at its receiver.
void TcpEndpoint::forget(std::uint32_t number, std::uint32_t receiver) {
  link_.forget(receiver);
  if (Completion* done = sends_.erase(number)) finish(*done, {});
}

void TcpEndpoint::refused(std::uint32_t number, Code why, std::uint64_t expected) {
  Completion* done = sends_.erase(number);
  if (done == nullptr) return;
  if (why != Code::Mismatch) return finish(*done, {});
  done->note = expected;
  finish(*done, {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer_.rank, expected)});
}

void TcpEndpoint::withdrawn(std::uint32_t number) {
  if (matcher_.withdraw(number)) return;
  Incoming* granted = nullptr;
  std::uint32_t key = 0;
  incoming_.for_each([&](Incoming& in, std::uint32_t k) {
    if (in.sender == number && !in.begun) {
      granted = &in;
      key = k;
    }
  });
  if (granted == nullptr) return;
  incoming_.erase(key);
  free_records_.push_back(granted);
  if (granted->receive != nullptr) matcher_.repost(*granted->receive);
}

/// The sender took the message back; what has left it still comes.
void TcpEndpoint::aborted(std::uint32_t number, std::uint64_t bytes) {
  Incoming* in = incoming_.find(number);
  if (in == nullptr || bytes > in->left) return;
  in->left -= bytes;
  in->aborted = true;
  if (in->left == 0) ended(number);
}

void TcpEndpoint::arrived(Incoming& in, std::size_t at, const std::byte* data, std::size_t bytes) {
  Completion& receive = *in.receive;
  data != nullptr ? matcher_.deliver_at(receive, at, data, bytes) : matcher_.arrived(receive, bytes);
}

void TcpEndpoint::ended(std::uint32_t number) {
  Incoming* in = incoming_.erase(number);
  free_records_.push_back(in);
  if (in->aborted && in->receive != nullptr) {
    matcher_.fail(*in->receive, {Code::Cancelled, fmt::format("rank {} gave up sending the message", peer_.rank)});
  }
  if (link_.has_rails()) link_.control({.kind = FrameKind::Arrived, .id = in->sender, .note = number});
}

// The end.

void TcpEndpoint::lost(const Status& reason) {
  end_everything(reason);
  link_.hang_up(false);
}

void TcpEndpoint::end_everything(const Status& reason) {
  end_ = reason;
  link_.end([&](Completion& c) { finish(c, reason); });
  sends_.for_each([&](Completion& c, std::uint32_t key) {
    sends_.erase(key);
    finish(c, reason);
  });
  incoming_.for_each([&](Incoming& in, std::uint32_t key) {
    incoming_.erase(key);
    free_records_.push_back(&in);
    if (in.receive != nullptr) matcher_.fail(*in.receive, reason);
  });
  reason.code() == Code::Cancelled ? matcher_.close(reason) : matcher_.fail(reason);
}

}  // namespace sinew::tcp

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/system/process_state.hpp>
#include <sinew/transports/shm/messages/sender.hpp>

namespace sinew::shm {
namespace {

/// The most fragments of a granted message that are sent before the frames of the peer are handled again.
constexpr int kFragmentsPerTurn = 16;

/// The 64 bytes of a send.
struct Send : Operation {
  Tag tag;
  std::uint64_t note = 0;
  const std::byte* data = nullptr;
  std::uint64_t streamed = 0;
  std::uint32_t receive = 0;  // the peer's number, once granted
  std::uint32_t ticket = kNoTicket;
  bool flows = false;           // the peer has granted it, or the first fragment of an eager message was sent
  bool through_kernel = false;  // if the peer reads it in place: by process_vm_readv
};

Send& send_of(Completion& c) noexcept { return c.as<Send>(); }

}  // namespace

void Sender::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  auto& s = done.make<Send>();
  s.tag = tag;
  s.note = note;
  s.data = from.data;
  done.bytes = from.bytes;
  if (!connection_.end.ok()) return connection_.hub.finished.add(done, connection_.end);
  if (!waiting_.empty() || !put(done)) waiting_.push(done);
}

bool Sender::put_first_waiting() {
  Completion& send = *waiting_.pop();
  if (put(send)) return true;
  waiting_.push_front(send);
  return false;
}

/// false: no room in the ring.
bool Sender::put(Completion& send) {
  if (send_of(send).flows) return put_fragments(send);
  if (send.bytes <= connection_.hub.eager_bytes.load(std::memory_order_relaxed)) {
    if (!credit_.take(send.bytes)) {
      const std::uint64_t returned = connection_.theirs.returned.value.load(std::memory_order_acquire);
      credit_.give(returned - std::exchange(credit_seen_, returned));
      if (credit_.take(send.bytes)) return put_eager(send);
    } else {
      return put_eager(send);
    }
  }
  Frame* frame = out_.claim(1);
  if (frame == nullptr) return false;
  send_request(send, *frame);
  return true;
}

bool Sender::put_eager(Completion& send) {
  const Send& s = send_of(send);
  if (send.bytes > kFragmentBytes) return put_fragments(send);
  const std::uint16_t lines = Frame::lines_for(send.bytes);
  Frame* frame = out_.claim(lines);
  if (frame == nullptr) {
    credit_.give(CreditWindow::charge_for(send.bytes));
    return false;
  }
  frame->set_payload(s.data, send.bytes);  // before the line that the receiver looks at
  frame->kind = FrameKind::Eager;
  frame->tag = s.tag.bits;
  frame->note = s.note;
  out_.publish(*frame, lines);
  connection_.hub.finished.add(send, {});
  return true;
}

/// Puts the fragments of an eager message into the ring, as far as there is room. No other message comes between them.
/// false: the other fragments wait for room.
bool Sender::put_fragments(Completion& send) {
  Send& s = send_of(send);
  while (s.streamed < send.bytes) {
    const std::size_t length = std::min<std::uint64_t>(fragment_bytes(s.streamed), send.bytes - s.streamed);
    const std::uint16_t lines = Frame::lines_for(length);
    Frame* frame = out_.claim(lines);
    if (frame == nullptr) {
      if (s.streamed == 0) credit_.give(CreditWindow::charge_for(send.bytes));
      return false;
    }
    frame->set_payload(s.data + s.streamed, length);
    frame->kind = s.streamed == 0 ? FrameKind::First : FrameKind::Next;
    frame->id = static_cast<std::uint32_t>(send.bytes);
    frame->tag = s.tag.bits;
    frame->note = s.note;
    out_.publish(*frame, lines);
    s.streamed += length;
    s.flows = true;
  }
  connection_.hub.finished.add(send, {});
  return true;
}

void Sender::send_request(Completion& send, Frame& frame) {
  Send& s = send_of(send);
  s.handle = rendezvous_.insert(send);
  Hub& hub = connection_.hub;
  const SharedSegment& segment = hub.host.shared_segment();
  const bool registered = send.bytes > 0 && segment.contains(s.data) && segment.contains(s.data + send.bytes - 1);
  frame.kind = FrameKind::Request;
  frame.id = s.handle;
  frame.tag = s.tag.bits;
  frame.note = s.note;
  frame.bytes = send.bytes;
  frame.access = Access::Staged;
  frame.more.ticket = kNoTicket;
  if (send.bytes > 0 && !hub.free_tickets.empty()) {
    s.ticket = frame.more.ticket = hub.free_tickets.back();
    hub.free_tickets.pop_back();
    hub.port->tickets[s.ticket].store(ticket_word(connection_.peer, s.handle, Standing::Offered),
                                      std::memory_order_relaxed);
    frame.access = registered ? Access::Segment : Access::Address;
    s.through_kernel = !registered && !connection_.same_process;
    frame.more.place = registered ? segment.offset_of(s.data) : reinterpret_cast<std::uint64_t>(s.data);
  }
  out_.publish(frame, 1);
}

void Sender::granted(std::uint32_t id, std::uint32_t receive) {
  Completion* send = rendezvous_.find(id);
  if (send == nullptr) return out_.post({FrameKind::Gone, 0, receive});
  Send& s = send_of(*send);
  s.flows = true;
  s.receive = receive;
  streaming_.push_back(id);
}

void Sender::refused(const Frame& frame) {
  Completion* send = rendezvous_.find(frame.id);
  if (send == nullptr) return;
  Status status;
  if (frame.more.why == Code::Mismatch) {
    const int peer = connection_.peer;
    send->note = frame.note;
    status = {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer, frame.note), peer};
  }
  end(frame.id, std::move(status));
}

/// Ends the send of a rendezvous message, whether it succeeded or failed.
void Sender::end(std::uint32_t id, Status status) noexcept {
  Completion* send = rendezvous_.erase(id);
  if (send == nullptr) return;
  Hub& hub = connection_.hub;
  if (const std::uint32_t ticket = send_of(*send).ticket; ticket != kNoTicket) {
    hub.port->tickets[ticket].store(ticket_word(connection_.peer, id, Standing::Withdrawn), std::memory_order_release);
    hub.free_tickets.push_back(ticket);
  }
  hub.finished.add(*send, std::move(status));
}

/// A peer may be stopped after it has claimed a message. A stopped peer reads nothing. When it continues, it checks
/// whether the message is still offered before it uses what the kernel has read for it.
bool Sender::is_being_read(Completion& send, std::uint32_t id) const noexcept {
  if (connection_.theirs.claimed.value.load(std::memory_order_acquire) != claim_word(id)) return false;
  return !send_of(send).through_kernel || !is_stopped(state_of_process(connection_.hub.host.pid_of(connection_.peer)));
}

bool Sender::cancel_waiting(Completion& done) {
  if (send_of(done).flows || !waiting_.remove(done)) return false;
  connection_.hub.finished.add(done, {Code::Cancelled, "the send was cancelled"});
  return true;
}

std::optional<std::uint32_t> Sender::stop_offering(Completion& done) {
  const Send& s = send_of(done);
  const std::uint32_t id = s.handle;
  if (s.flows) return std::nullopt;
  if (s.ticket == kNoTicket) return id;
  Word& standing = connection_.hub.port->tickets[s.ticket];
  standing.store(ticket_word(connection_.peer, id, Standing::Trying), std::memory_order_relaxed);
  full_fence();
  if (is_being_read(done, id)) {
    standing.store(ticket_word(connection_.peer, id, Standing::Offered), std::memory_order_release);
    return std::nullopt;
  }
  // Not being read: not yet, or not any more, and then the ring says so.
  standing.store(ticket_word(connection_.peer, id, Standing::Withdrawn), std::memory_order_release);
  return id;
}

bool Sender::withdraw(std::uint32_t id) {
  Completion* send = rendezvous_.find(id);
  if (send == nullptr || send_of(*send).flows) return false;
  end(id, {Code::Cancelled, "the send was cancelled"});
  out_.post({FrameKind::Withdraw, id});
  out_.flush();
  return true;
}

void Sender::end_waiting(const Status& reason) noexcept {
  while (Completion* c = waiting_.pop()) connection_.hub.finished.add(*c, reason);
  streaming_.clear();
}

/// Does what stop_offering() does, for all rendezvous messages at once. Ends the sends that the peer is not reading.
void Sender::close(const Status& reason) noexcept {
  end_waiting(reason);
  const auto stand = [this](Completion& send, std::uint32_t id, Standing s) {
    const std::uint32_t ticket = send_of(send).ticket;
    if (ticket == kNoTicket) return;
    connection_.hub.port->tickets[ticket].store(ticket_word(connection_.peer, id, s), std::memory_order_release);
  };
  rendezvous_.for_each([&](Completion& send, std::uint32_t id) { stand(send, id, Standing::Trying); });
  full_fence();
  rendezvous_.for_each([&](Completion& send, std::uint32_t id) {
    is_being_read(send, id) ? stand(send, id, Standing::Offered) : end(id, reason);
  });
}

void Sender::fail(const Status& reason) noexcept {
  end_waiting(reason);
  end_all(reason);
}

void Sender::end_all(const Status& reason) noexcept {
  rendezvous_.for_each([&](Completion&, std::uint32_t id) { end(id, reason); });
}

bool Sender::end_unread() noexcept {
  const Connection& c = connection_;
  const bool gone = c.theirs.ended.value.load(std::memory_order_acquire) != 0 ||
                    (rendezvous_.count() != 0 && !c.same_process && c.hub.host.has_ended(c.peer));
  rendezvous_.for_each([&](Completion& send, std::uint32_t id) {
    if (gone || !is_being_read(send, id)) end(id, c.end);
  });
  return rendezvous_.count() == 0;
}

int Sender::flush() noexcept {
  int moved = 0;
  for (; !waiting_.empty() && put_first_waiting(); ++moved) {
  }
  for (int turn = 0; turn < kFragmentsPerTurn && !streaming_.empty(); ++turn) {
    const int sent = stream();
    moved += sent;
    if (sent == 0) break;
  }
  return moved;
}

/// Sends one fragment of each granted message, so that a long message does not hold up the others.
int Sender::stream() noexcept {
  int moved = 0;
  for (std::size_t i = 0; i < streaming_.size();) {
    Completion& send = *rendezvous_.find(streaming_[i]);
    Send& s = send_of(send);
    const std::size_t length = std::min<std::uint64_t>(fragment_bytes(s.streamed), send.bytes - s.streamed);
    const std::uint16_t lines = Frame::lines_for(length);
    Frame* frame = out_.claim(lines);
    if (frame == nullptr) return moved;
    frame->set_payload(s.data + s.streamed, length);
    frame->kind = FrameKind::Data;
    frame->id = s.receive;
    out_.publish(*frame, lines);
    ++moved;
    s.streamed += length;
    if (s.streamed < send.bytes) {
      ++i;
      continue;
    }
    const std::uint32_t id = streaming_[i];
    streaming_.erase(streaming_.begin() + static_cast<std::ptrdiff_t>(i));
    end(id, {});
  }
  return moved;
}

}  // namespace sinew::shm

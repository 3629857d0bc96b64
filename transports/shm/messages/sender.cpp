#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/system/process_state.hpp>
#include <sinew/transports/shm/messages/sender.hpp>

namespace sinew::shm {
namespace {

/// The 64 bytes of a send.
struct Send : Operation {
  Tag tag;
  std::uint64_t note = 0;
  const std::byte* data = nullptr;
  std::uint64_t poured = 0;
  std::uint32_t receive = 0;  // the peer's number, once granted
  std::uint32_t ticket = kNoTicket;
  bool granted = false;
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
  if (send.bytes <= kEagerBytes) {
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
  announce(send, *frame);
  return true;
}

bool Sender::put_eager(Completion& send) {
  const Send& s = send_of(send);
  const std::uint16_t lines = Frame::lines_for(send.bytes);
  Frame* frame = out_.claim(lines);
  if (frame == nullptr) {
    credit_.give(CreditWindow::charge_for(send.bytes));
    return false;
  }
  frame->set_payload(s.data, send.bytes, false);  // before the line that the receiver looks at
  frame->kind = FrameKind::Eager;
  frame->tag = s.tag.bits;
  frame->note = s.note;
  out_.publish(*frame, lines);
  connection_.hub.finished.add(send, {});
  return true;
}

void Sender::announce(Completion& send, Frame& frame) {
  Send& s = send_of(send);
  s.handle = announced_.insert(send);
  Hub& hub = connection_.hub;
  const HostHeap& heap = hub.host.heap();
  const bool registered = send.bytes > 0 && heap.contains(s.data) && heap.contains(s.data + send.bytes - 1);
  frame.kind = FrameKind::Announce;
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
    frame.access = registered ? Access::Heap : Access::Address;
    s.through_kernel = !registered && !connection_.same_process;
    frame.more.place = registered ? heap.offset_of(s.data) : reinterpret_cast<std::uint64_t>(s.data);
  }
  out_.publish(frame, 1);
}

void Sender::granted(std::uint32_t id, std::uint32_t receive) {
  Completion* send = announced_.find(id);
  if (send == nullptr) return out_.post({FrameKind::Gone, 0, receive});
  Send& s = send_of(*send);
  s.granted = true;
  s.receive = receive;
  pouring_.push_back(id);
}

void Sender::refused(const Frame& frame) {
  Completion* send = announced_.find(frame.id);
  if (send == nullptr) return;
  Status status;
  if (frame.more.why == Code::Mismatch) {
    const int peer = connection_.peer;
    send->note = frame.note;
    status = {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer, frame.note), peer};
  }
  end(frame.id, std::move(status));
}

/// The send of an announced message has ended, one way or the other.
void Sender::end(std::uint32_t id, Status status) noexcept {
  Completion* send = announced_.erase(id);
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
  if (!waiting_.remove(done)) return false;
  connection_.hub.finished.add(done, {Code::Cancelled, "the send was cancelled"});
  return true;
}

std::optional<std::uint32_t> Sender::stop_offering(Completion& done) {
  const Send& s = send_of(done);
  const std::uint32_t id = s.handle;
  if (s.granted) return std::nullopt;
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
  Completion* send = announced_.find(id);
  if (send == nullptr || send_of(*send).granted) return false;
  end(id, {Code::Cancelled, "the send was cancelled"});
  out_.post({FrameKind::Withdraw, id});
  out_.flush();
  return true;
}

void Sender::end_waiting(const Status& reason) noexcept {
  while (Completion* c = waiting_.pop()) connection_.hub.finished.add(*c, reason);
  pouring_.clear();
}

/// As stop_offering(), for every announced message at once.
void Sender::close(const Status& reason) noexcept {
  end_waiting(reason);
  const auto stand = [this](Completion& send, std::uint32_t id, Standing s) {
    const std::uint32_t ticket = send_of(send).ticket;
    if (ticket == kNoTicket) return;
    connection_.hub.port->tickets[ticket].store(ticket_word(connection_.peer, id, s), std::memory_order_release);
  };
  announced_.for_each([&](Completion& send, std::uint32_t id) { stand(send, id, Standing::Trying); });
  full_fence();
  announced_.for_each([&](Completion& send, std::uint32_t id) {
    is_being_read(send, id) ? stand(send, id, Standing::Offered) : end(id, reason);
  });
}

void Sender::fail(const Status& reason) noexcept {
  end_waiting(reason);
  end_all(reason);
}

void Sender::end_all(const Status& reason) noexcept {
  announced_.for_each([&](Completion&, std::uint32_t id) { end(id, reason); });
}

bool Sender::end_unread() noexcept {
  const Connection& c = connection_;
  const bool gone = c.theirs.ended.value.load(std::memory_order_acquire) != 0 ||
                    (announced_.count() != 0 && !c.same_process && c.hub.host.has_ended(c.peer));
  announced_.for_each([&](Completion& send, std::uint32_t id) {
    if (gone || !is_being_read(send, id)) end(id, c.end);
  });
  return announced_.count() == 0;
}

int Sender::flush() noexcept {
  int moved = 0;
  for (; !waiting_.empty() && put_first_waiting(); ++moved) {
  }
  return moved + pour();
}

/// Pours one piece of each granted message, so that a long message does not hold up the others.
int Sender::pour() noexcept {
  int moved = 0;
  for (std::size_t i = 0; i < pouring_.size();) {
    Completion& send = *announced_.find(pouring_[i]);
    Send& s = send_of(send);
    const std::size_t length = std::min<std::uint64_t>(kPieceBytes, send.bytes - s.poured);
    const std::uint16_t lines = Frame::lines_for(length);
    Frame* frame = out_.claim(lines);
    if (frame == nullptr) return moved;
    frame->set_payload(s.data + s.poured, length, true);
    frame->kind = FrameKind::Data;
    frame->id = s.receive;
    out_.publish(*frame, lines);
    ++moved;
    s.poured += length;
    if (s.poured < send.bytes) {
      ++i;
      continue;
    }
    const std::uint32_t id = pouring_[i];
    pouring_.erase(pouring_.begin() + static_cast<std::ptrdiff_t>(i));
    end(id, {});
  }
  return moved;
}

}  // namespace sinew::shm

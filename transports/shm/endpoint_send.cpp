#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/system/process_state.hpp>
#include <sinew/transports/shm/endpoint.hpp>

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

void ShmEndpoint::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  auto& s = done.make<Send>();
  s.tag = tag;
  s.note = note;
  s.data = from.data;
  done.bytes = from.bytes;
  if (!end_.ok()) return hub_.finished.add(done, end_);
  if (!waiting_.empty() || !put(done)) waiting_.push(done);
}

bool ShmEndpoint::put_first_waiting() {
  Completion& send = *waiting_.pop();
  if (put(send)) return true;
  waiting_.push_front(send);
  return false;
}

/// false: no room in the ring.
bool ShmEndpoint::put(Completion& send) {
  if (send.bytes <= kEagerBytes) {
    if (!credit_.take(send.bytes)) {
      const std::uint64_t returned = theirs_.returned.value.load(std::memory_order_acquire);
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

bool ShmEndpoint::put_eager(Completion& send) {
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
  publish(*frame, lines);
  hub_.finished.add(send, {});
  return true;
}

void ShmEndpoint::announce(Completion& send, Frame& frame) {
  Send& s = send_of(send);
  s.handle = announced_.insert(send);
  const HostHeap& heap = hub_.host.heap();
  const bool registered = send.bytes > 0 && heap.contains(s.data) && heap.contains(s.data + send.bytes - 1);
  frame.kind = FrameKind::Announce;
  frame.id = s.handle;
  frame.tag = s.tag.bits;
  frame.note = s.note;
  frame.bytes = send.bytes;
  frame.access = Access::Staged;
  frame.more.ticket = kNoTicket;
  if (send.bytes > 0 && !hub_.free_tickets.empty()) {
    s.ticket = frame.more.ticket = hub_.free_tickets.back();
    hub_.free_tickets.pop_back();
    hub_.port->tickets[s.ticket].store(ticket_word(peer_, s.handle, Standing::Offered), std::memory_order_relaxed);
    frame.access = registered ? Access::Heap : Access::Address;
    s.through_kernel = !registered && !same_process_;
    frame.more.place = registered ? heap.offset_of(s.data) : reinterpret_cast<std::uint64_t>(s.data);
  }
  publish(frame, 1);
}

void ShmEndpoint::publish(Frame& frame, std::uint16_t lines) noexcept {
  out_.publish(frame, lines);
  waker_.notify();
}

/// The peer wants the bytes of an announced message.
void ShmEndpoint::granted(std::uint32_t id, std::uint32_t receive) {
  Completion* send = announced_.find(id);
  if (send == nullptr) return controls_.push_back({FrameKind::Gone, 0, receive});
  Send& s = send_of(*send);
  s.granted = true;
  s.receive = receive;
  pouring_.push_back(id);
}

/// Nobody takes it: to the sender that is an end like any other, unless the two made different calls.
void ShmEndpoint::refused(const Frame& frame) {
  Completion* send = announced_.find(frame.id);
  if (send == nullptr) return;
  Status status;
  if (frame.more.why == Code::Mismatch) {
    send->note = frame.note;
    status = {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer_, frame.note), peer_};
  }
  end_send(frame.id, std::move(status));
}

/// The send of an announced message has ended, one way or the other.
void ShmEndpoint::end_send(std::uint32_t id, Status status) noexcept {
  Completion* send = announced_.erase(id);
  if (send == nullptr) return;
  if (const std::uint32_t ticket = send_of(*send).ticket; ticket != kNoTicket) {
    hub_.port->tickets[ticket].store(ticket_word(peer_, id, Standing::Withdrawn), std::memory_order_release);
    hub_.free_tickets.push_back(ticket);
  }
  hub_.finished.add(*send, std::move(status));
}

/// A peer may be stopped after it has claimed a message. A stopped peer reads nothing. When it continues, it checks
/// whether the message is still offered before it uses what the kernel has read for it.
bool ShmEndpoint::being_read(Completion& send, std::uint32_t id) const noexcept {
  if (theirs_.claimed.value.load(std::memory_order_acquire) != claim_word(id)) return false;
  return !send_of(send).through_kernel || !is_stopped(state_of_process(hub_.host.pid_of(peer_)));
}

bool ShmEndpoint::cancel(Completion& done) {
  const Stage stage = operation_of(done).stage;
  if (stage == Stage::Finished) return false;
  if (stage != Stage::Sending) return matcher_.cancel(done);
  if (waiting_.remove(done)) {
    hub_.finished.add(done, {Code::Cancelled, "the send was cancelled"});
    return true;
  }
  return take_back(done);
}

bool ShmEndpoint::take_back(Completion& done) {
  Send& s = send_of(done);
  const std::uint32_t id = s.handle;
  if (s.granted) return false;
  if (s.ticket != kNoTicket) {
    Word& standing = hub_.port->tickets[s.ticket];
    standing.store(ticket_word(peer_, id, Standing::Trying), std::memory_order_relaxed);
    full_fence();
    if (being_read(done, id)) {
      standing.store(ticket_word(peer_, id, Standing::Offered), std::memory_order_release);
      return false;
    }
    // Not being read: not yet, or not any more, and then the ring says so.
    standing.store(ticket_word(peer_, id, Standing::Withdrawn), std::memory_order_release);
  }
  while (handle_frames() > 0) {  // all there are: the last may say that the message was taken
  }
  if (announced_.find(id) == nullptr || s.granted) return false;
  end_send(id, {Code::Cancelled, "the send was cancelled"});
  controls_.push_back({FrameKind::Withdraw, id});
  flush_controls();
  return true;
}

/// All but what is being read: take_back for every announced message at once.
void ShmEndpoint::take_all_back(const Status& reason) noexcept {
  const auto stand = [this](Completion& send, std::uint32_t id, Standing s) {
    const std::uint32_t ticket = send_of(send).ticket;
    if (ticket != kNoTicket) hub_.port->tickets[ticket].store(ticket_word(peer_, id, s), std::memory_order_release);
  };
  announced_.for_each([&](Completion& send, std::uint32_t id) { stand(send, id, Standing::Trying); });
  full_fence();
  announced_.for_each([&](Completion& send, std::uint32_t id) {
    being_read(send, id) ? stand(send, id, Standing::Offered) : end_send(id, reason);
  });
}

int ShmEndpoint::flush() noexcept {
  int moved = 0;
  const bool had_controls = !controls_.empty();
  if (!flush_controls()) return 0;
  if (had_controls) ++moved;
  for (; !waiting_.empty() && put_first_waiting(); ++moved) {
  }
  return moved + pour();
}

bool ShmEndpoint::flush_controls() noexcept {
  for (; !controls_.empty(); controls_.pop_front()) {
    const Control& c = controls_.front();
    Frame* frame = out_.claim(1);
    if (frame == nullptr) return false;
    frame->kind = c.kind;
    frame->id = c.id;
    frame->note = c.note;
    frame->bytes = 0;
    frame->more.receive = c.receive;
    frame->more.why = c.why;
    publish(*frame, 1);
  }
  return true;
}

/// A piece of each granted message in turn, so that none waits for another.
int ShmEndpoint::pour() noexcept {
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
    publish(*frame, lines);
    ++moved;
    s.poured += length;
    if (s.poured < send.bytes) {
      ++i;
      continue;
    }
    const std::uint32_t id = pouring_[i];
    pouring_.erase(pouring_.begin() + static_cast<std::ptrdiff_t>(i));
    end_send(id, {});
  }
  return moved;
}

}  // namespace sinew::shm

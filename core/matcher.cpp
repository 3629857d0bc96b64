#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>

namespace sinew {
namespace {

/// The 64 bytes of a receive.
struct Receive : Operation {
  MemoryKind kind : 8 = MemoryKind::Host;  // first: there is room behind Operation's members
  bool unwanted = false;                   // cancelled while its message was known
  Tag tag;
  std::byte* into = nullptr;  // the next byte to be written
  std::size_t bytes = 0;      // room; once bytes have come: how many are still to come
  const Reducer* reduce = nullptr;
  const std::byte* with = nullptr;  // the operand beside the next byte of the message
  std::uint64_t expected = 0;       // the note it was posted with
};

Receive& receive_of(Completion& c) noexcept { return c.as<Receive>(); }

Status other_note(std::uint64_t found, std::uint64_t expected) {
  return {Code::Mismatch, fmt::format("the peer's message is of call {:#x}, expected {:#x}", found, expected)};
}

bool disagree(std::uint64_t expected, std::uint64_t found) noexcept { return expected != 0 && expected != found; }

}  // namespace

struct Matcher::Unexpected {
  Unexpected* next;
  Envelope envelope;
  std::uint64_t id;
  bool eager;

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  std::size_t block_bytes() const noexcept { return sizeof(*this) + (eager ? envelope.bytes : 0); }
  Arrival arrival() noexcept { return {envelope, id, data(), eager}; }
};

Matcher::Matcher(MatcherWire& wire, BlockPool& pool, FinishedOperations& finished, std::uint8_t generation) noexcept
    : wire_(wire), pool_(pool), finished_(finished), generation_(generation) {}

Matcher::~Matcher() {
  for (UnexpectedQueue& queue : unexpected_) {
    while (Unexpected* m = take_unexpected(queue, [](const Unexpected&) { return true; })) release(*m);
  }
}

std::size_t Matcher::queue_of(Tag tag) noexcept {
  const bool collective = (tag.communicator() & 1) == 0;
  const std::uint64_t call = collective ? tag.bits >> 24 : tag.bits;
  return (call * 0x9e3779b97f4a7c15u) >> 60 & (kQueues - 1);
}

void Matcher::recv(Sink to, Tag tag, Completion& done) {
  auto& r = done.make<Receive>();
  r.stage = Stage::Posted;
  r.tag = tag;
  r.kind = to.into.place.kind;
  r.into = to.into.data;
  r.bytes = to.into.bytes;
  r.reduce = to.reduce;
  r.with = to.with.data ? to.with.data : to.into.data;
  done.bytes = 0;
  ++pending_;

  UnexpectedQueue& queue = unexpected_[queue_of(tag)];
  if (Unexpected* m = take_unexpected(queue, [tag](const Unexpected& u) { return u.envelope.tag == tag; })) {
    take(done, m->arrival());
    release(*m);
  } else if (!mismatches_unexpected(tag, done)) {
    if (!end_.ok()) return finish(done, end_);
    posted_[queue_of(tag)].push(done);
  }
}

bool Matcher::has_unexpected(Tag tag) const noexcept {
  const Unexpected* at = unexpected_[queue_of(tag)].head;
  while (at != nullptr && at->envelope.tag != tag) at = at->next;
  return at != nullptr;
}

bool Matcher::cancel(Completion& done) {
  if (operation_of(done).stage == Stage::Matched) receive_of(done).unwanted = true;
  if (operation_of(done).stage != Stage::Posted) return false;
  if (!posted_[queue_of(receive_of(done).tag)].remove(done)) return false;
  finish(done, {Code::Cancelled, "the receive was cancelled"});
  return true;
}

void Matcher::fail(const Status& reason) {
  end_ = reason;
  end_posted(reason);
  for (UnexpectedQueue& queue : unexpected_) {
    while (Unexpected* m = take_unexpected(queue, [](const Unexpected& u) { return !u.eager; })) release(*m);
  }
}

void Matcher::close(const Status& reason) {
  fail(reason);
  for (UnexpectedQueue& queue : unexpected_) {
    while (Unexpected* m = take_unexpected(queue, [](const Unexpected&) { return true; })) release(*m);
  }
}

void Matcher::end_posted(const Status& reason) {
  for (CompletionQueue& queue : posted_) {
    while (Completion* c = queue.pop()) finish(*c, reason);
  }
}

void Matcher::eager(const Envelope& envelope, const std::byte* data) { arrive({envelope, 0, data, true}); }

void Matcher::rendezvous(const Envelope& envelope, std::uint64_t id) { arrive({envelope, id, nullptr, false}); }

bool Matcher::withdraw(std::uint64_t id) {
  for (UnexpectedQueue& queue : unexpected_) {
    if (Unexpected* m = take_unexpected(queue, [id](const Unexpected& u) { return !u.eager && u.id == id; })) {
      release(*m);
      return true;
    }
  }
  return false;
}

void Matcher::arrive(const Arrival& arrival) {
  const Envelope& e = arrival.envelope;
  if (e.tag.generation() != generation_) return drop(arrival, Code::Cancelled, 0);
  CompletionQueue& queue = posted_[queue_of(e.tag)];
  if (Completion* receive = queue.take_if([&e](Completion& c) { return receive_of(c).tag == e.tag; })) {
    return take(*receive, arrival);
  }
  std::uint64_t expected = 0;
  if (mismatches_posted(e, expected)) return drop(arrival, Code::Mismatch, expected);
  if (!end_.ok()) return drop(arrival, Code::Cancelled, 0);
  keep(arrival);
}

void Matcher::take(Completion& receive, const Arrival& arrival) {
  const Envelope& e = arrival.envelope;
  Receive& r = receive_of(receive);
  const std::uint64_t expected = r.expected = std::exchange(receive.note, e.note);
  if (disagree(expected, e.note)) {
    drop(arrival, Code::Mismatch, expected);
    return finish(receive, other_note(e.note, expected));
  }
  if (e.bytes > r.bytes) {
    drop(arrival, Code::Truncated, 0);
    receive.bytes = e.bytes;
    return finish(receive,
                  {Code::Truncated, fmt::format("a message of {} bytes for a receive of {}", e.bytes, r.bytes)});
  }
  if (r.reduce && e.bytes % r.reduce->element_bytes != 0) {
    drop(arrival, Code::Mismatch, expected);
    return finish(receive, {Code::Mismatch, fmt::format("a message of {} bytes for a reduction of {}-byte elements",
                                                        e.bytes, r.reduce->element_bytes)});
  }
  r.stage = Stage::Matched;
  receive.bytes = e.bytes;
  if (!arrival.eager) return wire_.grant(arrival.id, receive);
  deliver(receive, arrival.data, e.bytes);
  wire_.return_credit(CreditWindow::charge_for(e.bytes));
}

void Matcher::drop(const Arrival& arrival, Code why, std::uint64_t expected) {
  if (arrival.eager) {
    wire_.return_credit(CreditWindow::charge_for(arrival.envelope.bytes));
  } else {
    wire_.refuse(arrival.id, why, expected);
  }
}

void Matcher::keep(const Arrival& arrival) {
  const Envelope& e = arrival.envelope;
  void* block = pool_.take(sizeof(Unexpected) + (arrival.eager ? e.bytes : 0));
  auto* m = new (block) Unexpected{nullptr, e, arrival.id, arrival.eager};
  if (arrival.eager && e.bytes != 0) std::memcpy(m->data(), arrival.data, e.bytes);
  UnexpectedQueue& queue = unexpected_[queue_of(e.tag)];
  (queue.head ? queue.tail->next : queue.head) = m;
  queue.tail = m;
}

/// All posted receives of this call that expect another note end here.
bool Matcher::mismatches_posted(const Envelope& e, std::uint64_t& expected) {
  CompletionQueue& queue = posted_[queue_of(e.tag)];
  bool any = false;
  const auto differs = [&e](Completion& c) { return receive_of(c).tag.same_call(e.tag) && disagree(c.note, e.note); };
  while (Completion* c = queue.take_if(differs)) {
    any = true;
    expected = std::exchange(c->note, e.note);
    finish(*c, other_note(e.note, expected));
  }
  return any;
}

/// Messages of the receive's call that carry another note are dropped, and end it.
bool Matcher::mismatches_unexpected(Tag tag, Completion& done) {
  const std::uint64_t expected = done.note;
  std::uint64_t found = 0;
  bool any = false;
  const auto differs = [&](const Unexpected& u) {
    return u.envelope.tag.same_call(tag) && disagree(expected, u.envelope.note);
  };
  while (Unexpected* m = take_unexpected(unexpected_[queue_of(tag)], differs)) {
    any = true;
    found = m->envelope.note;
    drop(m->arrival(), Code::Mismatch, expected);
    release(*m);
  }
  if (!any) return false;
  done.note = found;
  finish(done, other_note(found, expected));
  return true;
}

template <class Wanted>
Matcher::Unexpected* Matcher::take_unexpected(UnexpectedQueue& queue, Wanted wanted) {
  Unexpected* before = nullptr;
  for (Unexpected* at = queue.head; at != nullptr; before = at, at = at->next) {
    if (!wanted(*at)) continue;
    (before ? before->next : queue.head) = at->next;
    if (queue.tail == at) queue.tail = before;
    return at;
  }
  return nullptr;
}

void Matcher::release(Unexpected& message) noexcept { pool_.give(&message, message.block_bytes()); }

Buffer Matcher::place(Completion& receive) noexcept {
  const Receive& r = receive_of(receive);
  return {r.reduce ? nullptr : r.into, bytes_left(receive), {r.kind}};
}

std::size_t Matcher::bytes_left(Completion& receive) noexcept {
  const Receive& r = receive_of(receive);
  return r.stage == Stage::Arriving ? r.bytes : receive.bytes;
}

std::size_t Matcher::element_bytes(Completion& receive) noexcept {
  const Receive& r = receive_of(receive);
  return r.reduce ? r.reduce->element_bytes : 1;
}

void Matcher::repost(Completion& receive) {
  Receive& r = receive_of(receive);
  assert(r.stage == Stage::Matched);
  if (r.unwanted) return finish(receive, {Code::Cancelled, "both sides cancelled the message"});
  receive.note = r.expected;
  receive.bytes = 0;
  r.stage = Stage::Posted;
  const Tag tag = r.tag;
  const std::size_t q = queue_of(tag);
  if (Unexpected* m = take_unexpected(unexpected_[q], [tag](const Unexpected& u) { return u.envelope.tag == tag; })) {
    take(receive, m->arrival());
    release(*m);
  } else if (!end_.ok()) {
    finish(receive, end_);
  } else {
    posted_[q].push_front(receive);
  }
}

void Matcher::deliver(Completion& receive, const std::byte* data, std::size_t bytes) noexcept {
  deliver_at(receive, receive.bytes - bytes_left(receive), data, bytes);
}

void Matcher::deliver_at(Completion& receive, std::size_t at, const std::byte* data, std::size_t bytes) noexcept {
  Receive& r = receive_of(receive);
  const std::size_t so_far = receive.bytes - bytes_left(receive);
  assert(bytes <= bytes_left(receive) && at + bytes <= receive.bytes);
  std::byte* into = r.into + at - so_far;
  if (bytes != 0 && r.reduce) {
    (*r.reduce)(into, r.with + at - so_far, data, bytes);
  } else if (bytes != 0) {
    std::memcpy(into, data, bytes);
  }
  advance(receive, bytes);
}

void Matcher::arrived(Completion& receive, std::size_t bytes) noexcept {
  assert(bytes <= bytes_left(receive));
  advance(receive, bytes);
}

void Matcher::fail(Completion& receive, Status reason) noexcept { finish(receive, std::move(reason)); }

void Matcher::advance(Completion& receive, std::size_t bytes) noexcept {
  Receive& r = receive_of(receive);
  r.bytes = bytes_left(receive) - bytes;
  r.stage = Stage::Arriving;
  if (bytes != 0) {
    r.into += bytes;
    r.with += bytes;
  }
  if (r.bytes == 0) finish(receive, {});
}

void Matcher::finish(Completion& receive, Status status) noexcept {
  --pending_;
  finished_.add(receive, std::move(status));
}

}  // namespace sinew

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/core/transport/meets_device.hpp>
#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/endpoint.hpp>

namespace sinew::ucx {
namespace {

/// What a reduction fetches at a time, twice: fits a core's cache with the operand beside it.
constexpr std::size_t kFragmentBytes = 256 * 1024;

/// A shorter message goes over one rail: two halves would cost two requests.
constexpr std::size_t kLeastHalved = 256 * 1024;

/// For a peer that may be alive to take what it has asked for.
constexpr auto kPatience = std::chrono::seconds(1);
/// So often UCX must find nothing to do, before a dead peer has nothing more to say.
constexpr int kIdleTurns = 200;

}  // namespace

UcxEndpoint::UcxEndpoint(Shared& shared, PeerAddress peer, Link& link, std::vector<Link*> rails)
    : shared_(shared),
      peer_(std::move(peer)),
      link_(link),
      rails_(std::move(rails)),
      matcher_(*this, shared.pool, shared.finished, shared.options.generation),
      credit_(shared.options.eager_credit_bytes),
      owed_credit_(shared.options.eager_credit_bytes) {
  for (Link* rail : rails_) rail->attach(*this);  // its end is the peer's
}

void UcxEndpoint::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  ++shared_.pending;
  done.bytes = from.bytes;
  Send& s = done.make<Send>();
  if (!end_.ok()) return finish(done, end_);
  s.from = from.data;
  s.left = from.bytes;
  s.on_device = from.place.kind == MemoryKind::Device;
  s.meets_device = meets_device(from.bytes, from.place, tag, peer_.device_memory);
  if (!s.meets_device && from.bytes <= shared_.options.eager_bytes && credit_.take(from.bytes)) {
    s.eager = &shared_.requests.take(Request::What::Frame, this, &done);
    return link_.post(*s.eager, {.tag = tag.bits, .note = note, .kind = FrameKind::Eager}, kEagerHeaderBytes, from);
  }
  s.handle = announced_.insert(done);
  link_.post({.tag = tag.bits, .note = note, .kind = FrameKind::Request, .bytes = from.bytes, .id = s.handle});
}

void UcxEndpoint::recv(Sink to, Tag tag, Completion& done) {
  ++shared_.pending;
  matcher_.recv(to, tag, done);
}

bool UcxEndpoint::cancel(Completion& done) {
  switch (operation_of(done).stage) {
    case Stage::Sending: return cancel_send(done);
    case Stage::Posted: return matcher_.cancel(done);
    case Stage::Matched:
    case Stage::Arriving: return cancel_arriving(done);
    case Stage::Finished: return false;
  }
  return false;
}

bool UcxEndpoint::cancel_send(Completion& done) {
  const Send& s = done.as<Send>();
  if (s.eager != nullptr) {  // UCX will send its copy: until the peer has been connected, or reads, that may take long
    Requests::forget(*s.eager);
    finish(done, {});
    return false;
  }
  if (s.cleared) return false;  // UCX has it, or will be given it when the peer asks for the rest
  announced_.erase(s.handle);
  link_.post({.kind = FrameKind::Withdraw, .id = s.handle});
  finish(done, {Code::Cancelled, "the send was cancelled"});
  return true;
}

/// By turns over the rails. Until all of them are connected, data goes where frames go.
Link& UcxEndpoint::next_link() noexcept {
  if (rails_.empty() || !std::ranges::all_of(rails_, &Link::is_connected)) return link_;
  return *rails_[next_rail_++ % rails_.size()];
}

void UcxEndpoint::send_data(Completion& done, const Frame& clear) {
  Send& s = done.as<Send>();
  ++s.outstanding;
  Request& r = shared_.requests.take(Request::What::Data, this, &done);
  r.bytes = clear.bytes;
  r.data = {.offset = clear.offset, .stream = clear.stream, .token = link_.token()};
  const Link& link = next_link();
  if (link_.failed()) return Requests::returned(r, UCS_STATUS_PTR(link_.failure()));
  if (link.failed()) return Requests::returned(r, UCS_STATUS_PTR(link.failure()));
  const Embedded embedded;
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.cb.send = &Requests::sent;
  p.user_data = &r;
  hint(p, s.on_device ? MemoryKind::Device : MemoryKind::Host);
  if (s.meets_device) {
    p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_AM_SEND_FLAG_RNDV;  // so that the receiver says where to, before the data leave
  }
  const std::byte* from = s.from == nullptr ? nullptr : s.from + clear.offset;
  Requests::returned(r, ucp_am_send_nbx(link.ep(), kDataId, &r.data, sizeof r.data, from, clear.bytes, &p));
}

void UcxEndpoint::completed(Request& r, ucs_status_t status) {
  if (status != UCS_OK && end_.ok())
    lose(link_.failed() ? link_.why() : fmt::format("cannot be reached: {}", ucs_status_string(status)));
  switch (r.what) {
    case Request::What::Frame: return finish(*r.completion, status == UCS_OK ? Status() : end_);
    case Request::What::Data: return data_sent(r);
    case Request::What::Fetch: return fetch_ended(r, status);
  }
}

void UcxEndpoint::data_sent(Request& r) {
  Completion& done = *r.completion;
  Send& s = done.as<Send>();
  --s.outstanding;
  s.left -= r.bytes;
  const bool over = s.left == 0 || s.refused || !end_.ok();
  if (!over || s.outstanding != 0) return;
  announced_.erase(s.handle);
  finish(done, end_);
}

// What the peer says.

void UcxEndpoint::take(const Frame& f, const std::byte* payload, std::size_t bytes) {
  if (!end_.ok()) return;
  switch (f.kind) {
    case FrameKind::Eager: return matcher_.eager({{f.tag}, f.note, bytes}, payload);
    case FrameKind::Request: return matcher_.rendezvous({{f.tag}, f.note, f.bytes}, f.id);
    case FrameKind::Clear: return cleared(f);
    case FrameKind::Refuse: return refused(f);
    case FrameKind::Withdraw: return withdrawn(f.id);
    case FrameKind::Credit: return credit_.give(f.bytes);
    case FrameKind::Closed:
    case FrameKind::Gone: return lose("has closed its end");
  }
}

void UcxEndpoint::cleared(const Frame& f) {
  Completion* done = announced_.find(f.id);
  if (done == nullptr) return;  // taken back meanwhile; the peer will hear of it
  Send& s = done->as<Send>();
  if (f.offset > done->bytes || f.bytes > done->bytes - f.offset) return;
  s.cleared = true;
  send_data(*done, f);
}

void UcxEndpoint::refused(const Frame& f) {
  Completion* done = announced_.find(f.id);
  if (done == nullptr) return;
  Send& s = done->as<Send>();
  s.refused = true;
  if (s.outstanding != 0) return;
  announced_.erase(f.id);
  if (static_cast<Code>(f.bytes) != Code::Mismatch) return finish(*done, {});
  done->note = f.note;
  finish(*done, {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer_.rank, f.note)});
}

void UcxEndpoint::grant(std::uint64_t id, Completion& receive) {
  if (shared_.free_streams.empty()) shared_.free_streams.push_back(&shared_.stream_memory.emplace_back());
  Stream& s = *shared_.free_streams.back();
  shared_.free_streams.pop_back();
  const Buffer place = Matcher::place(receive);
  s = {.endpoint = this,
       .receive = &receive,
       .into = place.data,
       .total = Matcher::bytes_left(receive),
       .sender = static_cast<std::uint32_t>(id)};
  s.number = shared_.streams.insert(s);
  operation_of(receive).handle = s.number;
  s.in_fragments = s.total != 0 && place.data == nullptr;
  const std::size_t element = Matcher::element_bytes(receive);
  const bool halved = !rails_.empty() && s.total >= kLeastHalved && place.place.kind == MemoryKind::Host;
  s.fragment_bytes = s.in_fragments ? std::min<std::size_t>(s.total, kFragmentBytes / element * element)
                     : halved       ? s.total - s.total / 2
                                    : s.total;
  s.most_fragments = Stream::kFragmentsOfARail * std::max<std::size_t>(rails_.size(), 1);
  do {
    ask(s);
  } while (s.asked < s.total && s.idle() != nullptr);
}

void UcxEndpoint::refuse(std::uint64_t id, Code why, std::uint64_t note) {
  link_.post({.note = note,
              .kind = FrameKind::Refuse,
              .bytes = static_cast<std::uint64_t>(why),
              .id = static_cast<std::uint32_t>(id)});
}

void UcxEndpoint::return_credit(std::size_t charge) {
  const std::size_t now = owed_credit_.add(charge);
  if (now != 0) link_.post({.kind = FrameKind::Credit, .bytes = now});
}

/// Tells the sender to send the next fragment. Precondition: one of s.fragments is idle.
void UcxEndpoint::ask(Stream& s) {
  Stream::Fragment& fragment = *s.idle();
  fragment.offset = s.asked;
  fragment.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(s.fragment_bytes, s.total - s.asked));
  fragment.state = Stream::State::Asked;
  s.asked += fragment.bytes;
  link_.post({.kind = FrameKind::Clear,
              .bytes = fragment.bytes,
              .offset = fragment.offset,
              .id = s.sender,
              .stream = s.number});
}

ucs_status_t UcxEndpoint::take_data(Stream& s, const DataFrame& data, const Arrival& arrival) {
  const auto& [worker, bytes, count, waits_at_sender] = arrival;
  const auto is_this = [&](const Stream::Fragment& f) {
    return f.state == Stream::State::Asked && f.offset == data.offset && f.bytes == count;
  };
  const auto found = std::ranges::find_if(s.fragments, is_this);
  if (found == s.fragments.end()) return UCS_OK;
  Stream::Fragment& fragment = *found;
  const MemoryKind kind = Matcher::place(*s.receive).place.kind;
  assert(waits_at_sender || kind != MemoryKind::Device || count == 0);  // see meets_device()
  if (!waits_at_sender && fragment.offset == s.delivered) {
    fragment.state = Stream::State::Idle;
    s.delivered += count;
    Completion& receive = *s.receive;
    if (s.delivered == s.total) end_stream(s);
    matcher_.deliver(receive, static_cast<const std::byte*>(bytes), count);
    if (s.receive == &receive) fragment_arrived(s);
    return UCS_OK;
  }
  if (s.in_fragments && fragment.scratch == nullptr)
    fragment.scratch = static_cast<std::byte*>(shared_.pool.take(s.fragment_bytes));
  if (!waits_at_sender) {
    // This fragment came while an earlier one is still fetched. Its bytes belong to UCX again after this function.
    std::memcpy(s.in_fragments ? fragment.scratch : s.into + fragment.offset, bytes, count);
    fragment.state = Stream::State::Here;
    return UCS_OK;
  }
  std::byte* into = s.in_fragments ? fragment.scratch : s.into + fragment.offset;
  fragment.state = Stream::State::Fetching;
  Request& r = shared_.requests.take(Request::What::Fetch, this, s.receive);
  r.stream = s.number;
  r.fragment = static_cast<std::uint32_t>(found - s.fragments.begin());
  r.bytes = count;
  Requests::begin(r);
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.cb.recv_am = &Requests::fetched;
  p.user_data = &r;
  hint(p, kind);
  const ucs_status_ptr_t result = ucp_am_recv_data_nbx(worker, bytes, into, count, &p);
  if (!UCS_PTR_IS_PTR(result)) Requests::returned(r, result);
  return UCS_INPROGRESS;
}

void UcxEndpoint::fetch_ended(Request& r, ucs_status_t status) {
  Stream& s = *shared_.streams.find(r.stream);
  s.fragments[r.fragment].state = status == UCS_OK ? Stream::State::Here : Stream::State::Idle;
  if (end_.ok()) return fragment_arrived(s);
  if (s.is_fetching()) return;
  Completion& receive = *s.receive;
  end_stream(s);
  matcher_.fail(receive, end_);
}

/// Hands on what is here and next, and asks for more.
void UcxEndpoint::fragment_arrived(Stream& s) {
  for (bool found = true; found;) {
    found = false;
    for (Stream::Fragment& fragment : s.fragments) {
      if (fragment.state != Stream::State::Here || fragment.offset != s.delivered) continue;
      found = true;
      fragment.state = Stream::State::Idle;
      s.delivered += fragment.bytes;
      Completion& receive = *s.receive;
      const bool last = s.delivered == s.total;
      if (s.in_fragments) {
        matcher_.deliver(receive, fragment.scratch, fragment.bytes);
      } else {
        matcher_.arrived(receive, fragment.bytes);
      }
      if (last) return end_stream(s);
    }
  }
  while (s.asked < s.total && s.idle() != nullptr) ask(s);
}

/// UCX has let go of it.
void UcxEndpoint::end_stream(Stream& s) noexcept {
  for (Stream::Fragment& fragment : s.fragments) {
    if (fragment.scratch != nullptr) shared_.pool.give(fragment.scratch, s.fragment_bytes);
  }
  shared_.streams.erase(s.number);
  s.receive = nullptr;
  shared_.free_streams.push_back(&s);
}

/// Its message is lost to this rank: what still comes of it is dropped.
bool UcxEndpoint::cancel_arriving(Completion& receive) {
  Stream* s = shared_.streams.find(operation_of(receive).handle);
  if (s == nullptr || s->receive != &receive || s->is_fetching()) return false;
  refuse(s->sender, Code::Cancelled, 0);
  end_stream(*s);
  matcher_.fail(receive, {Code::Cancelled, "the receive was cancelled while its message was on the way"});
  return true;
}

/// The sender took it back; what was cleared meanwhile will not come.
void UcxEndpoint::withdrawn(std::uint32_t id) {
  if (matcher_.withdraw(id)) return;
  Stream* granted = nullptr;
  shared_.streams.for_each([&](Stream& s, std::uint32_t /*number*/) {
    if (s.endpoint == this && s.sender == id) granted = &s;
  });
  if (granted == nullptr) return;
  Completion& receive = *granted->receive;
  end_stream(*granted);
  matcher_.repost(receive);
}

UcxEndpoint::~UcxEndpoint() {
  if (end_.code() != Code::Cancelled) end_everything({Code::Cancelled, "the endpoint was destroyed"});
  const auto give_up = Deadline::after(kPatience);
  {
    const Embedded embedded;
    while (begun != nullptr && !give_up.passed()) {
      if (settle(shared_.turn() == 0)) break;
    }
  }
  if (begun != nullptr) let_go();
  std::erase(shared_.ending, this);
  link_.detach();
  for (Link* rail : rails_) rail->detach();
}

void UcxEndpoint::close(Completion& closed) {
  ++shared_.pending;
  closed_ = &closed;
  end_everything({Code::Cancelled, fmt::format("the endpoint of rank {} was closed", peer_.rank)});
}

void UcxEndpoint::lose(const std::string& how) {
  if (!end_.ok()) return;
  log::debug("ucx: rank {} {}", peer_.rank, how);
  end_everything(lost(how));
}

Status UcxEndpoint::lost(const std::string& how) const {
  return {Code::PeerLost, fmt::format("rank {} {}", peer_.rank, how), peer_.rank};
}

void UcxEndpoint::end_everything(const Status& reason) {
  end_ = reason;
  ended_at_ = Clock::now();
  end_eager(reason);
  end_announced(reason);
  end_streams(reason);
  reason.code() == Code::PeerLost ? matcher_.fail(reason) : matcher_.close(reason);
  if (!settle(false) && std::ranges::find(shared_.ending, this) == shared_.ending.end()) {
    shared_.ending.push_back(this);
  }
}

/// UCX has copies, and may send them yet.
void UcxEndpoint::end_eager(const Status& reason) {
  for (Request* r = begun; r != nullptr;) {
    Request& request = *std::exchange(r, r->after);
    if (request.what != Request::What::Frame) continue;
    Completion& done = *request.completion;
    Requests::forget(request);
    finish(done, reason);
  }
}

void UcxEndpoint::end_announced(const Status& reason) {
  announced_.for_each([&](Completion& done, std::uint32_t number) {
    if (done.as<Send>().outstanding != 0) return;
    announced_.erase(number);
    finish(done, reason);
  });
}

void UcxEndpoint::end_streams(const Status& reason) {
  shared_.streams.for_each([&](Stream& s, std::uint32_t /*number*/) {
    if (s.endpoint != this || s.is_fetching()) return;
    Completion& receive = *s.receive;
    end_stream(s);
    matcher_.fail(receive, reason);
  });
}

bool UcxEndpoint::settle(bool idle) {
  if (begun != nullptr) {
    if (Clock::now() - ended_at_ > kPatience) {
      if (link_.watches_peer() && !link_.failed()) link_.abandon();
      for (Link* rail : rails_) {
        if (!rail->failed()) rail->abandon();
      }
    }
    idle_turns_ = idle ? idle_turns_ + 1 : 0;
    if (idle_turns_ < kIdleTurns || !must_be_watched()) return false;
    let_go();
  }
  const bool tell = end_.code() == Code::Cancelled && !said_closed_;
  if (tell) {
    said_closed_ = true;
    link_.post({.kind = FrameKind::Closed});
  }
  if (closed_ != nullptr) finish(*std::exchange(closed_, nullptr), {});
  return true;
}

/// The peer can ask for nothing any more, and what it sent has been read.
void UcxEndpoint::let_go() {
  std::size_t count = 0;
  for (Request* r = begun; r != nullptr; r = begun, ++count) {
    Requests::forget(*r);
    if (r->what == Request::What::Data) {
      Send& s = r->completion->as<Send>();
      if (--s.outstanding != 0) continue;
      announced_.erase(s.handle);
      finish(*r->completion, end_);
      continue;
    }
    Stream& s = *shared_.streams.find(r->stream);
    Stream::Fragment& fragment = s.fragments[r->fragment];
    if (fragment.scratch != nullptr) shared_.held.blocks.push_back(std::exchange(fragment.scratch, nullptr));
    fragment.state = Stream::State::Idle;
    if (s.is_fetching()) continue;
    Completion& receive = *s.receive;
    end_stream(s);
    matcher_.fail(receive, end_);
  }
  shared_.held_requests += count;
  log::info("ucx: rank {} left {} operations that UCX cannot end: held until its worker ends, {} of them in all",
            peer_.rank, count, shared_.held_requests);
}

}  // namespace sinew::ucx

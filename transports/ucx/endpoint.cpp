// An endpoint's messages on their way out, and what the peer says about them.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/endpoint.hpp>

namespace sinew::ucx {

UcxEndpoint::UcxEndpoint(Shared& shared, PeerAddress peer, Link& link)
    : shared_(shared),
      peer_(std::move(peer)),
      link_(link),
      matcher_(*this, shared.pool, shared.finished, shared.options.generation),
      credit_(shared.options.eager_credit_bytes),
      owed_credit_(shared.options.eager_credit_bytes) {}

void UcxEndpoint::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  ++shared_.pending;
  done.bytes = from.bytes;
  Send& s = done.make<Send>();
  if (!end_.ok()) return finish(done, end_);
  s.from = from.data;
  s.left = from.bytes;
  s.on_device = from.place.kind == MemoryKind::Device;
  s.meets_device = meets_device(from, tag);
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

void UcxEndpoint::send_data(Completion& done, const Frame& clear) {
  Send& s = done.as<Send>();
  ++s.outstanding;
  Request& r = shared_.requests.take(Request::What::Data, this, &done);
  r.bytes = clear.bytes;
  r.data = {.offset = clear.offset, .stream = clear.stream, .token = link_.token()};
  if (link_.failed()) return Requests::returned(r, UCS_STATUS_PTR(link_.failure()));
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
  Requests::returned(r, ucp_am_send_nbx(link_.ep(), kDataId, &r.data, sizeof r.data, from, clear.bytes, &p));
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
    case FrameKind::Request: return matcher_.announce({{f.tag}, f.note, f.bytes}, f.id);
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

}  // namespace sinew::ucx

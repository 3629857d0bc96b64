// An endpoint's messages on their way in.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/ucx/endpoint.hpp>

namespace sinew::ucx {
namespace {

/// What a reduction fetches at a time, twice: fits a core's cache with the operand beside it.
constexpr std::size_t kPieceBytes = 256 * 1024;

}  // namespace

void UcxEndpoint::grant(std::uint64_t id, Completion& receive) {
  if (shared_.free_streams.empty()) shared_.free_streams.push_back(&shared_.stream_memory.emplace_back());
  Stream& s = *shared_.free_streams.back();
  shared_.free_streams.pop_back();
  s = {.endpoint = this,
       .receive = &receive,
       .total = Matcher::bytes_left(receive),
       .sender = static_cast<std::uint32_t>(id)};
  s.number = shared_.streams.insert(s);
  operation_of(receive).handle = s.number;
  s.in_pieces = s.total != 0 && Matcher::place(receive).data == nullptr;
  const std::size_t element = Matcher::element_bytes(receive);
  s.piece_bytes = s.in_pieces ? std::min<std::size_t>(s.total, kPieceBytes / element * element) : s.total;
  ask(s);
  if (s.asked < s.total) ask(s);
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

/// Clears the next piece, into the place that is idle.
void UcxEndpoint::ask(Stream& s) {
  Stream::Piece& piece = s.pieces[s.pieces[0].state == Stream::State::Idle ? 0 : 1];
  piece.offset = s.asked;
  piece.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(s.piece_bytes, s.total - s.asked));
  piece.state = Stream::State::Asked;
  s.asked += piece.bytes;
  link_.post(
      {.kind = FrameKind::Clear, .bytes = piece.bytes, .offset = piece.offset, .id = s.sender, .stream = s.number});
}

ucs_status_t UcxEndpoint::take_data(Stream& s, const DataFrame& data, void* bytes, std::size_t count,
                                    bool waits_at_sender) {
  const std::uint32_t which = s.pieces[0].state == Stream::State::Asked && s.pieces[0].offset == data.offset ? 0 : 1;
  Stream::Piece& piece = s.pieces[which];
  if (piece.state != Stream::State::Asked || piece.offset != data.offset || piece.bytes != count) return UCS_OK;
  const MemoryKind kind = Matcher::place(*s.receive).place.kind;
  assert(waits_at_sender || kind != MemoryKind::Device || count == 0);  // see UcxEndpoint::meets_device
  if (!waits_at_sender && piece.offset == s.delivered) {
    piece.state = Stream::State::Idle;
    s.delivered += count;
    Completion& receive = *s.receive;
    if (s.delivered == s.total) end_stream(s);
    matcher_.deliver(receive, static_cast<const std::byte*>(bytes), count);
    if (s.receive == &receive) piece_here(s);
    return UCS_OK;
  }
  if (s.in_pieces && piece.scratch == nullptr)
    piece.scratch = static_cast<std::byte*>(shared_.pool.take(s.piece_bytes));
  if (!waits_at_sender) {
    // It came before what an earlier piece still fetches, and is UCX's own again when this returns.
    assert(s.in_pieces);
    std::memcpy(piece.scratch, bytes, count);
    piece.state = Stream::State::Here;
    return UCS_OK;
  }
  std::byte* into = s.in_pieces ? piece.scratch : Matcher::place(*s.receive).data;
  piece.state = Stream::State::Fetching;
  Request& r = shared_.requests.take(Request::What::Fetch, this, s.receive);
  r.stream = s.number;
  r.piece = which;
  r.bytes = count;
  Requests::begin(r);
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.cb.recv_am = &Requests::fetched;
  p.user_data = &r;
  hint(p, kind);
  const ucs_status_ptr_t result = ucp_am_recv_data_nbx(shared_.ucx.worker(), bytes, into, count, &p);
  if (!UCS_PTR_IS_PTR(result)) Requests::returned(r, result);
  return UCS_INPROGRESS;
}

void UcxEndpoint::fetch_ended(Request& r, ucs_status_t status) {
  Stream& s = *shared_.streams.find(r.stream);
  s.pieces[r.piece].state = status == UCS_OK ? Stream::State::Here : Stream::State::Idle;
  if (end_.ok()) return piece_here(s);
  if (s.is_fetching()) return;
  Completion& receive = *s.receive;
  end_stream(s);
  matcher_.fail(receive, end_);
}

/// Hands on what is here and next, and asks for more.
void UcxEndpoint::piece_here(Stream& s) {
  for (bool found = true; found;) {
    found = false;
    for (Stream::Piece& piece : s.pieces) {
      if (piece.state != Stream::State::Here || piece.offset != s.delivered) continue;
      found = true;
      piece.state = Stream::State::Idle;
      s.delivered += piece.bytes;
      Completion& receive = *s.receive;
      const bool last = s.delivered == s.total;
      if (s.in_pieces) {
        matcher_.deliver(receive, piece.scratch, piece.bytes);
      } else {
        matcher_.arrived(receive, piece.bytes);
      }
      if (last) return end_stream(s);
    }
  }
  const bool idle = s.pieces[0].state == Stream::State::Idle || s.pieces[1].state == Stream::State::Idle;
  if (idle && s.asked < s.total) ask(s);
}

/// UCX has let go of it.
void UcxEndpoint::end_stream(Stream& s) noexcept {
  for (Stream::Piece& piece : s.pieces) {
    if (piece.scratch != nullptr) shared_.pool.give(piece.scratch, s.piece_bytes);
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

}  // namespace sinew::ucx

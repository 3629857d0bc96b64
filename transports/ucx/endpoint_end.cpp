// How an endpoint ends.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/endpoint.hpp>

namespace sinew::ucx {
namespace {

/// For a peer that may be alive to take what it has asked for.
constexpr auto kPatience = std::chrono::seconds(1);
/// So often UCX must find nothing to do, before a dead peer has nothing more to say.
constexpr int kIdleTurns = 200;

}  // namespace

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
}

void UcxEndpoint::close(Completion& quiet) {
  ++shared_.pending;
  quiet_ = &quiet;
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
    if (link_.watches_peer() && !link_.failed() && Clock::now() - ended_at_ > kPatience) link_.abandon();
    idle_turns_ = idle ? idle_turns_ + 1 : 0;
    if (idle_turns_ < kIdleTurns || !must_be_watched()) return false;
    let_go();
  }
  const bool tell = end_.code() == Code::Cancelled && !said_closed_;
  if (tell) {
    said_closed_ = true;
    link_.post({.kind = FrameKind::Closed});
  }
  if (quiet_ != nullptr) finish(*std::exchange(quiet_, nullptr), {});
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
    Stream::Piece& piece = s.pieces[r->piece];
    if (piece.scratch != nullptr) shared_.held.blocks.push_back(std::exchange(piece.scratch, nullptr));
    piece.state = Stream::State::Idle;
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

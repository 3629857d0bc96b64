#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <sinew/collectives/control/host_link.hpp>
#include <sinew/collectives/control/notice.hpp>
#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/core/error.hpp>

namespace {

using sinew::Authentication;
using sinew::HostLink;
using sinew::LinkFrame;

/// As ControlService::take reads them.
void take(LinkFrame type, std::span<const std::byte> bytes) try {
  sinew::Notice notice;
  sinew::Question about;
  switch (type) {
    case LinkFrame::Notice:
      if (bytes.size() != sizeof notice) return;
      std::memcpy(static_cast<void*>(&notice), bytes.data(), sizeof notice);
      if (notice.message().size() > notice.text.size()) std::abort();
      return;
    case LinkFrame::Question: (void)sinew::Question::decode(bytes); return;
    case LinkFrame::Answer: (void)sinew::RankReport::decode(bytes, about); return;
  }
} catch (const sinew::Error& e) {
  if (e.code() != sinew::Code::Mismatch || std::string_view(e.what()).empty()) std::abort();
}

void prove(int socket, HostLink& link, const sinew::Bytes& secret, const sinew::AuthClaim& claim) {
  Authentication peer = Authentication::connector(secret, claim);
  while (!peer.to_send().empty() || peer.state() == Authentication::State::Underway) {
    const auto out = peer.to_send();
    if (::send(socket, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) std::abort();
    peer.sent(out.size());
    link.serve(take);
    const auto room = peer.room();
    if (!room.empty() && ::recv(socket, room.data(), room.size(), 0) != static_cast<ssize_t>(room.size())) std::abort();
    peer.received(room.size());
  }
  if (link.state() != HostLink::State::Open) std::abort();
}

}  // namespace

/// What a peer says once its proof was accepted.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sinew::Bytes secret(32, std::byte{7});
  const sinew::AuthClaim claim{.service = 1, .from_rank = 1, .to_rank = 0, .instance = 3};
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
  const sinew::FileDescriptor peer(ends[1]);
  const auto link = HostLink::accept(sinew::FileDescriptor(ends[0]), {secret, nullptr}, claim);
  prove(peer.get(), *link, secret, claim);
  while (size > 0 && link->state() == HostLink::State::Open) {
    constexpr std::size_t kPiece = 8192;
    const ssize_t sent = ::send(peer.get(), data, std::min(size, kPiece), MSG_NOSIGNAL);
    if (sent <= 0) break;
    data += sent;
    size -= static_cast<std::size_t>(sent);
    link->serve(take);
  }
  return 0;
}

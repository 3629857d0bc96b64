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

}  // namespace

/// The input is what an authenticated peer sends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
  const sinew::FileDescriptor peer(ends[1]);
  HostLink link(sinew::Socket(sinew::FileDescriptor(ends[0]), sinew::Socket::End::Accepts, nullptr), 1, false, "");
  while (size > 0 && !link.ended()) {
    constexpr std::size_t kPiece = 8192;
    const ssize_t sent = ::send(peer.get(), data, std::min(size, kPiece), MSG_NOSIGNAL);
    if (sent <= 0) break;
    data += sent;
    size -= static_cast<std::size_t>(sent);
    link.serve(take);
  }
  return 0;
}

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sinew/core/net/auth.hpp>

namespace {

using sinew::Authentication;

/// What a stranger says, in pieces: each byte of it says how long the next is. It must never be believed.
void listen_to(Authentication side, const std::uint8_t* data, std::size_t size) {
  while (size > 1 && side.state() == Authentication::State::Underway) {
    const auto room = side.room();
    if (room.empty() || room.size() > Authentication::kReplyBytes) std::abort();
    const std::size_t piece = std::min({static_cast<std::size_t>(*data) + 1, room.size(), size - 1});
    std::memcpy(room.data(), data + 1, piece);
    side.received(piece);
    side.sent(side.to_send().size());
    data += 1 + piece;
    size -= 1 + piece;
  }
  if (side.state() == Authentication::State::Proven) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const sinew::Bytes secret(32, std::byte{7});
  const sinew::AuthClaim claim{.service = 0x32706374, .from_rank = 1, .to_rank = 0, .channel = 2, .instance = 3};
  listen_to(Authentication::acceptor(secret, claim), data, size);
  listen_to(Authentication::connector(secret, claim), data, size);
  return 0;
}

#pragma once

#include <sinew/core/buffer.hpp>
#include <sinew/core/transport/tag.hpp>

namespace sinew {

/// True if the buffer of a message may be device memory on either side. The host cannot read or write such memory, so
/// the transport must not copy the message through its own host memory. `peer_receives`: the peer has a device, and its
/// transport receives into device memory. The sender does not know which buffer a user's receive has.
constexpr bool meets_device(std::size_t bytes, Place from, Tag tag, bool peer_receives) noexcept {
  if (bytes == 0) return false;
  return from.kind == MemoryKind::Device || (peer_receives && tag.is_between_users());
}

}  // namespace sinew

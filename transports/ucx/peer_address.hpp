#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/transport.hpp>

namespace sinew::ucx {

/// What an Address says.
struct PeerAddress {
  std::int32_t rank = -1;
  std::uint64_t instance = 0;  ///< random, of the transport; its low half is the token of frames to it
  std::string host_id;
  bool leads_elsewhere = false;  ///< has a network transport
  bool device_memory = false;    ///< may receive into its device's memory
  Bytes worker;                  ///< UCX's own

  std::uint32_t token() const noexcept { return static_cast<std::uint32_t>(instance); }
  Address encode() const;
  /// Errors: Error{Mismatch} where the bytes are not of this kind.
  static PeerAddress decode(const Address& bytes);
};

}  // namespace sinew::ucx

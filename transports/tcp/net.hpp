#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <sinew/core/auth.hpp>
#include <sinew/core/export.hpp>
#include <sinew/core/file_descriptor.hpp>
#include <sinew/core/socket_address.hpp>

namespace sinew::tcp {

/// Begins to connect; the errno where it cannot even begin. Done when the socket can be written.
std::pair<FileDescriptor, int> start_connect(const SocketAddress& address);
/// 0, or the errno that ended the attempt; a socket that TCP has connected to itself counts as refused.
int connect_result(int socket) noexcept;
/// The next connection, ready for use; or the errno (EAGAIN: none).
std::pair<FileDescriptor, int> accept_next(int listener) noexcept;
/// "10.0.0.2:4711", or "?" of a socket that has gone.
SINEW_API std::string peer_text(int socket);

enum class Proof { Underway, Proven, Refused, Closed };
/// Moves a handshake on as far as the socket goes.
Proof pump(int socket, Authentication& handshake);

/// What the accepting side says after the proofs, one byte.
enum class Consent : std::uint8_t {
  Accepted = 'A',  ///< this connection is the pair's
  UseMine = 'M',   ///< ours is on its way
  Closed = 'C',    ///< this side has closed its endpoint
};
void say(int socket, Consent consent) noexcept;

/// The claim's service for this protocol.
inline constexpr std::uint32_t kService = 0x31706374;  // "tcp1"

enum class Channel : std::uint8_t { Control, Data };
inline constexpr std::size_t kChannels = 2;

}  // namespace sinew::tcp

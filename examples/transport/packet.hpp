#pragma once

#include <cstddef>
#include <cstdint>

namespace mailbox {

enum class Kind : std::uint32_t {
  Request,   ///< a message waits at its sender; tag, note and bytes describe it
  Withdraw,  ///< its sender takes it back, or stops in the middle of it
  Grant,     ///< its receive is here: it may come, in pieces of whole elements of `bytes` each
  Refuse,    ///< nobody will take it; bytes: a sinew::Code, note: the note that was expected
  Data,      ///< the next piece follows
};

/// What a packet begins with; the socket keeps packets apart. `message` is the sender's number, in both directions.
struct Packet {
  Kind kind{};
  std::uint32_t message = 0;
  std::uint64_t tag = 0;
  std::uint64_t note = 0;
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kPieceBytes = 32 * 1024;

}  // namespace mailbox

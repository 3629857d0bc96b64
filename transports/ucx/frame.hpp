#pragma once

#include <cstddef>
#include <cstdint>

namespace sinew::ucx {

enum class FrameKind : std::uint8_t {
  Eager,     ///< a message with its bytes
  Request,   ///< a message that waits at its sender under `id`
  Clear,     ///< bytes of message `id`, from `offset`, may come: as data of `stream`
  Refuse,    ///< nobody takes (the rest of) message `id`: `bytes` is the Code, `note` what was expected
  Withdraw,  ///< message `id` was taken back before it was cleared
  Credit,    ///< `bytes` of eager credit are the sender's again
  Closed,    ///< the endpoint is closed: its last frame
  Gone,      ///< the worker is about to end: nobody will ask UCX for anything any more
};

/// The header of an active message that is not data; an eager one ends before `bytes`, so that it and a few bytes fit
/// into what shared memory sends without a descriptor (92 bytes).
struct Frame {
  std::uint64_t tag = 0;
  std::uint64_t note = 0;
  std::uint32_t token = 0;     ///< of the receiver: drops what was meant for an earlier process at its address
  std::uint32_t sequence = 0;  ///< of the pair: UCX may let short messages overtake long ones
  std::uint32_t rank = 0;      ///< of the sender
  FrameKind kind{};
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint32_t id = 0;
  std::uint32_t stream = 0;
};
inline constexpr std::size_t kEagerHeaderBytes = offsetof(Frame, bytes);

/// The header of an active message that carries a part of a message which was cleared.
struct DataFrame {
  std::uint64_t offset = 0;
  std::uint32_t stream = 0;
  std::uint32_t token = 0;
};

/// Ids of UCX's active messages.
inline constexpr unsigned kFrameId = 1;
inline constexpr unsigned kDataId = 2;

}  // namespace sinew::ucx

#pragma once

#include <cstdint>

#include <sinew/collectives/element_range.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// One send or receive for Communicator::group.
struct Message {
  bool sends = false;
  Buffer memory{};  ///< a send only reads it
  int peer = 0;     ///< a rank in the communicator
  std::uint32_t tag = 0;

  static Message send(ConstBuffer from, int to_rank, std::uint32_t tag = 0) noexcept {
    return {true, {const_cast<std::byte*>(from.data), from.bytes, from.place}, to_rank, tag};
  }
  static Message recv(Buffer to, int from_rank, std::uint32_t tag = 0) noexcept { return {false, to, from_rank, tag}; }
  template <PlainRange R>
  static Message send(const R& from, int to_rank, std::uint32_t tag = 0) noexcept {
    return send(const_buffer_of(from), to_rank, tag);
  }
  template <WritableRange R>
  static Message recv(R&& to, int from_rank, std::uint32_t tag = 0) noexcept {
    return recv(buffer_of(to), from_rank, tag);
  }
};

}  // namespace sinew

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <sinew/core/buffer.hpp>
#include <sinew/core/system/file_descriptor.hpp>

#include "packet.hpp"

/// UNIX sockets with names that no file has and that end with their process. Packets stay whole and in order, and what
/// was sent before the end of a process can still be read.
namespace mailbox {

/// Where the box with this number takes connections. Errors: sinew::Error{System}.
sinew::FileDescriptor listen_at(std::uint64_t box);

/// A connection for packets from one box to another. Its own name says whose it is, so that nothing must be read first.
/// Empty: the box is gone. Errors: sinew::Error{System}.
sinew::FileDescriptor dial(std::uint64_t from, std::uint64_t to);

struct Visitor {
  std::uint64_t box = 0;
  sinew::FileDescriptor socket;
};
/// The next connection that another box of the same user has made; strangers are turned away. nullopt: nobody waits.
std::optional<Visitor> accept_from(int listener);

/// false: no room now, or the other end is gone; the descriptor tells which.
bool put(int socket, const Packet& packet, sinew::ConstBuffer piece);

enum class Taken : std::uint8_t { Packet, Nothing, Ended };
/// Up to kPieceBytes into `piece`; `piece_bytes` says how many.
Taken take(int socket, Packet& packet, std::byte* piece, std::size_t& piece_bytes);

}  // namespace mailbox

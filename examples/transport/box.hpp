#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <sinew/core/operation.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/block_pool.hpp>

#include "packet.hpp"

namespace mailbox {

class PeerEndpoint;

/// Where a rank is found; travels as its address.
struct Where {
  std::uint64_t box = 0;
  std::int32_t rank = 0;
  std::uint32_t user = 0;
  std::string host;

  sinew::Address encode() const;
  /// Errors: sinew::Error{InvalidArgument} for bytes that are no such address.
  static Where decode(const sinew::Address& address);
};

/// What the endpoints of one rank share: the socket where peers knock, and what sleeps until something comes.
struct Box {
  Box(Where where, std::uint8_t of_generation);

  /// From now on the endpoint hears of this descriptor; with `for_room`, of room to write, too.
  void watch(int descriptor, PeerEndpoint& endpoint);
  void want_room(int descriptor, bool for_room);
  /// Closes it.
  void forget(sinew::FileDescriptor& descriptor);
  /// Brings connections that peers have made to their endpoints, or keeps them until there is one.
  void take_visitors();
  int poll();

  Where self;
  std::uint8_t generation;
  sinew::FileDescriptor epoll;
  sinew::FileDescriptor listener;
  sinew::BlockPool pool;
  sinew::FinishedOperations finished;
  std::unique_ptr<std::byte[]> piece;  // what is read and not kept
  std::map<std::uint64_t, PeerEndpoint*> peers;
  std::map<std::uint64_t, sinew::FileDescriptor> early;  // of boxes that nobody has connected to here yet
  std::map<int, PeerEndpoint*> watched;
};

}  // namespace mailbox

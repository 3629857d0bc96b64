#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>

// The protocol between a store's client and its server. A TCP connection begins with the authentication of
// core/net/auth.hpp, a UNIX connection with the server's StoreWelcome. Then the client sends one request at a time, the
// first one is Hello. Each message is a frame of core/net/framed_stream.hpp.
//   request: StoreOp, u32 milliseconds the caller waits, fields of the operation
//   reply:   Code, i32 rank, then the message (text) if not Ok, else the fields of the answer
// A relay sends Attach in place of Hello. If the answer lets it stay, both sides then send batches (ADR 48):
//   from the relay: again and again u32 client, RelayEvent, bytes
//   to the relay:   again and again u32 number of clients, their numbers, RelayEvent, bytes
namespace sinew {

enum class StoreOp : std::uint8_t {
  Hello,
  Set,
  Get,
  Wait,
  Add,
  CompareAndSet,
  Erase,
  AllGather,
  RollCall,
  NextRound,  ///< MemberRequest; the answer is a FormedRound
  ChangeDue,  ///< the answer is a byte: 1 if ElasticMembers::is_change_due()
  Attach,     ///< RelayIntroduction; the answer is a RelayParent
};

inline constexpr std::uint32_t kStoreProtocolVersion = 4;
inline constexpr std::uint32_t kWaitForever = 0xffffffff;
inline constexpr std::uint32_t kStoreService = 0x45524f54;  ///< in AuthClaim: "TORE"
inline constexpr std::size_t kWelcomeLimit = 16 << 10;

/// Who asks. Clients of one group are the ranks of one world; rank -1 belongs to none.
struct SINEW_API StoreIdentity {
  std::string group;
  int rank = -1;
  int ranks = 0;
  int pid = 0;
  std::string host;

  Bytes encode() const;
  static StoreIdentity decode(std::span<const std::byte> fields);
};

/// The process at the other end of a client's connection: it serves the store, or it is a relay that leads there.
enum class StoreHost : std::uint8_t { Rank, Launcher, Relay };

/// What the server of a UNIX socket tells a process of the same user.
struct SINEW_API StoreWelcome {
  StoreHost host = StoreHost::Rank;
  int pid = 0;
  Bytes secret;           ///< the job's
  std::string elsewhere;  ///< comma-separated addresses where the store is; empty: here
  int rank = -1;          ///< of a relay's process

  Bytes encode() const;
  /// Errors: Error{Mismatch} if it is none.
  static StoreWelcome decode(std::span<const std::byte> fields);
};

/// What a batch between a relay and its parent says about clients.
enum class RelayEvent : std::uint8_t {
  Message,  ///< to the parent: a request; from the parent: a reply
  Ended,    ///< to the parent: the client is gone, and the text says how; from the parent: disconnect the client
  Cut,      ///< from the parent alone, without clients: the parent does not reach the store any more; a status says why
};

/// A relay presents itself: a process through which the ranks of its host reach the store.
struct SINEW_API RelayIntroduction {
  std::string host;
  int pid = 0;
  int rank = -1;          ///< -1: the process is no rank
  std::string addresses;  ///< comma-separated: where further relays reach it
  /// The random number of its service at these addresses. An address may lead to another host than it should, and a
  /// relay of the same job may listen there.
  std::uint64_t instance = 0;
  int number = -1;       ///< that an earlier answer has given it; -1: it asks for the first time
  int unreachable = -1;  ///< the number of the parent that it did not reach; -1: none

  /// "rank 4 (process 17 on host a)"
  std::string name() const;
  Bytes encode() const;
  static RelayIntroduction decode(std::span<const std::byte> fields);
};

/// Where a relay belongs. Relays are numbered in the order of their arrival; 0 is the server of the store.
struct SINEW_API RelayParent {
  int number = -1;             ///< the relay's own
  int parent = 0;              ///< its parent's
  std::string addresses;       ///< the parent's; empty: the relay stays at this connection
  std::uint64_t instance = 0;  ///< the parent's
  std::string name;            ///< the parent's, for messages
  int rank = -1;               ///< the parent's; -1: it is no rank

  Bytes encode() const;
  static RelayParent decode(std::span<const std::byte> fields);
};

/// The most bytes of a batch between a relay and its parent, unless a single message is longer.
inline constexpr std::size_t kLongestBatch = std::size_t{64} << 20;

/// Why a client is disconnected that sends a request before it has the answer to the last one.
inline constexpr const char* kSecondRequest = "a client sent a request before it had the answer to the last one";

/// Code, i32 rank, message.
SINEW_API Bytes encode_status(const Status& status);
/// Errors: Error{Mismatch} if it is none.
SINEW_API Status decode_status(std::span<const std::byte> fields);

/// An answer as a frame (FramedStream).
SINEW_API std::shared_ptr<const Bytes> framed_reply(const Status& status);
SINEW_API std::shared_ptr<const Bytes> framed_reply(const Bytes& fields);

}  // namespace sinew

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>

// The protocol between a store's client and its server. A TCP connection begins with the authentication of
// core/net/auth.hpp, a UNIX connection with the server's StoreWelcome. Then the client sends one request at a time, the
// first one is Hello. Each message is a frame of core/net/framed_stream.hpp.
//   request: StoreOp, u32 milliseconds the caller waits, fields of the operation
//   reply:   Code, i32 rank, then the message (text) if not Ok, else the fields of the answer
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
};

inline constexpr std::uint32_t kStoreProtocolVersion = 3;
inline constexpr std::uint32_t kWaitForever = 0xffffffff;
inline constexpr std::uint32_t kStoreService = 0x45524f54;  ///< in AuthClaim: "TORE"
inline constexpr std::size_t kWelcomeLimit = 16 << 10;

/// Who asks. Clients of one group are the ranks of one world; rank -1 belongs to none.
struct StoreIdentity {
  std::string group;
  int rank = -1;
  int ranks = 0;
  int pid = 0;
  std::string host;

  Bytes encode() const;
  static StoreIdentity decode(std::span<const std::byte> fields);
};

/// Who serves a store, for messages and for deciding who hosts.
enum class StoreHost : std::uint8_t { Rank, Launcher };

/// What the server of a UNIX socket tells a process of the same user.
struct StoreWelcome {
  StoreHost host = StoreHost::Rank;
  int pid = 0;
  Bytes secret;           ///< the job's
  std::string elsewhere;  ///< comma-separated addresses where the store is; empty: here

  Bytes encode() const;
  /// Errors: Error{Mismatch} if it is none.
  static StoreWelcome decode(std::span<const std::byte> fields);
};

/// An answer as a frame (FramedStream).
std::shared_ptr<const Bytes> framed_reply(const Status& status);
std::shared_ptr<const Bytes> framed_reply(const Bytes& fields);

}  // namespace sinew

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {

/// What control planes of different hosts say to each other.
enum class LinkFrame : std::uint8_t {
  Notice,    ///< a Notice
  Question,  ///< Question::encode
  Answer,    ///< i32 World rank of the asker, then RankReport::encode
};

/// What a link is for, as AuthClaim::channel says it.
enum class LinkChannel : std::uint32_t {
  Messages,
  Life,  ///< nothing is sent: see LifeLines
};

/// What a link proves itself with.
struct LinkKeys {
  Bytes secret;                           ///< the job's
  std::shared_ptr<const TlsContext> tls;  ///< null: plain
};

/// One TCP connection between the control planes of two ranks on different hosts. Both prove the job's secret before
/// anything is parsed. The kernel finds a dead line: keep-alive of 1 s, four probes, and TCP_USER_TIMEOUT.
/// Thread: the control thread. Nothing blocks.
class HostLink {
 public:
  enum class State : std::uint8_t { Connecting, Proving, Open, Closed };
  using Take = std::function<void(LinkFrame, std::span<const std::byte>)>;

  /// A stranger's bytes are refused at this size, and a frame may not be longer.
  static constexpr std::size_t kLongestFrame = 4 << 20;

  /// Begins to connect; errors show as Closed.
  static std::unique_ptr<HostLink> connect(const SocketAddress& to, const LinkKeys& keys, const AuthClaim& claim);
  /// Takes over an accepted socket.
  static std::unique_ptr<HostLink> accept(FileDescriptor socket, const LinkKeys& keys, const AuthClaim& expected);

  int descriptor() const noexcept { return socket_.get(); }
  State state() const noexcept { return state_; }
  /// World rank at the other end; of an accepted link once it is Open.
  int peer() const noexcept { return peer_; }
  /// This side has connected.
  bool connects() const noexcept { return connects_; }
  /// Of an accepted link once it is Open.
  LinkChannel channel() const noexcept { return static_cast<LinkChannel>(authentication_.claim().channel); }
  /// Where it leads: the address connected to, or where an accepted link came from.
  const std::string& address() const noexcept { return address_; }
  /// Why it is Closed; `error()` is the errno, or 0.
  const std::string& reason() const noexcept { return reason_; }
  int error() const noexcept { return error_; }
  /// When it began, or its proof came a step further.
  Clock::time_point since() const noexcept { return clock_.since(); }

  /// What its socket is to be watched for now.
  EventLoop::Interest interest() const noexcept;
  /// Reads and writes what the socket has and takes.
  void serve(const Take& take);
  void send(LinkFrame type, std::span<const std::byte> head, std::span<const std::byte> body = {});
  /// Something that was sent has not left this process.
  bool wants_write() const noexcept { return socket_.wants_write(); }
  /// Sends nothing after what is left; Closed once the peer has read it all and closes in turn.
  void finish();
  /// All has been written.
  bool finished() const noexcept { return finished_; }

 private:
  HostLink(Socket socket, Authentication authentication, bool connecting, std::string address);
  void connected();
  void prove();
  void read(const Take& take);
  void write();
  void fail(std::string what, int error);

  Socket socket_;
  Authentication authentication_;
  State state_;
  const bool connects_;
  int peer_;
  std::string address_;
  std::string reason_;
  int error_ = 0;
  ProofClock clock_;

  Bytes in_;
  std::deque<Bytes> out_;
  std::size_t written_ = 0;  // of out_.front()
  bool finishing_ = false;
  bool finished_ = false;
};

}  // namespace sinew

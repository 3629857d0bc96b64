#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/net/socket.hpp>

namespace sinew {

/// Messages between control planes of different hosts.
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

/// AuthClaim::service of all links.
inline constexpr std::uint32_t kControlService = 0x6c727463;  // "ctrl"

/// One authenticated TCP connection between the control planes of two ranks on different hosts. While the
/// connection is idle, the kernel asks every second whether the peer's host answers. The kernel ends the connection
/// after five seconds without an answer.
/// Thread: the control thread. Nothing blocks.
class HostLink {
 public:
  using Take = std::function<void(LinkFrame, std::span<const std::byte>)>;

  /// The most bytes of a message. A longer message ends the link.
  static constexpr std::size_t kLongestFrame = 4 << 20;

  /// `peer` is the World rank at the other end, and `address` the address of that end. `connects`: this side has opened
  /// the connection.
  HostLink(Socket socket, int peer, bool connects, std::string address);

  int descriptor() const noexcept { return stream_.descriptor(); }
  /// The World rank at the other end.
  int peer() const noexcept { return peer_; }
  bool connects() const noexcept { return connects_; }
  /// The address of the other end.
  const std::string& address() const noexcept { return address_; }

  bool ended() const noexcept { return stream_.ended(); }
  /// Why the link has ended.
  const std::string& reason() const noexcept { return stream_.reason(); }

  /// What its socket is to be watched for now.
  EventLoop::Interest interest() const noexcept { return stream_.interest(); }
  /// Reads and writes what the socket has and takes.
  void serve(const Take& take);
  void send(LinkFrame type, std::span<const std::byte> head, std::span<const std::byte> body = {});
  /// Sends the messages that wait, and no more. The link ends when the peer has read them and closes the connection.
  void finish() { stream_.finish(); }
  /// All has been written.
  bool finished() const noexcept { return stream_.finished(); }

 private:
  FramedStream stream_;
  const int peer_;
  const bool connects_;
  const std::string address_;
};

}  // namespace sinew

#pragma once

#include <vector>

#include <sinew/core/net/proof.hpp>
#include <sinew/transports/tcp/frame.hpp>
#include <sinew/transports/tcp/net.hpp>

#include "tcp_pair.hpp"

namespace sinew::test {

/// A rank that the test plays byte by byte. It knows the job's secret, and does what a rank of this library does not do
/// when asked: keeps its consent to itself, loses what has come. The other side progresses while it waits.
class PlayedPeer {
 public:
  /// It is where a transport with these options would be. Each of its addresses has a listener.
  PlayedPeer(const tcp::Options& self, Transport& other) : self_(self), other_(other) {
    them_ = tcp::PeerAddress::decode(other.address());
    std::vector<tcp::InterfaceAddress> addresses = self.addresses;
    if (addresses.empty()) addresses.push_back({SocketAddress::parse("127.0.0.1:0"), 8, "lo"});
    for (tcp::InterfaceAddress& a : addresses) a.address = listeners_.emplace_back(listen_on(a.address)).address;
    me_ = {self.rank, 99, self.host_id, std::move(addresses)};
  }

  Address address() const { return me_.encode(); }
  SocketAddress listener(std::size_t which) const { return listeners_[which].address; }

  /// The next connection to a listener; nothing of it is read.
  Socket accept(std::size_t which) {
    FileDescriptor came;
    const auto has_come = [&] {
      if (!came) came = FileDescriptor(::accept4(listeners_[which].socket.get(), nullptr, nullptr, SOCK_NONBLOCK));
      return static_cast<bool>(came);
    };
    EXPECT_TRUE(wait(has_come)) << "for a connection to " << listener(which).text();
    return {std::move(came), Socket::End::Accepts, nullptr};
  }
  /// Hears and gives the proofs, and not yet a consent; which connection it is.
  tcp::ChannelClaim prove(Socket& accepted) {
    auto handshake = Authentication::acceptor(self_.secret, {tcp::kService, -1, me_.rank, 0, me_.instance});
    finish(accepted, handshake);
    return tcp::ChannelClaim::decode(handshake.claim().channel);
  }
  /// The next control connection to a listener, proven; the others wait for their consent.
  Socket accept_control(std::size_t which) {
    for (;;) {
      Socket socket = accept(which);
      if (prove(socket).channel == tcp::kControl) return socket;
      waiting_.push_back(std::move(socket));
    }
  }

  struct Answer {
    tcp::Consent consent{};
    Socket socket;
  };
  Answer dial(tcp::ChannelClaim claim) {
    Answer answer{{}, Socket(raw_connection(other_), Socket::End::Connects, nullptr)};
    const AuthClaim whole{tcp::kService, me_.rank, them_.rank, claim.encode(), them_.instance};
    auto handshake = Authentication::connector(self_.secret, whole);
    finish(answer.socket, handshake);
    hear(answer.socket, &answer.consent, sizeof answer.consent);
    return answer;
  }
  /// A control connection that goes on at the beginning of the other side's stream.
  Socket dial_control(std::uint32_t epoch) {
    Answer answer = dial({tcp::kControl, epoch});
    EXPECT_EQ(answer.consent, tcp::Consent::Accepted);
    EXPECT_EQ(hear(answer.socket).kind, tcp::FrameKind::Resume);
    say(answer.socket, {.kind = tcp::FrameKind::Resume});
    return std::move(answer.socket);
  }

  void say(Socket& socket, const tcp::FrameHeader& header) {
    EXPECT_EQ(socket.send(std::as_bytes(std::span(&header, 1))), static_cast<ssize_t>(sizeof header));
  }
  tcp::FrameHeader hear(Socket& socket) {
    tcp::FrameHeader header;
    hear(socket, &header, sizeof header);
    return header;
  }
  void hear(Socket& socket, void* into, std::size_t bytes) {
    std::size_t have = 0;
    const auto has_come = [&] {
      const auto room = std::span(static_cast<std::byte*>(into), bytes).subspan(have);
      const ssize_t n = socket.receive(room);
      have += n > 0 ? static_cast<std::size_t>(n) : 0;
      return have == bytes || n == 0 || (n < 0 && !is_for_later(errno));
    };
    EXPECT_TRUE(wait(has_come) && have == bytes) << have << " of " << bytes << " bytes";
  }

 private:
  template <class Holds>
  bool wait(Holds holds) {
    return drive({&other_}, std::chrono::seconds(30), holds);
  }
  void finish(Socket& socket, Authentication& handshake) {
    Proof proof = Proof::Underway;
    wait([&] { return (proof = pump(socket, handshake)) != Proof::Underway; });
    EXPECT_EQ(proof, Proof::Proven) << handshake.reason();
  }

  tcp::Options self_;
  Transport& other_;
  tcp::PeerAddress me_, them_;
  std::vector<Listener> listeners_;
  std::vector<Socket> waiting_;
};

}  // namespace sinew::test

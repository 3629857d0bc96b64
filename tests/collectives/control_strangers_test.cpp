// Strangers at the control plane's listener, and what they cannot do there.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <support/ranks.hpp>

namespace sinew::test {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kService = 0x6c727463;  // "ctrl", as host_links.cpp has it

/// A rank with a control plane and nothing else, on a host of its own.
struct Lonely {
  Config config{};
  Bytes secret = Bytes(32, std::byte{5});
  HostPeers host;
  ControlService service;

  explicit Lonely(const Exchange& exchange)
      : config{.host_id = std::to_string(exchange.rank)},
        host(exchange, config.host_id, Deadline::after(seconds(20))),
        service(exchange,
                {.generation = 0, .host = host, .host_id = config.host_id, .secret = secret, .config = config}) {}
};

FileDescriptor stranger_at(const ControlPeer& peer) {
  auto [socket, error] = try_connect({SocketAddress::parse(peer.addresses.back())}, Deadline::after(seconds(5)));
  EXPECT_EQ(error, 0);
  return std::move(socket);
}

/// Has something come, or has the other end closed, before so long has passed?
bool speaks(const FileDescriptor& socket, std::chrono::milliseconds within) {
  pollfd entry{socket.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(within.count())) == 1;
}

TEST(ControlStrangers, SlowOnesInAllPlaces_GiveWay_TheOldestFirst) {
  run_as_processes(2, [](const Exchange& exchange) {
    Lonely rank(exchange);
    static_cast<void>(exchange.all_gather({}));
    if (exchange.rank == 1) {
      std::vector<FileDescriptor> slow;
      for (std::size_t i = 0; i < 2 * UnauthenticatedLimits::kPlaces; ++i) {
        slow.push_back(stranger_at(rank.service.peers()[0]));
        EXPECT_EQ(::send(slow.back().get(), "sinew", 5, MSG_NOSIGNAL), 5);  // half a hello
      }
      const auto start = Clock::now();
      EXPECT_TRUE(speaks(slow.front(), seconds(60)));
      EXPECT_LT(Clock::now() - start, UnauthenticatedLimits::kAtMost) << "it had its whole time while others waited";
      EXPECT_FALSE(speaks(slow.back(), std::chrono::milliseconds(0))) << "nobody waits for its place";
    }
    static_cast<void>(exchange.all_gather({}));
  });
}

TEST(ControlFrames, NumberThatItsPlaceCannotHold_IsAMismatch) {
  const auto code_of = [](const std::vector<unsigned char>& cbor) {
    try {
      static_cast<void>(Question::decode(std::as_bytes(std::span(cbor))));
    } catch (const Error& e) {
      return e.code();
    }
    return Code::Ok;
  };
  EXPECT_EQ(code_of({0x85, 0x00, 0x07, 0x08, 0x81, 0x01, 0x80}), Code::Ok);
  EXPECT_EQ(code_of({0x85, 0xfa, 0xfa, 0xfa, 0xfa, 0xfa, 0x07, 0x08, 0x81, 0x01, 0x80}), Code::Mismatch) << "-6.5e35";
  EXPECT_EQ(code_of({0x85, 0x00, 0x20, 0x08, 0x81, 0x01, 0x80}), Code::Mismatch) << "-1 for a communicator";
  EXPECT_EQ(code_of({0x85, 0x00, 0x07, 0x08, 0x81, 0x1a, 0xff, 0xff, 0xff, 0xff, 0x80}), Code::Mismatch) << "2^32 - 1";
}

TEST(ControlStrangers, ReplayedHandshake_IsRefused) {
  run_as_processes(2, [](const Exchange& exchange) {
    Lonely rank(exchange);
    static_cast<void>(exchange.all_gather({}));
    if (exchange.rank == 1) {
      const ControlPeer& there = rank.service.peers()[0];
      Authentication peer =
          Authentication::connector(rank.secret, {kService, /*from_rank=*/1, /*to_rank=*/0, 0, there.token});
      Bytes said(peer.to_send().begin(), peer.to_send().end());
      const FileDescriptor heard = stranger_at(there);
      ASSERT_EQ(::send(heard.get(), said.data(), said.size(), MSG_NOSIGNAL), 64);
      peer.sent(64);
      ASSERT_TRUE(speaks(heard, seconds(60)));
      ASSERT_EQ(::recv(heard.get(), peer.room().data(), 64, 0), 64);
      peer.received(64);
      ASSERT_EQ(peer.state(), Authentication::State::Proven);
      said.insert(said.end(), peer.to_send().begin(), peer.to_send().end());

      const FileDescriptor again = stranger_at(there);
      ASSERT_EQ(::send(again.get(), said.data(), said.size(), MSG_NOSIGNAL), 96);
      Bytes reply(100);
      ASSERT_TRUE(speaks(again, seconds(60)));
      EXPECT_EQ(::recv(again.get(), reply.data(), reply.size(), 0), 64);
      ASSERT_TRUE(speaks(again, seconds(4)));
      EXPECT_LE(::recv(again.get(), reply.data(), reply.size(), 0), 0) << "its number was used before";
    }
    static_cast<void>(exchange.all_gather({}));
  });
}

}  // namespace
}  // namespace sinew::test

// What a store says to those who do not know the job's secret, or do not keep to the protocol.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/listening_port.hpp>

#include "served_store.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;

TEST_F(ServedStore, Stranger_LearnsNothingAndEndsNothing) {
  const auto a = served.handle(0, 1);
  a->set("secret thing", bytes_of("x"));
  EXPECT_EQ(talk(served.address, Bytes(1, std::byte(0xff))), 0u);
  EXPECT_EQ(talk(served.address, Bytes(64, std::byte(0))), 0u);
  EXPECT_EQ(
      talk(served.address, bytes_of("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody with more to say\r\n\r\n")), 0u);
  EXPECT_EQ(talk(served.address, Bytes(1 << 20, std::byte(0xff))), 0u);
  EXPECT_EQ(a->get("secret thing"), bytes_of("x"));
}

FileDescriptor stranger_at(const SocketAddress& address) {
  auto [socket, error] = try_connect({address}, Deadline::after(kLong));
  EXPECT_EQ(error, 0);
  return std::move(socket);
}

/// So long until the other end has closed.
Duration time_to_close(const FileDescriptor& socket) {
  const auto start = Clock::now();
  pollfd closed{socket.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&closed, 1, 60000), 1);
  return Clock::now() - start;
}

TEST_F(ServedStore, SilentStranger_HasItsTime_AndNoMore) {
  const FileDescriptor silent = stranger_at(served.address);
  const Duration time = time_to_close(silent);
  EXPECT_GT(time, UnauthenticatedLimits::kAtMost - 500ms);
  EXPECT_LT(time, UnauthenticatedLimits::kAtMost + 5s);
}

TEST_F(ServedStore, SlowStrangersWhoTakeAllPlaces_GiveWayToAPeer_TheOldestFirst) {
  std::vector<FileDescriptor> slow;
  for (std::size_t i = 0; i < 3 * UnauthenticatedLimits::kPlaces; ++i) {
    slow.push_back(stranger_at(served.address));
    EXPECT_EQ(::send(slow.back().get(), "sinew", 5, MSG_NOSIGNAL), 5);  // half a hello
  }
  const auto start = Clock::now();
  const auto a = served.handle(0, 1);
  a->set("k", bytes_of("v"));
  EXPECT_LT(Clock::now() - start, UnauthenticatedLimits::kAtMost) << "it waited for the strangers' whole time";
  pollfd first{slow.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&first, 1, 0), 1) << "the oldest was not dropped";
  EXPECT_EQ(a->get("k"), bytes_of("v"));
}

TEST_F(ServedStore, ReplayedHandshake_IsRefused) {
  // What a peer has said in a handshake that was heard: its hello and its proof.
  Authentication peer =
      Authentication::connector(served.secret, AuthClaim{.service = kStoreService, .instance = served.instance});
  const Bytes hello(peer.to_send().begin(), peer.to_send().end());
  Bytes proof;
  {
    const FileDescriptor heard = stranger_at(served.address);
    ASSERT_EQ(::send(heard.get(), hello.data(), hello.size(), MSG_NOSIGNAL), 64);
    peer.sent(hello.size());
    pollfd reply{heard.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&reply, 1, 60000), 1);
    ASSERT_EQ(::recv(heard.get(), peer.room().data(), peer.room().size(), MSG_WAITALL), 64);
    peer.received(64);
    ASSERT_EQ(peer.state(), Authentication::State::Proven);
    proof.assign(peer.to_send().begin(), peer.to_send().end());
  }
  Bytes again = hello;
  again.insert(again.end(), proof.begin(), proof.end());
  again.resize(again.size() + 100);  // and a request
  EXPECT_EQ(talk(served.address, again), 64u) << "only the reply to the hello, with a number of its own";
}

TEST(WhoServes, Nobody_OnlyWhereNobodyListens) {
  const SocketAddress place = SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()));
  EXPECT_EQ(StoreClient::who_serves(place, Deadline::after(kLong)).has_value(), false);
  const Listener listener = listen_on(place);
  const Error silent = error_of([&] { (void)StoreClient::who_serves(place, Deadline::after(50ms)); });
  EXPECT_EQ(silent.code(), Code::Timeout) << silent.what();
  ASSERT_EQ(::listen(listener.socket.get(), 0), 0);  // one that waits is as many as may
  const Error crowded = error_of([&] { (void)StoreClient::who_serves(place, Deadline::after(50ms)); });
  EXPECT_EQ(crowded.code(), Code::Timeout) << crowded.what();
}

TEST(WhoServes, WaitsForWhoeverIsBusy) {
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  const SocketAddress place = listener.address;
  EventLoop loop;
  StoreServer server(loop, {.secret = random_secret(), .host = StoreHost::Launcher});
  server.listen(std::move(listener));
  std::thread busy([&] {
    std::this_thread::sleep_for(100ms);
    loop.run_once(Deadline::after(kLong));
  });
  const auto owner = StoreClient::who_serves(place, Deadline::after(kLong));
  busy.join();
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->host, StoreHost::Launcher);
}

TEST_F(ServedStore, MisbehavingClientOfTheSameUser_IsCutOff_AndOthersGoOn) {
  const auto a = local.handle(0, 1);
  for (const Bytes& bytes : misbehaviours()) {
    talk(local.address, bytes);
    a->set("k", bytes_of("v"));
    EXPECT_EQ(a->get("k"), bytes_of("v"));
  }
}

}  // namespace
}  // namespace sinew::test

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/net/secret.hpp>
#include <sinew/tools/info/doctor/links/link_probe.hpp>
#include <sinew/tools/info/doctor/links/link_server.hpp>
#include <sinew/tools/info/doctor/links/timed_socket.hpp>
#include <sinew/tools/info/doctor/records/peer_memory.hpp>
#include <support/authenticate.hpp>

namespace sinew::doctor {
namespace {

using namespace std::chrono_literals;

/// From one loopback address to another.
Link loopback() {
  const auto at = [](const char* text) { return HostAddress{SocketAddress::parse(text), 8, "lo", 65536, true, true}; };
  return {at("127.0.0.5:0"), at("127.0.0.1:0")};
}

TEST(DoctorProbe, MeasuresALinkThatCarries) {
  const Bytes secret = random_secret();
  const LinkServer server(secret, std::nullopt);
  const LinkResult r = probe_link(loopback(), {server.port(), server.claim(), secret});
  EXPECT_EQ(r.state, LinkState::Carries) << r.why;
  EXPECT_GT(r.bytes_per_s, 1e6);
  EXPECT_GT(r.round_trip_s, 0);
  EXPECT_LT(r.round_trip_s, 1);
}

TEST(DoctorProbe, FindsNobodyOfTheJob_WhereSecretOrProcessIsAnother) {
  const Bytes secret = random_secret();
  const LinkServer server(secret, std::nullopt);
  const LinkResult other_secret = probe_link(loopback(), {server.port(), server.claim(), random_secret()});
  EXPECT_EQ(other_secret.state, LinkState::Unreachable);
  EXPECT_EQ(other_secret.error, 0) << "it was no matter of connecting";
  AuthClaim other = server.claim();
  ++other.instance;
  EXPECT_EQ(probe_link(loopback(), {server.port(), other, secret}).state, LinkState::Unreachable);
  EXPECT_EQ(probe_link(loopback(), {server.port(), server.claim(), secret}).state, LinkState::Carries)
      << "the server goes on";
}

TEST(DoctorProbe, SaysWhyThereIsNoConnection) {
  const Listener bound = listen_on(SocketAddress::parse("127.0.0.1:0"));
  const std::uint16_t port = bound.address.port();
  const LinkTarget target{port, {}, random_secret()};
  ASSERT_EQ(::shutdown(bound.socket.get(), SHUT_RDWR), 0);
  const LinkResult refused = probe_link(loopback(), target);
  EXPECT_EQ(refused.state, LinkState::Unreachable);
  EXPECT_EQ(refused.error, ECONNREFUSED);
  Link foreign = loopback();
  foreign.from.address = SocketAddress::parse("203.0.113.9:0");
  EXPECT_EQ(probe_link(foreign, target).error, EADDRNOTAVAIL);
}

TEST(DoctorProbe, EndsInTime_WhereTheOtherSideIsSilent) {
  const Listener silent = listen_on(SocketAddress::parse("127.0.0.1:0"));  // the kernel accepts, nobody answers
  const auto start = Clock::now();
  const LinkResult r = probe_link(loopback(), {silent.address.port(), {}, random_secret()});
  EXPECT_EQ(r.state, LinkState::Unreachable);
  EXPECT_THAT(r.why, testing::HasSubstr("no answer in time"));
  EXPECT_LT(Clock::now() - start, 20s);
}

/// Answers requests of no bytes, until there is another: what a path that loses full packets looks like from afar.
void answer_short_requests(FileDescriptor accepted, const Bytes& secret, const AuthClaim& claim) {
  Socket authenticated(std::move(accepted), Socket::End::Accepts, nullptr);
  test::authenticate(authenticated, Authentication::acceptor(secret, claim), Deadline::after(10s));
  TimedSocket socket(std::move(authenticated));
  try {
    for (bool lost = false;;) {
      std::uint64_t bytes = 0;
      socket.receive(std::as_writable_bytes(std::span(&bytes, 1)), Deadline::after(10s));
      lost = lost || bytes != 0;
      const std::byte answer{};
      if (!lost) socket.send(std::span(&answer, 1), Deadline::after(10s));
    }
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::PeerLost) << e.what();  // it has given up
  }
}

TEST(DoctorProbe, FindsThatOnlyShortMessagesPass) {
  const Bytes secret = random_secret();
  const Listener listener = listen_on(SocketAddress::parse("127.0.0.1:0"));
  const AuthClaim claim{.service = 7, .instance = 7};
  int guests = 0;
  std::thread server([&] {
    pollfd wait{listener.socket.get(), POLLIN, 0};
    while (::poll(&wait, 1, -1) > 0) {
      FileDescriptor guest(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!guest) return;  // shut down
      ++guests;
      answer_short_requests(std::move(guest), secret, claim);
    }
  });
  Link link = loopback();
  link.from.mtu_bytes = 1400;
  const LinkResult r = probe_link(link, {listener.address.port(), claim, secret});
  EXPECT_EQ(::shutdown(listener.socket.get(), SHUT_RDWR), 0);
  server.join();
  EXPECT_EQ(r.state, LinkState::SmallOnly);
  EXPECT_GT(r.round_trip_s, 0);
  EXPECT_EQ(r.passing_bytes, 0u) << "shorter packets did not help";
  EXPECT_EQ(guests, 2) << "again with packets of 576, and no longer ones where these are lost";
}

TEST(DoctorServer, ServesProbes_WhileStrangersHangOn) {
  const Bytes secret = random_secret();
  std::vector<FileDescriptor> strangers;
  const LinkServer server(secret, std::nullopt);
  const SocketAddress there = SocketAddress::parse("127.0.0.1:0").with_port(server.port());
  for (int i = 0; i < 8; ++i) strangers.push_back(try_connect({there}, Deadline::after(5s)).first);
  const std::string noise(100, 'x');
  EXPECT_EQ(::send(strangers[0].get(), noise.data(), noise.size(), MSG_NOSIGNAL), 100);
  EXPECT_EQ(probe_link(loopback(), {server.port(), server.claim(), secret}).state, LinkState::Carries);
}

TEST(DoctorPeerMemory, IsReadWhereTheWordIsWhatItShouldBe) {
  PeerMemory memory = own_memory();
  const std::string readable = try_to_read(memory);
  if (!readable.empty()) GTEST_SKIP() << readable;
  ++memory.content;
  EXPECT_THAT(try_to_read(memory), testing::HasSubstr("separate process-id namespaces"));
  memory.process = 0x7fffffff;
  EXPECT_THAT(try_to_read(memory), testing::HasSubstr("process_vm_readv from process 2147483647: No such process"));
}

}  // namespace
}  // namespace sinew::doctor

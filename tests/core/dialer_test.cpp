#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/secret.hpp>
#include <support/authenticate.hpp>

namespace sinew {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kTaken = std::byte{'A'};
const AuthClaim kClaim{.service = 0x6c616964, .from_rank = 1, .to_rank = 0, .instance = 7};
const Bytes kSecret(32, std::byte{3});

Listener here() { return listen_on(SocketAddress::parse("127.0.0.1:0")); }

FileDescriptor accepted(const Listener& listener) {
  const Deadline end = Deadline::after(seconds(30));
  while (!end.passed()) {
    FileDescriptor socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) return socket;
    std::this_thread::sleep_for(milliseconds(1));
  }
  ADD_FAILURE() << "nobody has connected";
  return {};
}

/// Makes one attempt and returns its failure.
Dialer::Failure failure_of(Dialer::Options options) {
  Dialer::Failure found;
  try {
    static_cast<void>(dial(std::move(options), [&](const Dialer::Failure& f) {
      found = f;
      return Dialer::Next{.end = Status(Code::PeerLost, f.text, 5)};
    }));
    ADD_FAILURE() << "connected";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::PeerLost);
    EXPECT_EQ(e.rank(), 5);
    EXPECT_EQ(e.what(), found.text);
  }
  return found;
}

TEST(Dialer, TriesTheNextPath_AfterItsPause) {
  const SocketAddress closed = here().address;
  const Listener open = here();
  const auto start = Clock::now();
  std::vector<std::size_t> failed;
  std::thread server([&] {
    Socket socket(accepted(open), Socket::End::Accepts, nullptr);
    test::authenticate(socket, Authentication::acceptor(kSecret, kClaim), Deadline::after(seconds(30)));
  });
  const auto [socket, path] =
      dial({.paths = {{closed}, {closed}, {open.address}}, .keys = {kSecret, nullptr}, .claim = kClaim},
           [&](const Dialer::Failure& f) {
             failed.push_back(f.path);
             EXPECT_EQ(f.error, ECONNREFUSED);
             EXPECT_EQ(f.stage, Dialer::Stage::Connecting);
             return Dialer::Next{.path = f.path + 1, .pause = milliseconds(30)};
           });
  server.join();
  EXPECT_EQ(path, 2U);
  EXPECT_EQ(failed, (std::vector<std::size_t>{0, 1}));
  EXPECT_GE(Clock::now() - start, milliseconds(60));
  EXPECT_EQ(peer_address(socket.get()).text(), open.address.text());
}

TEST(Dialer, SaysWhichListenerKnowsAnotherSecret) {
  const Listener open = here();
  std::thread server([&] {
    Socket socket(accepted(open), Socket::End::Accepts, nullptr);
    EXPECT_THROW(test::authenticate(socket, Authentication::acceptor(Bytes(32, std::byte{9}), kClaim),
                                    Deadline::after(seconds(30))),
                 std::runtime_error);
  });
  const Dialer::Failure f = failure_of({.paths = {{open.address}}, .keys = {kSecret, nullptr}, .claim = kClaim});
  server.join();
  EXPECT_EQ(f.stage, Dialer::Stage::Authenticating);
  EXPECT_EQ(f.text.find(open.address.text() + ": the listener does not know the job's secret"), 0U) << f.text;
  EXPECT_FALSE(f.is_of_job);
}

TEST(Dialer, EndsAnAttempt_WhereNobodyAnswersInTime) {
  const Listener silent = here();  // the kernel accepts connections, nobody answers
  const auto start = Clock::now();
  const Dialer::Failure f = failure_of({.paths = {{silent.address}},
                                        .keys = {kSecret, nullptr},
                                        .claim = kClaim,
                                        .authenticate_within = milliseconds(200)});
  EXPECT_EQ(f.stage, Dialer::Stage::Authenticating);
  EXPECT_EQ(f.error, ETIMEDOUT);
  EXPECT_GE(Clock::now() - start, milliseconds(200));
}

TEST(Dialer, SaysThatTheOtherSideHasClosed) {
  const Listener closes = here();
  std::thread server([&] { accepted(closes); });
  const Dialer::Failure f = failure_of({.paths = {{closes.address}}, .keys = {kSecret, nullptr}, .claim = kClaim});
  server.join();
  EXPECT_EQ(f.stage, Dialer::Stage::Authenticating);
  EXPECT_TRUE(f.error == 0 || f.error == ECONNRESET) << f.text;  // the hello may have come before it closed
}

TEST(Dialer, HandsOverOnlyWhatTheServiceConsentsTo) {
  const Listener open = here();
  for (const std::byte answer : {std::byte{'M'}, kTaken}) {
    std::thread server([&] {
      Socket socket(accepted(open), Socket::End::Accepts, nullptr);
      test::authenticate(socket, Authentication::acceptor(kSecret, kClaim), Deadline::after(seconds(30)));
      EXPECT_EQ(socket.send(std::span(&answer, 1)), 1);
    });
    std::optional<std::byte> refused;
    bool connected = false;
    try {
      static_cast<void>(
          dial({.paths = {{open.address}}, .keys = {kSecret, nullptr}, .claim = kClaim, .consent = kTaken},
               [&](const Dialer::Failure& f) {
                 refused = f.consent;
                 EXPECT_TRUE(f.is_of_job);
                 return Dialer::Next{.end = Status(Code::PeerLost, f.text)};
               }));
      connected = true;
    } catch (const Error&) {
    }
    server.join();
    EXPECT_EQ(connected, answer == kTaken);
    if (!connected) {
      EXPECT_EQ(refused, answer);
    }
  }
}

/// The service cannot take the connection before this side sends its proof, and the dialler's owner may forbid that.
TEST(Dialer, GivesNoProof_WhereItsOwnerForbidsIt) {
  const Listener open = here();
  std::thread server([&] {
    Socket socket(accepted(open), Socket::End::Accepts, nullptr);
    EXPECT_THROW(test::authenticate(socket, Authentication::acceptor(kSecret, kClaim), Deadline::after(seconds(30))),
                 std::runtime_error);
  });
  EventLoop loop;
  bool ended = false;
  Dialer dialer(loop, {.paths = {{open.address}}, .keys = {kSecret, nullptr}, .claim = kClaim},
                {.connected = [](Socket, std::size_t) { ADD_FAILURE() << "connected"; },
                 .ended = [&](const Status&) { ended = true; },
                 .failed =
                     [](const Dialer::Failure& f) {
                       EXPECT_EQ(f.stage, Dialer::Stage::Authenticating);
                       return Dialer::Next{.end = Status(Code::Cancelled, f.text)};
                     },
                 .may_prove = [] { return false; }});
  dialer.start();
  const Deadline end = Deadline::after(seconds(30));
  while (!ended && !end.passed()) loop.run_once(Deadline::after(milliseconds(100)));
  server.join();
  EXPECT_TRUE(ended);
}

TEST(Dialer, ConnectsToAUnixSocket_WithoutAuthentication) {
  const Listener listener = listen_on(SocketAddress::abstract("sinew-dialer-test-" + std::to_string(random_id())));
  const auto [socket, path] = dial({.paths = {{listener.address}}}, [](const Dialer::Failure& f) {
    return Dialer::Next{.end = Status(Code::PeerLost, f.text)};
  });
  EXPECT_EQ(path, 0U);
  EXPECT_TRUE(accepted(listener));
}

TEST(Dialer, MayEndBeforeItHasConnected) {
  const Listener silent = here();
  EventLoop loop;
  {
    Dialer dialer(loop, {.paths = {{silent.address}}, .keys = {kSecret, nullptr}, .claim = kClaim},
                  {.connected = [](Socket, std::size_t) { ADD_FAILURE() << "connected"; },
                   .ended = [](const Status&) { ADD_FAILURE() << "ended"; },
                   .failed = [](const Dialer::Failure& f) { return Dialer::Next{.path = f.path}; }});
    dialer.start();
    for (int i = 0; i < 5; ++i) loop.run_once(Deadline::after(milliseconds(10)));
  }
  for (int i = 0; i < 5; ++i) loop.run_once(Deadline::after(milliseconds(10)));
}

}  // namespace
}  // namespace sinew

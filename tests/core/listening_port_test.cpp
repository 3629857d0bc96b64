#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/secret.hpp>
#include <support/certificates.hpp>
#include <support/scratch_folder.hpp>

namespace sinew {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kService = 0x74736574;  // "test"

SocketAddress loopback(const ListeningPort& port) {
  return SocketAddress::parse("127.0.0.1:0").with_port(port.number());
}

/// Makes one attempt to connect. Errors: Error if this fails.
Socket connect(const SocketAddress& to, const Keys& keys, const AuthClaim& claim) {
  return dial({.paths = {{to}}, .keys = keys, .claim = claim},
              [](const Dialer::Failure& f) { return Dialer::Next{.end = Status(Code::PeerLost, f.text)}; })
      .first;
}

Socket connect(const ListeningPort& port, const Bytes& secret, const AuthClaim& claim) {
  return connect(loopback(port), {secret, nullptr}, claim);
}

std::string refusal(const ListeningPort& port, const Bytes& secret, const AuthClaim& claim) {
  try {
    static_cast<void>(connect(port, secret, claim));
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

/// The claims of the connections that a service has been given.
class Taken {
 public:
  ListeningPort::Take take() {
    return [this](const AuthClaim& claim, Socket socket) {
      const std::scoped_lock lock(mutex_);
      claims_.push_back(claim);
      sockets_.push_back(std::move(socket));
    };
  }
  std::size_t count() const {
    const std::scoped_lock lock(mutex_);
    return claims_.size();
  }
  bool comes_to(std::size_t count) const {
    const Deadline end = Deadline::after(seconds(30));
    while (this->count() < count && !end.passed()) std::this_thread::sleep_for(milliseconds(1));
    return this->count() == count;
  }
  std::vector<AuthClaim> claims() const {
    const std::scoped_lock lock(mutex_);
    return claims_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<AuthClaim> claims_;
  std::vector<Socket> sockets_;
};

/// Passes the bytes of one connection on to a port: one byte at a time to the port, and whole pieces back.
class SlowRelay {
 public:
  explicit SlowRelay(const SocketAddress& to) : thread_([this, to] { run(to); }) {}
  ~SlowRelay() {
    stop_ = true;
    thread_.join();
  }
  SocketAddress address() const { return SocketAddress::parse("127.0.0.1:0").with_port(listener_.address.port()); }

 private:
  void run(const SocketAddress& to) {
    FileDescriptor peer;
    while (!peer && !stop_) {
      peer = FileDescriptor(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      std::this_thread::sleep_for(milliseconds(1));
    }
    const auto [port, error] = try_connect({to}, Deadline::after(seconds(30)));
    while (!stop_ && error == 0) {
      std::array<std::byte, 4096> bytes{};
      for (ssize_t n = ::recv(peer.get(), bytes.data(), bytes.size(), 0), i = 0; i < n; ++i) {
        static_cast<void>(::send(port.get(), &bytes[static_cast<std::size_t>(i)], 1, MSG_NOSIGNAL));
        if (i % 64 == 0) std::this_thread::sleep_for(milliseconds(1));  // so that the port is woken in between
      }
      const ssize_t back = ::recv(port.get(), bytes.data(), bytes.size(), 0);
      if (back > 0) static_cast<void>(::send(peer.get(), bytes.data(), static_cast<std::size_t>(back), MSG_NOSIGNAL));
      if (back == 0) return;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::atomic<bool> stop_{false};
  Listener listener_ = listen_everywhere(0, std::nullopt);
  std::thread thread_;
};

TEST(ListeningPort, TakesAConnectionWhoseBytesComeOneByOne) {
  const test::ScratchFolder folder;
  const test::Authority authority(folder / "", "job");
  const TlsFiles files = authority.issue("rank");
  for (const TlsFiles& tls : {TlsFiles{}, files}) {
    const auto port = port_of_process({.tls = tls});
    const Bytes secret = random_secret();
    const AuthClaim claim{.service = kService, .to_rank = 0, .instance = 4};
    Taken taken;
    const auto service = port->serve(claim, secret, taken.take());
    const SlowRelay relay(loopback(*port));
    const Socket socket = connect(relay.address(), {secret, TlsContext::open(tls)}, claim);
    EXPECT_TRUE(taken.comes_to(1)) << (tls.wanted ? "under TLS" : "plain");
  }
}

/// The time until the port closes a connection whose other end has sent `bytes` and then ended.
Duration time_to_close(const ListeningPort& port, std::span<const std::byte> bytes) {
  const auto [socket, error] = try_connect({loopback(port)}, Deadline::after(seconds(30)));
  EXPECT_EQ(error, 0);
  const auto start = Clock::now();
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  ::shutdown(socket.get(), SHUT_WR);
  pollfd closed{.fd = socket.get(), .events = POLLIN, .revents = 0};
  ::poll(&closed, 1, 60'000);
  return Clock::now() - start;
}

TEST(ListeningPort, DropsAConnectionAtOnce_ThatEndsWithinItsFirstMessage) {
  const test::ScratchFolder folder;
  const test::Authority authority(folder / "", "job");
  Bytes record(70, std::byte{1});  // the begin of a TLS record of 512 bytes
  const std::array<unsigned char, 5> header{22, 3, 1, 2, 0};
  std::ranges::transform(header, record.begin(), [](unsigned char c) { return std::byte{c}; });
  for (const TlsFiles& tls : {TlsFiles{}, authority.issue("rank")}) {
    const auto port = port_of_process({.tls = tls});
    Taken taken;
    const auto service = port->serve({.service = kService, .to_rank = 0, .instance = 5}, random_secret(), taken.take());
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{63}, record.size()}) {
      EXPECT_LT(time_to_close(*port, std::span(record).first(bytes)), UnauthenticatedLimits::kAtMost / 2) << bytes;
    }
  }
}

TEST(ListeningPort, GivesEachConnectionToTheServiceOfItsClaim) {
  const auto port = port_of_process({});
  const Bytes one = random_secret();
  const Bytes two = random_secret();
  Taken first, second;
  const auto a = port->serve({.service = kService, .to_rank = 0, .instance = 1}, one, first.take());
  const auto b = port->serve({.service = kService, .to_rank = 0, .instance = 2}, two, second.take());
  const AuthClaim to_first{.service = kService, .from_rank = 7, .to_rank = 0, .channel = 3, .instance = 1};
  AuthClaim to_second = to_first;
  to_second.instance = 2;
  const Socket s1 = connect(*port, one, to_first);
  const Socket s2 = connect(*port, two, to_second);
  EXPECT_TRUE(first.comes_to(1));
  EXPECT_TRUE(second.comes_to(1));
  EXPECT_EQ(first.claims(), std::vector{to_first});
  EXPECT_EQ(second.claims(), std::vector{to_second});
}

TEST(ListeningPort, RefusesAnUnknownService_LikeAWrongSecret) {
  const auto port = port_of_process({});
  const Bytes secret = random_secret();
  Taken taken;
  const auto service = port->serve({.service = kService, .to_rank = 0, .instance = 1}, secret, taken.take());
  const std::string wrong = refusal(*port, random_secret(), {.service = kService, .to_rank = 0, .instance = 1});
  EXPECT_NE(wrong.find("does not know the job's secret"), std::string::npos) << wrong;
  EXPECT_EQ(refusal(*port, secret, {.service = kService, .to_rank = 0, .instance = 2}), wrong);
  EXPECT_EQ(refusal(*port, secret, {.service = kService, .to_rank = 1, .instance = 1}), wrong);
  EXPECT_EQ(refusal(*port, secret, {.service = kService + 1, .to_rank = 0, .instance = 1}), wrong);
  EXPECT_EQ(taken.count(), 0U);
}

/// A peer that knows the port's number may connect before the service has begun.
TEST(ListeningPort, LetsConnectionsWait_UntilTheFirstServiceHasBegun) {
  EventLoop loop;
  ListeningPort port(loop, listen_on(SocketAddress::parse("127.0.0.1:0")), nullptr);
  const Bytes secret = random_secret();
  const AuthClaim claim{.service = kService, .to_rank = 0, .instance = 1};
  std::atomic<bool> is_over{false};
  std::string answer;
  std::thread early([&] {
    answer = refusal(port, secret, claim);
    is_over = true;
  });
  const auto until = Deadline::after(milliseconds(300));
  while (!until.passed()) loop.run_once(Deadline::after(milliseconds(10)));
  EXPECT_FALSE(is_over);
  Taken taken;
  const auto service = port.serve(claim, secret, taken.take());
  const auto end = Deadline::after(seconds(30));
  while (!is_over && !end.passed()) loop.run_once(Deadline::after(milliseconds(10)));
  early.join();
  EXPECT_EQ(answer, "taken");
}

TEST(ListeningPort, IsOneForAllSettingsThatItSuits) {
  const auto port = port_of_process({});
  EXPECT_EQ(port_of_process({}), port);
  const std::uint16_t n = port->number();
  EXPECT_EQ(port_of_process({.number = n}), port);
  EXPECT_EQ(port_of_process({.range = std::pair(n, n)}), port);
  const auto next = static_cast<std::uint16_t>(n + 1);
  try {
    EXPECT_NE(port_of_process({.range = std::pair(next, static_cast<std::uint16_t>(n + 99))}), port);
  } catch (const Error&) {  // all ports of the range are in use
  }
}

TEST(ListeningPort, RejectsASecondServiceOfOneClaim_AndAnEmptySecret) {
  const auto port = port_of_process({});
  const AuthClaim claim{.service = kService, .to_rank = 0, .instance = 1};
  const auto ignore = [](const AuthClaim&, Socket) {};
  {
    const auto service = port->serve(claim, random_secret(), ignore);
    EXPECT_THROW(static_cast<void>(port->serve(claim, random_secret(), ignore)), Error);
  }
  const auto again = port->serve(claim, random_secret(), ignore);
  EXPECT_THROW(static_cast<void>(port->serve({.service = kService, .to_rank = 9}, {}, ignore)), Error);
}

/// Four Worlds have a secret and two ranks each in this process. One World ends while peers connect to all of them.
TEST(ListeningPort, FourWorldsWithEightRanks_OneEndsWhileOthersConnect) {
  constexpr int kWorlds = 4;
  constexpr int kRanks = 2;
  constexpr int kConnections = 40;
  struct Rank {
    AuthClaim claim;
    Taken taken;
    std::shared_ptr<ListeningPort> port;
    ListeningPort::Service service;
  };
  std::vector<Bytes> secrets;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int w = 0; w < kWorlds; ++w) {
    secrets.push_back(random_secret());
    for (int r = 0; r < kRanks; ++r) {
      auto rank = std::make_unique<Rank>();
      rank->claim = {.service = kService, .to_rank = r, .instance = random_id()};
      rank->port = port_of_process({});
      rank->service = rank->port->serve(rank->claim, secrets.back(), rank->taken.take());
      ranks.push_back(std::move(rank));
    }
  }
  std::atomic<int> refused_of_last{0};
  std::atomic<int> failed{0};
  std::atomic<bool> ends{false};
  const auto connect_to = [&](int w, int r) {
    const Rank& to = *ranks[static_cast<std::size_t>(w * kRanks + r)];
    const auto port = port_of_process({});
    for (int i = 0; i < kConnections; ++i) {
      const bool last = w == kWorlds - 1;
      if (last && i == kConnections / 4) ends = true;
      const std::string answer = refusal(*port, secrets[static_cast<std::size_t>(w)], to.claim);
      if (answer == "taken") continue;
      ++(last ? refused_of_last : failed);
    }
  };
  std::vector<std::thread> peers;
  for (int w = 0; w < kWorlds; ++w) {
    for (int r = 0; r < kRanks; ++r) peers.emplace_back(connect_to, w, r);
  }
  while (!ends) std::this_thread::sleep_for(milliseconds(1));
  std::size_t taken_before_end = 0;
  for (int r = 0; r < kRanks; ++r) {
    Rank& rank = *ranks[static_cast<std::size_t>((kWorlds - 1) * kRanks + r)];
    rank.service = {};
    taken_before_end += rank.taken.count();
  }
  for (std::thread& p : peers) p.join();
  EXPECT_EQ(failed, 0) << "connections of Worlds that live";
  for (int i = 0; i < (kWorlds - 1) * kRanks; ++i) {
    EXPECT_TRUE(ranks[static_cast<std::size_t>(i)]->taken.comes_to(kConnections)) << "rank " << i;
  }
  std::size_t taken_of_last = 0;
  for (int r = 0; r < kRanks; ++r) {
    taken_of_last += ranks[static_cast<std::size_t>((kWorlds - 1) * kRanks + r)]->taken.count();
  }
  EXPECT_EQ(taken_of_last, taken_before_end) << "nothing is taken once the service has ended";
  EXPECT_GT(refused_of_last, 0);
}

/// A service may end itself while the port gives it a connection. The port then refuses later connections.
TEST(ListeningPort, ServiceMayEndItselfInItsCall) {
  const auto port = port_of_process({});
  const Bytes secret = random_secret();
  const AuthClaim claim{.service = kService, .to_rank = 0, .instance = 5};
  ListeningPort::Service service;
  std::atomic<int> taken{0};
  service = port->serve(claim, secret, [&](const AuthClaim&, Socket) {
    ++taken;
    service = {};
  });
  EXPECT_EQ(refusal(*port, secret, claim), "taken");
  const Deadline end = Deadline::after(seconds(30));
  while (taken == 0 && !end.passed()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_NE(refusal(*port, secret, claim), "taken");
  EXPECT_EQ(taken, 1);
}

}  // namespace
}  // namespace sinew

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/auth.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/memory_store.hpp>
#include <sinew/core/random.hpp>
#include <sinew/core/secret.hpp>
#include <sinew/core/store_client.hpp>
#include <sinew/core/store_server.hpp>
#include <sinew/core/strangers.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kLong = std::chrono::seconds(60);  // a hang, not a slow machine

Bytes bytes_of(std::string_view text) {
  const auto b = std::as_bytes(std::span(text));
  return {b.begin(), b.end()};
}

/// Runs `call` and gives the Error it ends with.
Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::Ok, "no error");
}

/// A store with as many handles as there are ranks: each what one process would hold.
struct StoreUnderTest {
  virtual ~StoreUnderTest() = default;
  virtual std::shared_ptr<Store> handle(int rank, int ranks) = 0;
};

struct InMemory final : StoreUnderTest {
  std::shared_ptr<Store> shared = std::make_shared<MemoryStore>(kLong);
  std::shared_ptr<Store> handle(int, int) override { return shared; }
};

struct Served final : StoreUnderTest {
  explicit Served(bool over_tcp) : tcp(over_tcp) {
    Listener listener = tcp ? listen_on(SocketAddress::parse("127.0.0.1:0"))
                            : listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
    address = listener.address;
    auto server = std::make_unique<StoreServer>(StoreServerOptions{.secret = secret});
    server->listen(std::move(listener));
    thread = std::make_unique<StoreServerThread>(std::move(server));
  }
  std::shared_ptr<Store> handle(int rank, int ranks) override {
    StoreClient::Options options;
    options.addresses = {address};
    if (tcp) options.secret = secret;
    options.group = fmt::format("world of {}", ranks);
    options.rank = rank;
    options.ranks = ranks;
    options.timeout = kLong;
    return std::make_shared<StoreClient>(options, Deadline::after(kLong));
  }
  bool tcp;
  Bytes secret = random_secret();
  SocketAddress address;
  std::unique_ptr<StoreServerThread> thread;
};

class AnyStore : public testing::TestWithParam<std::string> {
 protected:
  AnyStore() {
    if (GetParam() == "memory") {
      under_test = std::make_unique<InMemory>();
    } else {
      under_test = std::make_unique<Served>(GetParam() == "tcp");
    }
  }
  std::unique_ptr<StoreUnderTest> under_test;
};

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, testing::Values("memory", "unix", "tcp"),
                         [](const auto& store) { return store.param; });

TEST_P(AnyStore, Get_ReturnsWhatAnotherSet) {
  const auto a = under_test->handle(0, 2);
  const auto b = under_test->handle(1, 2);
  for (const std::size_t length : {0, 1, 1000, 3000000}) {
    const Bytes value(length, std::byte(7));
    a->set("key", value);
    EXPECT_EQ(b->get("key"), value);
  }
}

TEST_P(AnyStore, Get_WaitsUntilTheKeyIsSet) {
  const auto a = under_test->handle(0, 2);
  const auto b = under_test->handle(1, 2);
  Bytes got;
  std::thread waiter([&] { got = b->get("late"); });
  std::this_thread::sleep_for(20ms);
  a->set("late", bytes_of("here"));
  waiter.join();
  EXPECT_EQ(got, bytes_of("here"));
}

TEST_P(AnyStore, Get_TimesOutNamingTheKey) {
  const auto a = under_test->handle(0, 1);
  const Error e = error_of([&] { a->get("nobody/sets/this", Deadline::after(20ms)); });
  EXPECT_EQ(e.code(), Code::Timeout);
  EXPECT_THAT(e.what(), HasSubstr("nobody/sets/this"));
  a->set("still", bytes_of("usable"));
  EXPECT_EQ(a->get("still"), bytes_of("usable"));
}

TEST_P(AnyStore, Wait_ReturnsWhenAllKeysAreThere) {
  const auto a = under_test->handle(0, 2);
  const auto b = under_test->handle(1, 2);
  const std::vector<std::string> keys = {"x", "y", "z"};
  std::thread waiter([&] { b->wait(keys); });
  for (const std::string& k : keys) a->set(k, {});
  waiter.join();
  b->wait({});
  const std::vector<std::string> one_missing = {"x", "absent", "z"};
  const Error e = error_of([&] { b->wait(one_missing, Deadline::after(20ms)); });
  EXPECT_EQ(e.code(), Code::Timeout);
  EXPECT_THAT(e.what(), HasSubstr("'absent'"));
}

TEST_P(AnyStore, Add_CountsEveryCallOnce) {
  constexpr int kRanks = 4;
  constexpr int kCalls = 100;
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([this, r] {
      const auto store = under_test->handle(r, kRanks);
      for (int i = 0; i < kCalls; ++i) store->add("counter", r + 1);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(under_test->handle(0, 1)->add("counter", 0), kCalls * kRanks * (kRanks + 1) / 2);
}

TEST_P(AnyStore, Add_RefusesWhatIsNoCounter) {
  const auto a = under_test->handle(0, 1);
  a->set("text", bytes_of("abc"));
  EXPECT_EQ(error_of([&] { a->add("text", 1); }).code(), Code::InvalidArgument);
  EXPECT_EQ(a->get("text"), bytes_of("abc"));
}

TEST_P(AnyStore, CompareAndSet_ChangesOnlyWhatItExpects) {
  const auto a = under_test->handle(0, 1);
  const Bytes one = bytes_of("one");
  const Bytes two = bytes_of("two");
  EXPECT_FALSE(a->compare_and_set("k", one, two));
  EXPECT_TRUE(a->compare_and_set("k", std::nullopt, one));
  EXPECT_FALSE(a->compare_and_set("k", std::nullopt, two));
  EXPECT_TRUE(a->compare_and_set("k", one, two));
  EXPECT_EQ(a->get("k"), two);
  EXPECT_TRUE(a->erase("k"));
  EXPECT_FALSE(a->erase("k"));
  EXPECT_EQ(error_of([&] { a->get("k", Deadline::after(10ms)); }).code(), Code::Timeout);
}

TEST_P(AnyStore, AllGather_GivesEverybodyAllBytesByRank) {
  for (const int ranks : {1, 2, 7, 16}) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([this, r, ranks] {
        const auto store = under_test->handle(r, ranks);
        for (int round = 0; round < 5; ++round) {
          const Bytes mine(static_cast<std::size_t>(r * 1000), std::byte(round));
          const auto all = store->all_gather("round", r, ranks, mine);
          ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
          for (int p = 0; p < ranks; ++p) {
            EXPECT_EQ(all[static_cast<std::size_t>(p)], Bytes(static_cast<std::size_t>(p * 1000), std::byte(round)));
          }
        }
        store->all_gather("end", r, ranks, {});  // a rank that leaves early would be missed
      });
    }
    for (auto& t : threads) t.join();
  }
}

TEST_P(AnyStore, AllGather_TimesOutNamingTheRanksThatDidNotCome) {
  const auto a = under_test->handle(1, 4);
  const Error e = error_of([&] { a->all_gather("g", 1, 4, {}, Deadline::after(30ms)); });
  EXPECT_EQ(e.code(), Code::Timeout);
  EXPECT_THAT(e.what(), HasSubstr("ranks 0, 2, 3 of 4 did not come"));
}

class ServedStore : public testing::Test {
 protected:
  Served served{true};
  Served local{false};
};

TEST_F(ServedStore, Get_TimesOutNamingTheRanksThatNeverCame) {
  const auto a = local.handle(0, 3);
  const auto b = local.handle(2, 3);
  const Error e = error_of([&] { a->get("address/1", Deadline::after(20ms)); });
  EXPECT_THAT(e.what(), AllOf(HasSubstr("address/1"), HasSubstr("rank 1 of 3 never came")));
}

TEST_F(ServedStore, AllGather_EndsWithPeerLost_WhenARankLeaves) {
  const auto a = local.handle(0, 2);
  auto b = local.handle(1, 2);
  Error e(Code::Ok, "");
  std::thread waiter([&] { e = error_of([&] { a->all_gather("g", 0, 2, {}); }); });
  b.reset();
  waiter.join();
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_EQ(e.rank(), 1);
  EXPECT_THAT(e.what(), HasSubstr(fmt::format("pid {}", ::getpid())));
}

TEST_F(ServedStore, Client_IsRefused_WhenItsSecretDiffers) {
  StoreClient::Options options;
  options.addresses = {served.address};
  options.secret = random_secret();
  const Error e = error_of([&] { StoreClient(options, Deadline::after(kLong)); });
  EXPECT_EQ(e.code(), Code::Mismatch);
  EXPECT_THAT(e.what(), HasSubstr("SINEW_SECRET_FILE"));
}

TEST_F(ServedStore, Client_IsRefused_WhenAnotherHasItsRank) {
  const auto a = local.handle(1, 2);
  const Error e = error_of([&] { local.handle(1, 2); });
  EXPECT_EQ(e.code(), Code::Mismatch);
  EXPECT_THAT(e.what(), HasSubstr("two processes say that they are rank 1"));
}

TEST_F(ServedStore, AllGather_EndsWithMismatch_WhenRanksDisagreeOnTheirNumber) {
  const auto a = local.handle(0, 2);
  const auto b = local.handle(1, 3);  // another group of clients, the same round
  std::thread first([&] { error_of([&] { a->all_gather("g", 0, 2, {}, Deadline::after(200ms)); }); });
  std::this_thread::sleep_for(20ms);
  const Error e = error_of([&] { b->all_gather("g", 1, 3, {}, Deadline::after(200ms)); });
  first.join();
  EXPECT_EQ(e.code(), Code::Mismatch);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 1 says there are 3 ranks"), HasSubstr("others say 2")));
}

TEST(StoreServer, TurnsAwayARankThatWasToldAnotherNumber_AndTellsThoseWhoWaitForIt) {
  const SocketAddress address = SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()));
  auto server = std::make_unique<StoreServer>(StoreServerOptions{.secret = random_secret(), .ranks = 2});
  server->listen(listen_on(address));
  const StoreServerThread thread(std::move(server));
  StoreClient::Options options{.addresses = {address}, .group = "world", .rank = 0, .ranks = 2, .timeout = kLong};
  StoreClient first(options, Deadline::after(kLong));
  Error told(Code::Ok, "");
  std::thread waiter([&] { told = error_of([&] { first.all_gather("g", 0, 2, {}, Deadline::after(kLong)); }); });
  options.rank = 1;
  options.ranks = 3;
  const Error e = error_of([&] { StoreClient(options, Deadline::after(kLong)); });
  waiter.join();
  for (const Error& each : {e, told}) {
    EXPECT_EQ(each.code(), Code::Mismatch);
    EXPECT_THAT(each.what(), HasSubstr("was told that the job has 3 ranks, but it has 2"));
  }
}

TEST_F(ServedStore, Wait_EndsWithPeerLost_WhenTheServersOwnerSaysThatARankIsLost) {
  const auto a = local.handle(0, 2);
  std::thread owner([&] {
    std::this_thread::sleep_for(20ms);
    local.thread->lose(1, "rank 1 is dead");
  });
  const Error e = error_of([&] { a->all_gather("g", 0, 2, {}, Deadline::after(kLong)); });
  owner.join();
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_EQ(e.rank(), 1);
  EXPECT_THAT(e.what(), HasSubstr("rank 1 is dead"));
}

TEST_F(ServedStore, Client_GivesUp_WhenItsServerIsKnownToBeGone) {
  StoreClient::Options options;
  options.addresses = {SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()))};
  int asked = 0;
  options.may_come = [&] { return ++asked < 3; };
  const Error e = error_of([&] { StoreClient(options, Deadline::after(kLong)); });
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_EQ(asked, 3);
}

TEST_F(ServedStore, Client_TimesOut_WhenNobodyServes) {
  StoreClient::Options options;
  options.addresses = {SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()))};
  const Error e = error_of([&] { StoreClient(options, Deadline::after(30ms)); });
  EXPECT_EQ(e.code(), Code::Timeout);
  EXPECT_EQ(e.rank(), 0);
  EXPECT_THAT(e.what(), HasSubstr("sinew-test-"));
}

TEST_F(ServedStore, Client_EndsWithPeerLost_WhenTheServerIsGone) {
  const auto a = local.handle(0, 1);
  local.thread.reset();
  EXPECT_EQ(error_of([&] { a->get("k", Deadline::after(kLong)); }).code(), Code::PeerLost);
  EXPECT_EQ(error_of([&] { a->set("k", {}); }).code(), Code::PeerLost);
}

/// Sends raw bytes and reads until the server closes; how many bytes came back.
std::size_t talk(const SocketAddress& address, const Bytes& bytes) {
  auto [socket, error] = try_connect(address, Deadline::after(kLong));
  EXPECT_EQ(error, 0);
  ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(socket.get(), SHUT_WR);
  timeval limit{60, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::size_t total = 0;
  std::array<std::byte, 4096> in;  // not a page
  for (;;) {
    const ssize_t got = ::recv(socket.get(), in.data(), in.size(), 0);
    if (got > 0) total += static_cast<std::size_t>(got);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return total;
    std::this_thread::sleep_for(1ms);
  }
}

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
  auto [socket, error] = try_connect(address, Deadline::after(kLong));
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
  EXPECT_GT(time, Strangers::kAtMost - 500ms);
  EXPECT_LT(time, Strangers::kAtMost + 5s);
}

TEST_F(ServedStore, SlowStrangersWhoTakeAllPlaces_GiveWayToAPeer_TheOldestFirst) {
  std::vector<FileDescriptor> slow;
  for (std::size_t i = 0; i < 3 * Strangers::kPlaces; ++i) {
    slow.push_back(stranger_at(served.address));
    EXPECT_EQ(::send(slow.back().get(), "sinew", 5, MSG_NOSIGNAL), 5);  // half a hello
  }
  const auto start = Clock::now();
  const auto a = served.handle(0, 1);
  a->set("k", bytes_of("v"));
  EXPECT_LT(Clock::now() - start, Strangers::kAtMost) << "it waited for the strangers' whole time";
  pollfd first{slow.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&first, 1, 0), 1) << "the oldest was not dropped";
  EXPECT_EQ(a->get("k"), bytes_of("v"));
}

TEST_F(ServedStore, ReplayedHandshake_IsRefused) {
  // What a peer has said in a handshake that was heard: its hello and its proof.
  Authentication peer = Authentication::connector(served.secret, AuthClaim{.service = kStoreService});
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

TEST_F(ServedStore, MisbehavingClientOfTheSameUser_IsCutOff_AndOthersGoOn) {
  const auto a = local.handle(0, 1);
  Bytes huge(4, std::byte(0xff));       // announces 4 GiB
  const Bytes hollow(4, std::byte(0));  // an empty request
  Bytes no_hello = bytes_of("\x05");    // five bytes: Set before Hello
  no_hello.resize(9);
  no_hello[4] = std::byte(1);
  for (const Bytes& bytes : {huge, hollow, no_hello, Bytes(100000, std::byte(0x20))}) {
    talk(local.address, bytes);
    a->set("k", bytes_of("v"));
    EXPECT_EQ(a->get("k"), bytes_of("v"));
  }
}

TEST_F(ServedStore, Set_EndsWithPeerLost_WhenTheValueIsLongerThanTheServerTakes) {
  auto server = std::make_unique<StoreServer>(StoreServerOptions{.secret = random_secret(), .longest_request = 1000});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  StoreClient::Options options;
  options.addresses = {listener.address};
  server->listen(std::move(listener));
  const StoreServerThread thread(std::move(server));
  StoreClient client(options, Deadline::after(kLong));
  client.set("short", Bytes(500));
  EXPECT_EQ(error_of([&] { client.set("long", Bytes(2000)); }).code(), Code::PeerLost);
}

TEST_F(ServedStore, Welcome_SendsClientsElsewhere_WithTheSecret) {
  auto door = std::make_unique<StoreServer>(
      StoreServerOptions{.secret = served.secret, .host = StoreHost::Launcher, .elsewhere = served.address.text()});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  StoreClient::Options options;
  options.addresses = {listener.address};
  door->listen(std::move(listener));
  const StoreServerThread thread(std::move(door));
  StoreClient client(options, Deadline::after(kLong));
  served.handle(0, 1)->set("k", bytes_of("over tcp"));
  EXPECT_EQ(client.get("k"), bytes_of("over tcp"));
  EXPECT_EQ(client.server().host, StoreHost::Launcher);
  EXPECT_EQ(client.secret(), served.secret);
}

TEST_F(ServedStore, Lose_EndsRoundsThatNeedTheRank) {
  auto server = std::make_unique<StoreServer>(StoreServerOptions{.secret = random_secret(), .ranks = 2});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  StoreClient::Options options;
  options.addresses = {listener.address};
  options.rank = 0;
  options.ranks = 2;
  server->listen(std::move(listener));
  server->lose(1, "rank 1 was killed by SIGSEGV");
  const StoreServerThread thread(std::move(server));
  StoreClient client(options, Deadline::after(kLong));
  const Error e = error_of([&] { client.all_gather("g", 0, 2, {}); });
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_STREQ(e.what(), "rank 1 was killed by SIGSEGV");
}

}  // namespace
}  // namespace sinew

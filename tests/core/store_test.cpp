#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/store/memory_store.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/store/store_server.hpp>
#include <support/certificates.hpp>
#include <support/scratch_folder.hpp>

#include "served_store.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

struct InMemory final : StoreUnderTest {
  std::shared_ptr<Store> shared = std::make_shared<MemoryStore>(kLong);
  std::shared_ptr<Store> handle(int, int) override { return shared; }
};

class AnyStore : public testing::TestWithParam<std::string> {
 protected:
  AnyStore() {
    if (GetParam() == "memory") {
      under_test = std::make_unique<InMemory>();
    } else {
      const bool secured = GetParam() == "tls";
      const TlsFiles tls = secured ? Authority(folder / "", "job").issue("rank") : TlsFiles{};
      under_test = std::make_unique<Served>(GetParam() == "tcp" || secured, tls);
    }
  }
  ScratchFolder folder;
  std::unique_ptr<StoreUnderTest> under_test;
};

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, testing::Values("memory", "unix", "tcp", "tls"),
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

/// Ranks that wait for each other without the store, as for descriptors, ask it who will not come.
TEST_F(ServedStore, RollCall_NamesWhoLeftOrIsLost) {
  const auto client = [this](int rank) { return std::dynamic_pointer_cast<StoreClient>(local.handle(rank, 3)); };
  const auto first = client(0);
  client(1)->roll_call();
  const auto lost = [&] { return error_of([&] { first->roll_call(); }); };
  while (lost().code() == Code::Ok) std::this_thread::yield();  // a server sees a connection's end a little later
  EXPECT_EQ(lost().code(), Code::PeerLost);
  EXPECT_EQ(lost().rank(), 1);
  const auto again = client(1);
  first->roll_call();
  local.thread->lose(2, "rank 2 is dead");
  while (lost().code() == Code::Ok) std::this_thread::yield();
  EXPECT_THAT(lost().what(), HasSubstr("rank 2 is dead"));
}

/// Rank 1 leaves because rank 2 has: who asks later is told of the cause.
TEST_F(ServedStore, RollCall_NamesTheFirstWhoLeft) {
  const auto client = [this](int rank) { return std::dynamic_pointer_cast<StoreClient>(local.handle(rank, 3)); };
  const auto witness = client(0);
  auto second = client(1), third = client(2);
  const auto lost = [&] { return error_of([&] { witness->roll_call(); }); };
  third.reset();
  while (lost().code() == Code::Ok) std::this_thread::yield();
  second.reset();
  for (int i = 0; i < 200; ++i) {  // meanwhile the server sees the second one's end
    ASSERT_EQ(lost().rank(), 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// A store outlives many Worlds, and keeps nothing of those that are over.
TEST_F(ServedStore, RollCall_StartsAnew_WhenAllHaveLeft) {
  const auto client = [this](int rank) { return std::dynamic_pointer_cast<StoreClient>(local.handle(rank, 3)); };
  for (int rank = 0; rank < 3; ++rank) client(rank);
  Error e(Code::PeerLost, "not asked");
  const auto bound = Deadline::after(kLong);
  while (e.code() != Code::Ok && !bound.passed()) e = error_of([&] { client(0)->roll_call(); });
  EXPECT_EQ(e.code(), Code::Ok) << e.what();
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

TEST_F(ServedStore, Client_IsRefused_WhenItSaysThatThereAreBillionsOfRanks) {
  // The server would name all that did not come.
  EXPECT_EQ(error_of([&] { served.handle(0, 2'000'000'000); }).code(), Code::InvalidArgument);
  EXPECT_EQ(error_of([&] { served.handle(-1, -1); }).code(), Code::InvalidArgument);
  EXPECT_EQ(error_of([&] { served.handle(0, 1); }).code(), Code::Ok);
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
  StoreServerThread server(StoreServerOptions{.secret = random_secret(), .ranks = 2});
  server.listen(listen_on(address));
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

/// The next program of a task may come before rank 0 of the program before has ended.
TEST(StoreServer, LetsARankOfALaterStart_FindTheNextStore) {
  const SocketAddress address = SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()));
  const auto serve = [&] {
    auto server = std::make_unique<StoreServerThread>(StoreServerOptions{.secret = random_secret(), .ranks = 2});
    server->listen(listen_on(address));
    return server;
  };
  const auto options = [&](int rank) {
    return StoreClient::Options{.addresses = {address}, .group = "world", .rank = rank, .ranks = 2, .timeout = kLong};
  };
  const auto meet = [&](int rank) {
    StoreClient(options(rank), Deadline::after(kLong)).all_gather("start-up", rank, 2, {}, Deadline::after(kLong));
  };
  auto server = serve();
  std::thread other([&] { meet(1); });
  meet(0);
  other.join();
  const Error late = error_of([&] { StoreClient(options(1), Deadline::after(200ms)); });
  EXPECT_EQ(late.code(), Code::Timeout);
  EXPECT_THAT(late.what(), HasSubstr("the store there is of a job that has started already, on "));

  std::thread next([&] { meet(1); });
  std::this_thread::sleep_for(200ms);
  server.reset();
  server = serve();
  meet(0);
  next.join();
}

/// A launcher serves one store to all programs that its ranks run.
TEST(StoreServer, OfALauncher_LetsTheSameRanksMeetAgain) {
  const SocketAddress address = SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()));
  StoreServerThread server({.secret = random_secret(), .ranks = 2, .host = StoreHost::Launcher});
  server.listen(listen_on(address));
  const auto meet = [&](int rank) {
    const StoreClient::Options options{
        .addresses = {address}, .group = "world", .rank = rank, .ranks = 2, .timeout = kLong};
    StoreClient(options, Deadline::after(kLong)).all_gather("start-up", rank, 2, {}, Deadline::after(kLong));
  };
  for (int program = 0; program < 2; ++program) {
    std::thread other([&] { meet(1); });
    meet(0);
    other.join();
  }
}

TEST(StoreServer, TellsRanksThatComeLate_ThatAnotherWasRefused) {
  const SocketAddress address = SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id()));
  auto server = std::make_unique<StoreServerThread>(StoreServerOptions{.secret = random_secret(), .ranks = 3});
  server->listen(listen_on(address));
  StoreClient::Options options{.addresses = {address}, .group = "world", .rank = 2, .ranks = 4, .timeout = kLong};
  EXPECT_EQ(error_of([&] { StoreClient(options, Deadline::after(kLong)); }).code(), Code::Mismatch);
  options.ranks = 3;
  const auto told = [&](int rank) {
    options.rank = rank;
    StoreClient client(options, Deadline::after(kLong));
    return error_of([&] { client.all_gather("start-up", rank, 3, {}, Deadline::after(kLong)); });
  };
  EXPECT_EQ(told(0).code(), Code::Mismatch);
  std::thread end([&] { server.reset(); });  // as rank 0 ends with its error
  std::this_thread::sleep_for(100ms);
  const Error e = told(1);
  end.join();
  EXPECT_EQ(e.code(), Code::Mismatch);
  EXPECT_THAT(e.what(), HasSubstr("rank 2"));
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

TEST_F(ServedStore, Set_EndsWithPeerLost_WhenTheValueIsLongerThanTheServerTakes) {
  StoreServerThread server(StoreServerOptions{.secret = random_secret(), .longest_request = 1000});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  StoreClient::Options options;
  options.addresses = {listener.address};
  server.listen(std::move(listener));
  StoreClient client(options, Deadline::after(kLong));
  client.set("short", Bytes(500));
  EXPECT_EQ(error_of([&] { client.set("long", Bytes(2000)); }).code(), Code::PeerLost);
}

TEST_F(ServedStore, Welcome_SendsClientsElsewhere_WithTheSecret) {
  StoreServerThread door(
      StoreServerOptions{.secret = served.secret, .host = StoreHost::Launcher, .elsewhere = served.address.text()});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  StoreClient::Options options;
  options.addresses = {listener.address};
  options.instance = served.instance;
  door.listen(std::move(listener));
  StoreClient client(options, Deadline::after(kLong));
  served.handle(0, 1)->set("k", bytes_of("over tcp"));
  EXPECT_EQ(client.get("k"), bytes_of("over tcp"));
  EXPECT_EQ(client.server().host, StoreHost::Launcher);
  EXPECT_EQ(client.secret(), served.secret);
}

TEST_F(ServedStore, Lose_EndsRoundsThatNeedTheRank) {
  StoreServerThread server(StoreServerOptions{.secret = random_secret(), .ranks = 2});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  StoreClient::Options options;
  options.addresses = {listener.address};
  options.rank = 0;
  options.ranks = 2;
  server.listen(std::move(listener));
  server.lose(1, "rank 1 was killed by SIGSEGV");
  StoreClient client(options, Deadline::after(kLong));
  const Error e = error_of([&] { client.all_gather("g", 0, 2, {}); });
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_STREQ(e.what(), "rank 1 was killed by SIGSEGV");
}

}  // namespace
}  // namespace sinew::test

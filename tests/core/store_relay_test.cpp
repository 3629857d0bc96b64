#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/store/relay_clients.hpp>
#include <sinew/core/store/relay_search.hpp>
#include <sinew/core/store/relay_service.hpp>
#include <sinew/core/store/relay_tree.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/store/store_server.hpp>

#include "served_store.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(RelayTree, GivesEachParentItsChildren_BeforeALaterOneGetsAny) {
  RelayTree tree(2);
  std::vector<int> parents;
  for (int i = 0; i < 7; ++i) parents.push_back(tree.add().parent);
  EXPECT_THAT(parents, ElementsAre(0, 0, 1, 1, 2, 2, 3));
  EXPECT_EQ(tree.depth_of(7), 3);
}

TEST(RelayTree, LeavesOutAParentThatWasNotReached_AndNamesOnlyEarlierOnes) {
  RelayTree tree(2);
  for (int i = 0; i < 3; ++i) tree.add();
  const RelayTree::Place again = tree.add_again(3, 1);
  EXPECT_EQ(again.number, 3);
  EXPECT_EQ(again.parent, 2);
  EXPECT_EQ(tree.add().parent, 2);
  EXPECT_EQ(tree.add().parent, 3);
  const RelayTree::Place last = tree.add_again(3, 2);
  EXPECT_EQ(last.parent, 0) << "its own descendants cannot be its parents, so the server takes one more";
}

TEST(RelayTree, KeepsThePlaceOfARelayThatAsksAgain) {
  RelayTree tree(2);
  for (int i = 0; i < 3; ++i) tree.add();
  EXPECT_EQ(tree.add_again(3, -1).parent, 1);
  EXPECT_EQ(tree.add_again(3, 2).parent, 1) << "relay 2 is not its parent";
  EXPECT_EQ(tree.add_again(3, 1).parent, 2);
  EXPECT_EQ(tree.add_again(3, 1).parent, 2) << "the answer before was lost";
  EXPECT_EQ(tree.relays(), 3);
}

TEST(RelayTree, IsOfLogarithmicDepth_ForAnyNumberOfRelays) {
  RelayTree tree(16);
  for (int i = 0; i < 12'499; ++i) tree.add();
  EXPECT_EQ(tree.depth_of(12'499), 4) << "16 + 256 + 4096 relays are on three levels";
}

/// A client that keeps what it is sent.
struct Kept final : StoreSeat {
  void send(std::shared_ptr<const Bytes> frame) override { frames.push_back(std::move(frame)); }
  void close_after_flush() override { closed = true; }
  std::vector<std::shared_ptr<const Bytes>> frames;
  bool closed = false;
};

Bytes request(StoreOp op, const Bytes& fields) {
  return WireWriter().value(op).value(kWaitForever).rest(fields).take();
}
Bytes hello(int rank, int ranks) {
  return request(StoreOp::Hello, WireWriter().bytes(StoreIdentity{"w", rank, ranks, 1, "h"}.encode()).take());
}
Bytes gather() { return request(StoreOp::AllGather, WireWriter().text("name").bytes(Bytes{}).take()); }

/// A relay whose time stands still unless a test moves it, and a parent that counts batches.
struct StillRelay {
  explicit StillRelay(std::size_t longest_batch = kLongestBatch) : longest(longest_batch) {
    relay.lead_to([this](Bytes batch) { batches.push_back(std::move(batch)); });
  }
  /// Answers all clients with these numbers.
  void answer(const std::vector<std::uint32_t>& clients) {
    WireWriter batch;
    batch.value(static_cast<std::uint32_t>(clients.size()));
    for (const std::uint32_t c : clients) batch.value(c);
    relay.take(batch.value(RelayEvent::Message).bytes(Bytes(5)).take());
  }
  std::size_t longest;
  Clock::time_point now{};
  RelayService relay{[this] { return now; }, longest};
  std::vector<Bytes> batches;
};

TEST(RelayService, SendsOneBatch_WhenAllClientsThatItKnowsHaveComeToTheAllGather) {
  StillRelay r;
  Kept a;
  Kept b;
  r.relay.handle(a, hello(0, 2));
  r.relay.handle(b, hello(1, 2));
  EXPECT_EQ(r.relay.expire().at(), r.now + RelayService::kPause) << "further clients may come";
  EXPECT_TRUE(r.batches.empty());
  r.now += RelayService::kPause;
  r.relay.expire();
  EXPECT_EQ(r.batches.size(), 1u);
  r.answer({0, 1});
  EXPECT_EQ(a.frames.size(), 1u);
  EXPECT_EQ(a.frames.front(), b.frames.front()) << "both share one frame";
  for (std::size_t round = 2; round < 4; ++round) {
    r.relay.handle(a, gather());
    r.relay.expire();
    EXPECT_EQ(r.batches.size(), round - 1) << "the other client has not come";
    r.relay.handle(b, gather());
    r.relay.expire();
    EXPECT_EQ(r.batches.size(), round);
    r.answer({0, 1});
  }
}

TEST(RelayService, WaitsForAClientThatDoesNotCome_ForThePauseOnly) {
  StillRelay r;
  Kept a;
  Kept b;
  r.relay.handle(a, hello(0, 2));
  r.relay.handle(b, hello(1, 2));
  r.now += RelayService::kPause;
  r.relay.expire();
  r.answer({0, 1});
  r.relay.handle(a, gather());
  r.now += RelayService::kPause;
  r.relay.expire();
  EXPECT_EQ(r.batches.size(), 2u);
}

TEST(RelayService, PassesOtherRequestsOnAtOnce) {
  StillRelay r;
  Kept a;
  r.relay.handle(a, request(StoreOp::Get, WireWriter().text("key").take()));
  r.relay.expire();
  EXPECT_EQ(r.batches.size(), 1u);
}

TEST(RelayService, TellsItsClients_WhenItsParentIsGone) {
  StillRelay r;
  Kept a;
  r.relay.handle(a, hello(0, 2));
  r.relay.cut(Status(Code::PeerLost, "rank 3 is gone", 3));
  ASSERT_EQ(a.frames.size(), 1u);
  r.relay.handle(a, gather());
  ASSERT_EQ(a.frames.size(), 2u);
  WireReader reader(std::span(*a.frames.back()).subspan(FramedStream::kHeaderBytes));
  EXPECT_EQ(reader.value<Code>(), Code::PeerLost);
  EXPECT_EQ(reader.value<int>(), 3);
}

Code code_of(const Kept& client) {
  return WireReader(std::span(*client.frames.back()).subspan(FramedStream::kHeaderBytes)).value<Code>();
}

TEST(RelayService, TellsThoseWhoSayHello_ToLookForAnotherStore_WhenItsParentIsGone) {
  StillRelay r;
  Kept before;
  Kept after;
  r.relay.handle(before, hello(0, 2));
  r.relay.cut(Status(Code::PeerLost, "rank 3 is gone", 3));
  r.relay.handle(after, hello(1, 2));
  EXPECT_EQ(code_of(before), Code::Unavailable);
  EXPECT_EQ(code_of(after), Code::Unavailable);
}

TEST(RelayService, IsCutWithItsParent_ForTheReasonThatTheParentGives) {
  StillRelay r;
  RelayClients at_parent(r.relay, {.host = "h", .pid = 1});
  at_parent.tell_cut(Status(Code::PeerLost, "rank 3 is gone", 3));
  r.relay.take(at_parent.answers().front());
  ASSERT_TRUE(r.relay.cut_by());
  EXPECT_EQ(r.relay.cut_by()->message(), "rank 3 is gone");
  EXPECT_EQ(r.relay.cut_by()->rank(), 3);
}

TEST(RelayService, DisconnectsAClientThatDoesNotWaitForItsAnswer_AndNoOther) {
  StillRelay r;
  Kept hasty;
  Kept other;
  r.relay.handle(hasty, hello(0, 2));
  r.relay.handle(other, hello(1, 2));
  r.relay.handle(hasty, gather());
  EXPECT_TRUE(hasty.closed);
  r.now += RelayService::kPause;
  r.relay.expire();
  r.answer({0, 1});
  EXPECT_EQ(other.frames.size(), 1u);
  EXPECT_FALSE(other.closed);
  EXPECT_TRUE(hasty.frames.empty());
}

TEST(RelayService, SendsSeveralBatches_IfOneWouldBeTooLong) {
  StillRelay r(100);
  std::vector<std::unique_ptr<Kept>> clients;
  for (int i = 0; i < 5; ++i) r.relay.handle(*clients.emplace_back(std::make_unique<Kept>()), hello(i, 5));
  r.relay.expire();
  EXPECT_GT(r.batches.size(), 1u);
  std::size_t events = 0;
  for (const Bytes& batch : r.batches) {
    EXPECT_LE(batch.size(), 120u);
    for (WireReader reader(batch); reader.left() > 0; ++events) {
      EXPECT_EQ(reader.value<std::uint32_t>(), events);
      EXPECT_EQ(reader.value<RelayEvent>(), RelayEvent::Message);
      EXPECT_EQ(Bytes(reader.owned_bytes()), hello(static_cast<int>(events), 5));
    }
  }
  EXPECT_EQ(events, 5u);
}

TEST(RelayClients, RejectABatchThatIsNone) {
  RelayService handler;
  RelayClients clients(handler, {.host = "h", .pid = 1});
  const Bytes event = WireWriter().value(std::uint32_t{1}).value(std::uint8_t{9}).bytes(Bytes{}).take();
  EXPECT_THAT(error_of([&] { clients.take(event); }).what(), HasSubstr("an event with number 9"));
  EXPECT_EQ(error_of([&] { clients.take(Bytes(3)); }).code(), Code::Mismatch);
}

/// A store behind relays, each of which would be a host. The ranks are dealt to the relays in turns.
class BehindRelays : public testing::Test {
 protected:
  struct Relay {
    std::unique_ptr<StoreServerThread> thread;
    SocketAddress address;
    RelayParent parent;
  };

  BehindRelays() {
    root_.addresses = {served_.address}, root_.secret = served_.secret, root_.instance = served_.instance;
  }

  /// A port of its own, as a process of another host has.
  static std::shared_ptr<ListeningPort> own_port() {
    for (int tries = 1;; ++tries) {
      const std::uint16_t free = listen_everywhere(0, {}).address.port();
      try {
        return port_of_process({.number = free});
      } catch (const Error&) {  // another program has taken it meanwhile
        if (tries == 10) throw;
      }
    }
  }

  /// `addresses`: those that it publishes; empty: its own.
  Relay& add_relay(const std::string& host, int rank, std::string addresses = {}) {
    const auto port = own_port();
    if (addresses.empty()) addresses = fmt::format("127.0.0.1:{}", port->number());
    const RelayIntroduction self{
        .host = host, .pid = 100 + rank, .rank = rank, .addresses = addresses, .instance = random_id()};
    Relay relay;
    relay.thread = std::make_unique<StoreServerThread>(
        StoreServerOptions{.secret = served_.secret, .host = StoreHost::Relay, .relay = self});
    Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
    relay.address = listener.address;
    relay.thread->listen(std::move(listener));
    relay.thread->serve(port, self.instance);
    auto [connection, parent] = find_relay_parent(root_, self, Deadline::after(kLong));
    relay.parent = parent;
    relay.thread->lead_to(std::move(connection), parent);
    return relays_.emplace_back(std::move(relay));
  }

  std::unique_ptr<StoreClient> client(std::size_t relay, int rank, int ranks, Duration timeout = kLong) {
    StoreClient::Options options{.addresses = {relays_[relay].address}};
    options.group = "w";
    options.rank = rank;
    options.ranks = ranks;
    options.timeout = timeout;
    return std::make_unique<StoreClient>(std::move(options), Deadline::after(kLong));
  }

  Served served_{true};
  StoreClient::Options root_;
  std::vector<Relay> relays_;
};

TEST_F(BehindRelays, AllGather_ReturnsTheBytesOfAllRanks_ThroughTwoLevels) {
  static constexpr int kRanks = 36;
  for (int i = 0; i < 18; ++i) add_relay(fmt::format("h{}", i), i);
  EXPECT_EQ(relays_[15].parent.parent, 0);
  EXPECT_EQ(relays_[16].parent.parent, 1) << "the server has 16 relays";
  std::vector<std::jthread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([this, r] {
      const auto store = client(static_cast<std::size_t>(r) % relays_.size(), r, kRanks);
      for (int round = 0; round < 3; ++round) {
        const auto all = store->all_gather("name", r, kRanks, bytes_of(fmt::format("{}:{}", round, r)));
        for (int other = 0; other < kRanks; ++other)
          EXPECT_EQ(all[static_cast<std::size_t>(other)], bytes_of(fmt::format("{}:{}", round, other)));
      }
    });
  }
}

TEST_F(BehindRelays, KeysAreThoseOfTheOneStore) {
  add_relay("h0", 0);
  add_relay("h1", 1);
  const auto a = client(0, 0, 2);
  const auto b = client(1, 1, 2);
  std::jthread waits([&] { EXPECT_EQ(b->get("key"), bytes_of("value")); });
  a->set("key", bytes_of("value"));
  waits.join();
  EXPECT_EQ(a->add("count", 2), 2);
  EXPECT_EQ(b->add("count", 3), 5);
  EXPECT_TRUE(b->compare_and_set("key", bytes_of("value"), bytes_of("other")));
  EXPECT_TRUE(a->erase("key"));
  EXPECT_FALSE(b->erase("key"));
}

TEST_F(BehindRelays, Timeout_NamesTheRanksThatDidNotCome) {
  add_relay("h0", 0);
  const auto a = client(0, 0, 3, 200ms);
  const Error e = error_of([&] { a->all_gather("name", 0, 3, {}); });
  EXPECT_EQ(e.code(), Code::Timeout);
  EXPECT_THAT(e.what(), HasSubstr("ranks 1, 2 of 3 did not come"));
}

TEST_F(BehindRelays, TwoProcessesOfOneRank_AreTold) {
  add_relay("h0", 0);
  add_relay("h1", 1);
  const auto a = client(0, 0, 2);
  const Error e = error_of([&] { client(1, 0, 2); });
  EXPECT_EQ(e.code(), Code::Mismatch);
  EXPECT_THAT(e.what(), HasSubstr("two processes say that they are rank 0"));
}

TEST_F(BehindRelays, ARankThatLeaves_IsNamed) {
  add_relay("h0", 0);
  add_relay("h1", 1);
  auto a = client(0, 0, 2);
  auto b = client(1, 1, 2);
  std::jthread ends([&] { b.reset(); });
  const Error e = error_of([&] { a->all_gather("name", 0, 2, {}); });
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_EQ(e.rank(), 1);
  EXPECT_THAT(e.what(), HasSubstr("left before it came to the exchange"));
}

TEST_F(BehindRelays, ARelayThatDies_IsNamedOnBothSides) {
  for (int i = 0; i < 17; ++i) add_relay(fmt::format("h{}", i), i);
  ASSERT_EQ(relays_[16].parent.parent, 1) << "its parent is relay 1, of host h0";
  const auto beside = client(1, 0, 3);
  const auto behind = client(0, 1, 3);
  const auto below = client(16, 2, 3);
  std::vector<Error> ends(3, Error(Code::Ok, ""));
  {
    std::jthread one([&] { ends[0] = error_of([&] { beside->all_gather("name", 0, 3, {}); }); });
    std::jthread two([&] { ends[1] = error_of([&] { below->all_gather("name", 2, 3, {}); }); });
    std::this_thread::sleep_for(100ms);
    relays_[0].thread.reset();
    ends[2] = error_of([&] { behind->all_gather("name", 1, 3, {}); });
  }
  for (const Error& e : ends) EXPECT_EQ(e.code(), Code::PeerLost) << e.what();
  EXPECT_THAT(ends[0].what(), AllOf(HasSubstr("is cut off: rank 0 (process 100 on host h0)"), HasSubstr("is gone")));
  EXPECT_THAT(ends[1].what(), AllOf(HasSubstr("rank 0 (process 100 on host h0), which leads rank 16"),
                                    HasSubstr("to the store, is gone")));
  EXPECT_EQ(ends[1].rank(), 0);
  EXPECT_THAT(ends[2].what(), HasSubstr("which leads the ranks of this host to the store, is gone"));
}

TEST_F(BehindRelays, AParentThatIsNotReached_IsLeftOut) {
  for (int i = 0; i < 16; ++i) add_relay(fmt::format("h{}", i), i);
  relays_[0].thread.reset();  // relay 1, which the server names next
  add_relay("late", 16);
  EXPECT_EQ(relays_[16].parent.parent, 2);
  const auto a = client(16, 0, 1);
  EXPECT_THAT(a->all_gather("name", 0, 1, bytes_of("x")), ElementsAre(bytes_of("x")));
}

/// Addresses of bridges for containers are the same on many hosts, and a relay's own port may be the number that its
/// parent has.
TEST_F(BehindRelays, AnAddressThatLeadsToAnotherProcessOfTheJob_IsRefused) {
  add_relay("h0", 0, served_.address.text());
  for (int i = 1; i < 16; ++i) add_relay(fmt::format("h{}", i), i);
  add_relay("late", 16);
  EXPECT_EQ(relays_[16].parent.parent, 2) << "relay 1 is not at its address";
}

TEST_F(BehindRelays, ARelayThatAsksAgain_KeepsItsPlace) {
  const RelayIntroduction self{.host = "h0", .pid = 100, .rank = 0, .addresses = "127.0.0.1:1", .instance = 7};
  for (int tries = 0; tries < 3; ++tries) {
    const RelayParent place = StoreClient::attach(root_, self, Deadline::after(kLong)).second;
    EXPECT_EQ(place.number, 1);
    EXPECT_EQ(place.parent, 0);
  }
  EXPECT_EQ(add_relay("h1", 1).parent.number, 2);
}

TEST_F(BehindRelays, MisbehavingClient_IsCutOff_AndOthersGoOn) {
  for (int i = 0; i < 17; ++i) add_relay(fmt::format("h{}", i), i);
  for (const std::size_t level : {std::size_t{0}, std::size_t{16}}) {
    const auto a = client(level, 0, 1);
    for (const Bytes& bytes : misbehaviours()) {
      talk(relays_[level].address, bytes);
      a->set("k", bytes_of("v"));
      EXPECT_EQ(a->get("k"), bytes_of("v"));
    }
  }
}

TEST_F(BehindRelays, ABatchMayBeLongerThanARequest) {
  constexpr int kRanks = 30;
  served_.thread.reset();
  served_.thread = std::make_unique<StoreServerThread>(
      StoreServerOptions{.secret = served_.secret, .longest_request = 2000, .fan_out = 1});
  const auto port = own_port();
  root_.addresses = {SocketAddress::parse("127.0.0.1:0").with_port(port->number())};
  served_.thread->serve(port, served_.instance);
  add_relay("h0", 0);
  add_relay("h1", 1);
  EXPECT_EQ(relays_[1].parent.parent, 1);
  std::vector<std::jthread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([this, r] {
      const auto store = client(1, r, kRanks);
      const auto all = store->all_gather("name", r, kRanks, Bytes(1500));
      EXPECT_EQ(all.size(), static_cast<std::size_t>(kRanks));
    });
  }
}

TEST_F(BehindRelays, TheEndOfTheStore_CutsAllRelaysOff_AndNewcomersFindTheNextStore) {
  for (int i = 0; i < 17; ++i) add_relay(fmt::format("h{}", i), i);
  ASSERT_EQ(relays_[16].parent.parent, 1);
  auto waits = client(16, 0, 2);
  auto idle = client(16, -1, 0);
  served_.thread.reset();
  for (StoreClient* c : {waits.get(), idle.get()}) {
    const Error e = error_of([&] { c->get("key"); });
    EXPECT_EQ(e.code(), Code::PeerLost);
    EXPECT_THAT(e.what(), HasSubstr("rank 0, which leads rank 0 (process 100 on host h0) to the store, is gone"));
  }
  std::jthread newcomer([this] { client(16, 0, 2)->set("next", bytes_of("x")); });
  Served next(true);
  const Deadline bound = Deadline::after(kLong);
  std::optional<Listener> listener;
  while (!listener && !bound.passed()) try {
      listener.emplace(listen_on(relays_[16].address));  // the old relay listens no more
    } catch (const Error&) {
      std::this_thread::sleep_for(1ms);
    }
  ASSERT_TRUE(listener);
  next.thread->listen(std::move(*listener));
  newcomer.join();
  waits.reset();
  idle.reset();
  const auto all_over = [this] {
    return std::ranges::all_of(relays_, [](const Relay& r) { return r.thread->is_over(); });
  };
  while (!all_over() && !bound.passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(all_over());
}

TEST_F(BehindRelays, AConnectionThatCannotBeWatched_EndsTheRelay_NotTheProcess) {
  add_relay("h0", 0);
  const auto a = client(0, 0, 1);
  relays_[0].thread->lead_to(Socket(FileDescriptor(), Socket::End::Connects, nullptr), RelayParent{.name = "rank 7"});
  const Error e = error_of([&] { a->get("key"); });
  EXPECT_EQ(e.code(), Code::PeerLost);
  EXPECT_THAT(e.what(), HasSubstr("rank 7, which leads rank 0"));
}

TEST_F(BehindRelays, AWrongSecret_IsRefused) {
  root_.secret = random_secret();
  EXPECT_EQ(error_of([&] { add_relay("h0", 0); }).code(), Code::Mismatch);
}

}  // namespace
}  // namespace sinew::test

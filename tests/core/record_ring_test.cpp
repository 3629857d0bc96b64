#include <atomic>
#include <memory>
#include <new>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/runtime/record_ring.hpp>

namespace sinew {
namespace {

/// Zeroed memory on a cache line, as a heap gives it.
struct Memory {
  std::byte* bytes = new (std::align_val_t(64)) std::byte[RecordRing::bytes()]();
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::operator delete[](bytes, std::align_val_t(64)); }
};

CallEntry call(std::uint64_t communicator, std::uint32_t sequence, Collective kind = Collective::AllReduce) {
  return {.communicator = communicator,
          .fingerprint = fingerprint_of({.collective = kind, .count = sequence}),
          .history = 100 + sequence,
          .sequence = sequence,
          .id = 2};
}

TEST(RecordRing, ShowsACallInItsTwoHalves) {
  const Memory memory;
  RecordRing ring(memory.bytes, 5);
  const RecordReader reader(ring.page());
  EXPECT_EQ(ring.page()->rank.load(), 5);
  EXPECT_FALSE(reader.latest());

  const std::int64_t before = coarse_now();
  OpenRecord open = ring.enter(call(7, 1), std::source_location::current());
  const unsigned line = __LINE__ - 1;
  auto seen = reader.find(7, 1);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->fingerprint, fingerprint_of({.collective = Collective::AllReduce, .count = 1}));
  EXPECT_EQ(seen->history, 101U);
  EXPECT_EQ(seen->id, 2);
  EXPECT_GE(seen->entered, before);
  EXPECT_EQ(seen->completed, 0);
  EXPECT_THAT(reader.site(seen->site), testing::EndsWith("record_ring_test.cpp:" + std::to_string(line)));

  open.complete(Code::Mismatch);
  seen = reader.find(7, 1);
  ASSERT_TRUE(seen);
  EXPECT_GE(seen->completed, seen->entered);
  EXPECT_EQ(seen->outcome, static_cast<std::uint32_t>(Code::Mismatch));
}

TEST(RecordRing, FindsTheCallOfItsCommunicator_AndTheLatest) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  const auto here = std::source_location::current();
  ring.enter(call(7, 1), here);
  ring.enter(call(8, 1), here);
  ring.enter(call(7, 2), here);
  CallEntry message = call(7, 2, Collective::Recv);
  message.peer = 3;
  ring.enter(message, here);
  EXPECT_EQ(reader.find(7, 2)->serial, 3U);
  EXPECT_EQ(reader.latest(7)->serial, 3U);
  EXPECT_EQ(reader.latest(8)->serial, 2U);
  EXPECT_EQ(reader.latest()->peer, 3);
  EXPECT_FALSE(reader.find(8, 2));
  EXPECT_FALSE(reader.latest(9));
}

TEST(RecordRing, ShowsCommunicatorsForAsLongAsThereIsRoom) {
  Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  const auto shown = [&](std::uint64_t communicator) {
    for (std::size_t i = 0; i < RecordPage::kMemberships; ++i) {
      if (const auto membership = reader.membership(i); membership && membership->communicator == communicator)
        return true;
    }
    return false;
  };
  const auto in = [](std::uint64_t communicator) {
    return Group{.rank = 3, .world_ranks = {9, 8, 7, 6}, .identity = communicator, .name = "tp"};
  };
  EXPECT_FALSE(reader.membership(0));
  for (std::uint64_t c = 1; c <= RecordPage::kMemberships; ++c) ring.join(in(c));
  EXPECT_EQ(reader.membership(0)->ranks, 4);
  EXPECT_EQ(reader.membership(0)->place, 3);
  EXPECT_EQ(reader.membership(0)->name, "tp");
  ring.join(in(1000));
  EXPECT_FALSE(shown(1000)) << "all memberships are taken";
  ring.leave(7);
  EXPECT_TRUE(shown(7)) << "until somebody needs its place in the table";
  ring.join(in(1001));
  EXPECT_TRUE(shown(1001));
  EXPECT_FALSE(shown(7));
}

TEST(RecordRing, NamesTheCommunicatorOfACall_WhileItHasAMembership) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  ring.join({.world_ranks = {0, 1, 2}, .name = "world"});
  ring.join({.rank = 1, .world_ranks = {4, 2}, .communicator = 6, .identity = 7, .name = std::string(47, 't')});
  EXPECT_EQ(reader.communicator({.communicator = 0}), "world of 3");
  EXPECT_EQ(reader.communicator({.communicator = 7, .id = 6}), std::string(47, 't').append(" of 2"));
  EXPECT_EQ(reader.communicator({.communicator = 8, .id = 10}), "communicator 10");
}

TEST(RecordRing, ShowsTheLabelOfACallBehindItsPlace) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  const auto where = std::source_location::current();
  const auto site_of = [&](std::uint32_t sequence, const char* label) {
    CallEntry entry = call(7, sequence);
    entry.label = label;
    ring.enter(entry, where);
    return reader.site(reader.find(7, sequence)->site);
  };
  const std::string place = site_text(where, nullptr);
  EXPECT_EQ(site_of(1, nullptr), place);
  // A second label may lie at the address of the first.
  std::string label = "bucket 3";
  EXPECT_EQ(site_of(2, label.c_str()), place + " for bucket 3");
  label = "bucket 4";
  EXPECT_EQ(site_of(3, label.c_str()), place + " for bucket 4");
  EXPECT_EQ(site_of(4, nullptr), place);
}

TEST(RecordRing, DropsTheOldest_AndALateSecondHalfWithIt) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  OpenRecord first = ring.enter(call(7, 1), std::source_location::current());
  for (std::uint32_t s = 2; s <= RecordPage::kRecords + 1; ++s) ring.enter(call(7, s), std::source_location::current());
  first.complete(Code::Ok);
  EXPECT_FALSE(reader.find(7, 1));
  EXPECT_TRUE(reader.find(7, 2));
  EXPECT_EQ(reader.find(7, RecordPage::kRecords + 1)->completed, 0);
}

TEST(RecordRing, KeepsOneEntryPerPlace_AndSaysWhenThereAreTooMany) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  // Two places only, seen over and over: their indices must not move.
  for (int i = 0; i < 3; ++i) {
    const OpenRecord a = ring.enter(call(1, 1), std::source_location::current());
    const OpenRecord b = ring.enter(call(1, 2), std::source_location::current());
    EXPECT_EQ(a.record->site.load(), 1);
    EXPECT_EQ(b.record->site.load(), 2);
  }
  EXPECT_THAT(reader.site(0), testing::HasSubstr("not in the table"));
  EXPECT_THAT(reader.site(60000), testing::HasSubstr("not in the table"));
}

TEST(RecordRing, NeverShowsAMixture_WhileItIsWritten) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const auto here = std::source_location::current();
    for (std::uint32_t s = 1; !stop.load(std::memory_order_relaxed); ++s)
      ring.enter(call(s, s), here).complete(Code::Ok);
  });
  int checked = 0;
  while (checked < 20000) {
    const auto seen = reader.at(static_cast<std::size_t>(checked) % RecordPage::kRecords);
    if (!seen) {
      std::this_thread::yield();
      continue;
    }
    ++checked;
    ASSERT_EQ(seen->communicator, seen->sequence);
    ASSERT_EQ(seen->history, 100 + seen->communicator);
    ASSERT_EQ(seen->fingerprint >> 32, seen->communicator);
  }
  stop = true;
  writer.join();
}

TEST(RecordRing, CountsCallsByCommunicatorCollectiveAndTransport) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  const RecordReader reader(ring.page());
  EXPECT_TRUE(reader.counters().empty());
  const Group named{.communicator = 4, .name = "tp"}, unnamed{.communicator = 6};
  CallCounters& sums = ring.counters_of(named, Collective::AllReduce, "shm");
  sums.count(8);
  sums.count(100);
  EXPECT_EQ(&ring.counters_of(named, Collective::AllReduce, "shm"), &sums);
  EXPECT_NE(&ring.counters_of(named, Collective::AllReduce, "tcp"), &sums);
  EXPECT_NE(&ring.counters_of(named, Collective::Broadcast, "shm"), &sums);
  ring.counters_of(unnamed, Collective::AllReduce, "shm").count(1);
  ring.count_failed(named, Collective::AllReduce);
  ring.count_failed(unnamed, Collective::Barrier);

  const std::vector<CountersSeen> seen = reader.counters();
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen[0].communicator, "tp");
  EXPECT_EQ(seen[0].collective, "all_reduce");
  EXPECT_EQ(seen[0].transport, "shm");
  EXPECT_EQ(seen[0].calls, 2U);
  EXPECT_EQ(seen[0].bytes, 108U);
  EXPECT_EQ(seen[0].failed, 1U);
  EXPECT_EQ(seen[3].communicator, "communicator 6");
  EXPECT_EQ(seen[3].calls, 1U);
  EXPECT_EQ(seen[4].collective, "barrier");
  EXPECT_EQ(seen[4].transport, "");
  EXPECT_EQ(seen[4].calls, 0U);
  EXPECT_EQ(seen[4].failed, 1U);
}

TEST(RecordRing, LosesNoCall_WhenItsCountersAreFull) {
  const Memory memory;
  RecordRing ring(memory.bytes, 0);
  constexpr std::uint64_t kCommunicators = 2 * RecordPage::kCounters;
  for (std::uint16_t id = 0; id < kCommunicators; ++id)
    ring.counters_of({.communicator = id}, Collective::AllGather, "a transport with a name that is too long").count(3);
  const std::vector<CountersSeen> seen = RecordReader(ring.page()).counters();
  ASSERT_EQ(seen.size(), RecordPage::kCounters);
  EXPECT_EQ(seen[0].communicator, "other");
  EXPECT_EQ(seen[0].collective, "other");
  std::uint64_t calls = 0;
  for (const CountersSeen& c : seen) calls += c.calls;
  EXPECT_EQ(calls, kCommunicators);
  EXPECT_EQ(seen[0].calls, kCommunicators - (RecordPage::kCounters - 1));
}

}  // namespace
}  // namespace sinew

#include <array>
#include <transports/shm_rank.hpp>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/numeric/reduce.hpp>
#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/offload/call_ring.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <support/ranks.hpp>
#include <support/sanitized.hpp>

namespace sinew {
namespace {

using test::Fired;
using test::run_shm_case;
using test::ShmCase;
using test::ShmRank;

constexpr std::array kOffloadCollectives{Collective::AllReduce,     Collective::Broadcast, Collective::Barrier,
                                         Collective::AllGather,     Collective::AllToAll,  Collective::Reduce,
                                         Collective::ReduceScatter, Collective::Gather,    Collective::Scatter};
constexpr std::array<std::uint64_t, 11> kCounts{0, 1, 3, 10, 11, 257, 513, 4099, 20011, 65536, 150001};

/// Memory differs from rank to rank in every way it can.
void vary_memory(ShmCase& c, int rank, unsigned variant) {
  const unsigned bits = variant * 7 + static_cast<unsigned>(rank) * (variant % 3);
  c.in_place = (bits & 1) != 0 && c.collective != Collective::Reduce;
  c.same_pointer = (bits & 8) != 0;
  c.registered_in = (bits & 2) != 0;
  c.registered_out = (bits & 4) != 0;
}

void all_collectives_and_sizes(const Exchange& world, const Bytes& facts, std::uint64_t most) {
  ShmRank rank(world, facts);
  unsigned variant = 0;
  for (const std::uint64_t count : kCounts) {
    if (count > most) break;
    for (const Collective collective : kOffloadCollectives) {
      const int repeats = test::kSanitized ? 1 : count > 20'011 ? 2 : 4;
      for (int repeat = 0; repeat < repeats; ++repeat) {
        ShmCase c;
        c.collective = collective;
        c.count = collective == Collective::Barrier ? 0 : count;
        c.root = static_cast<int>(variant) % world.size;
        vary_memory(c, world.rank, variant++);
        run_shm_case(rank, c);
      }
    }
  }
}

void as_found(const Exchange& world) { all_collectives_and_sizes(world, {}, 150'001); }
void up_to_middle_sizes(const Exchange& world) { all_collectives_and_sizes(world, {}, 20'011); }
/// Other numbers than the usual: everything above a flag line in small chunks, ordinary memory read where it lies.
void by_other_facts(const Exchange& world) {
  shm::Facts facts;
  facts.slot_bytes.fill(3000);
  facts.chunk_bytes.fill(1000);
  facts.read_in_place.fill({.from = 0});
  facts.demoted_bytes = 1000;
  all_collectives_and_sizes(world, encode(facts), 65'536);
}

TEST(ShmOffload, GivesTheClosedForm_OnTwoThreads) { test::run_as_threads(2, as_found); }
TEST(ShmOffload, GivesTheClosedForm_OnThreeThreads) { test::run_as_threads(3, as_found); }
TEST(ShmOffload, GivesTheClosedForm_OnFiveThreads) { test::run_as_threads(5, up_to_middle_sizes); }
TEST(ShmOffload, GivesTheClosedForm_OnEightThreads) { test::run_as_threads(8, up_to_middle_sizes); }
TEST(ShmOffload, GivesTheClosedForm_OnTwoProcesses) { test::run_as_processes(2, as_found); }
TEST(ShmOffload, GivesTheClosedForm_OnThreeProcesses) { test::run_as_processes(3, as_found); }
TEST(ShmOffload, GivesTheClosedForm_OnSevenProcesses) { test::run_as_processes(7, up_to_middle_sizes); }
TEST(ShmOffload, GivesTheClosedForm_ByOtherFactsOnThreads) { test::run_as_threads(3, by_other_facts); }
TEST(ShmOffload, GivesTheClosedForm_ByOtherFactsOnProcesses) { test::run_as_processes(3, by_other_facts); }

void all_types_and_operators(const Exchange& world) {
  ShmRank rank(world);
  unsigned variant = 0;
  for (const DType dtype : all_dtypes()) {
    for (const ReduceOp op :
         {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Average, ReduceOp::PreMulSum}) {
      const bool narrow = size_of(dtype) == 1;
      if (!is_defined(op, dtype) || (narrow && op == ReduceOp::Average)) continue;
      for (const std::uint64_t count : {5u, 301u, 6007u, 120011u}) {
        if (test::kSanitized && count > 6007) continue;
        ShmCase c;
        c.collective = variant % 3 == 0 ? Collective::ReduceScatter : Collective::AllReduce;
        c.dtype = dtype;
        c.op = op;
        c.count = c.collective == Collective::ReduceScatter ? count / 3 : count;
        vary_memory(c, world.rank, variant++);
        run_shm_case(rank, c);
      }
    }
  }
}

TEST(ShmOffload, CombinesEveryTypeAndOperator_OnThreads) { test::run_as_threads(3, all_types_and_operators); }
TEST(ShmOffload, CombinesEveryTypeAndOperator_OnProcesses) { test::run_as_processes(2, all_types_and_operators); }

/// Not commutative: the order of the ranks is visible.
void append_digit(void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<std::int64_t*>(dst)[i] =
        static_cast<const std::int64_t*>(a)[i] * 10 + static_cast<const std::int64_t*>(b)[i];
}

TEST(ShmOffload, AppliesAUsersFunctionInTheOrderOfTheRanks) {
  test::run_as_threads(4, [](const Exchange& world) {
    ShmRank rank(world);
    const Reducer digits{append_digit, nullptr, 8};
    for (const std::uint64_t count : {1u, 200u, 3000u, 50000u}) {
      std::vector<std::int64_t> data(count, world.rank + 1);
      ShmCase c;
      c.dtype = DType::I64;
      c.op = ReduceOp::User;
      c.count = count;
      c.user = &digits;
      auto* memory = reinterpret_cast<std::byte*>(data.data());
      Fired done;
      rank.launch(c.desc(), memory, memory, done);
      rank.wait(done);
      EXPECT_EQ(data, std::vector<std::int64_t>(count, 1234));
    }
  });
}

TEST(ShmOffload, FinishesManyCallsInOrder_WhenAllAreLaunchedAtOnce) {
  const auto body = [](const Exchange& world) {
    ShmRank rank(world);
    constexpr int kCalls = 100;
    const auto count_of = [](int call) {
      return static_cast<std::uint64_t>(call % 7 == 0 ? 30000 : call % 3 * 900 + 1);
    };
    std::vector<std::vector<float>> data;
    std::vector<Fired> done(kCalls);
    for (int i = 0; i < kCalls; ++i) data.emplace_back(count_of(i), static_cast<float>(i + world.rank));
    for (int i = 0; i < kCalls; ++i) {
      CollectiveDesc d{.collective = Collective::AllReduce, .dtype = DType::F32, .count = count_of(i)};
      auto* memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(i)].data());
      rank.launch(d, memory, memory, done[static_cast<std::size_t>(i)]);
    }
    rank.wait(done.back());
    for (int i = 0; i < kCalls; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_TRUE(done[at].fired);
      const float sum = static_cast<float>(i * world.size + world.size * (world.size - 1) / 2);
      EXPECT_EQ(data[at], std::vector<float>(count_of(i), sum)) << "call " << i;
    }
  };
  test::run_as_threads(3, body);
  test::run_as_processes(2, body);
}

/// Who has nothing to do must say so, or it would keep its core from the one that it waits for.
TEST(ShmOffload, ReportsNoProgress_WhileAnotherRankStandsStill) {
  test::run_as_threads(2, [](const Exchange& world) {
    ShmRank rank(world);
    std::vector<float> data(1 << 20, 1.0f);
    const CollectiveDesc d{.collective = Collective::AllReduce, .dtype = DType::F32, .count = data.size()};
    ASSERT_EQ(shm::protocol_of(d, 2, {}), shm::Protocol::Chunks);
    auto* memory = reinterpret_cast<std::byte*>(data.data());
    Fired done;
    rank.launch(d, memory, memory, done);
    static_cast<void>(world.all_gather({}));
    if (world.rank == 0) {
      for (int i = 0; i < 1000; ++i) rank.offload().progress();  // all that can be done alone
      int moved = 0;
      for (int i = 0; i < 1000; ++i) moved += rank.offload().progress();
      EXPECT_EQ(moved, 0);
    }
    static_cast<void>(world.all_gather({}));
    rank.wait(done);
    EXPECT_EQ(data, std::vector<float>(data.size(), 2.0f));
  });
}

/// Rank 1 makes another call than the rest: everybody must hear of both, nobody's result may be taken for one.
void disagree(const Exchange& world, CollectiveDesc usual, CollectiveDesc other) {
  ShmRank rank(world);
  std::vector<float> in(200'000, 1.0f);
  std::vector<float> out(200'000);
  auto* from = reinterpret_cast<const std::byte*>(in.data());
  auto* to = reinterpret_cast<std::byte*>(out.data());
  for (int warm = 0; warm < 3; ++warm) {
    Fired done;
    rank.launch(usual, from, to, done);
    rank.wait(done);
    EXPECT_TRUE(done.status.ok());
  }
  Fired done;
  Fired later;
  rank.launch(world.rank == 1 ? other : usual, from, to, done);
  rank.launch({}, from, to, later);
  rank.wait(later);
  ASSERT_TRUE(done.fired);
  EXPECT_EQ(later.status.code(), Code::Mismatch) << "rank " << world.rank;
  if (has_root(usual.collective) && done.status.ok()) {  // it needed nothing of those that called something else
    EXPECT_NE(later.status.message().find("made different calls before barrier"), std::string::npos);
    return;
  }
  EXPECT_EQ(done.status.code(), Code::Mismatch) << "rank " << world.rank;
  const std::string said(done.status.message());
  EXPECT_NE(said.find(describe_fingerprint(fingerprint_of(usual))), std::string::npos) << said;
  EXPECT_NE(said.find(describe_fingerprint(fingerprint_of(other))), std::string::npos) << said;
  EXPECT_EQ(done.status.rank() == 1, world.rank != 1) << said;
}

TEST(ShmOffload, TellsAllRanksBothCalls_WhenTheyDiffer) {
  const CollectiveDesc tiny{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 2};
  const CollectiveDesc large{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 200'000};
  CollectiveDesc maximum = tiny;
  maximum.op = ReduceOp::Max;
  CollectiveDesc from_0{.collective = Collective::Broadcast, .dtype = DType::F32, .count = 2};
  CollectiveDesc from_1 = from_0;
  from_1.root = 1;
  CollectiveDesc longer = large;
  longer.count = 199'999;
  const CollectiveDesc barrier{};
  for (const auto& [usual, other] : {std::pair{tiny, maximum},
                                     {tiny, large},
                                     {large, tiny},
                                     {large, longer},
                                     {from_0, from_1},
                                     {from_0, tiny},
                                     {tiny, from_0},
                                     {tiny, barrier},
                                     {barrier, large}}) {
    test::run_as_threads(2, [&](const Exchange& world) { disagree(world, usual, other); });
    test::run_as_processes(3, [&](const Exchange& world) { disagree(world, usual, other); });
  }
}

TEST(ShmOffload, WaitsForNobodyItTakesNothingFrom) {
  const auto body = [](const Exchange& world, std::uint64_t most) {
    for (const Collective collective : {Collective::Broadcast, Collective::Scatter, Collective::Gather}) {
      ShmRank rank(world);
      for (std::uint64_t count = 2; count <= most; count *= 40) {
        const CollectiveDesc desc{.collective = collective, .dtype = DType::F32, .count = count};
        const bool first = (world.rank == 0) == (collective != Collective::Gather);
        std::vector<float> in(3 * count, 1.0f);
        std::vector<float> out(3 * count, 1.0f);
        auto* to = reinterpret_cast<std::byte*>(collective == Collective::Broadcast ? in.data() : out.data());
        Fired done;
        if (!first) (void)world.all_gather({});  // the others have ended the call
        rank.launch(desc, reinterpret_cast<const std::byte*>(in.data()), to, done);
        rank.wait(done);
        EXPECT_TRUE(done.status.ok()) << done.status.message();
        if (first) (void)world.all_gather({});
      }
    }
  };
  test::run_as_threads(3, [&](const Exchange& world) { body(world, 80); });
  test::run_as_processes(2, [&](const Exchange& world) { body(world, 3200); });  // longer ones lie in a slot
}

TEST(ShmOffload, TellsTheRanks_WhenEachIsARootOfItsOwn) {
  test::run_as_processes(3, [](const Exchange& world) {
    ShmRank rank(world);
    const CollectiveDesc mine{.collective = Collective::Broadcast, .dtype = DType::F32, .root = world.rank, .count = 4};
    std::vector<float> data(4);
    auto* memory = reinterpret_cast<std::byte*>(data.data());
    Status first;
    for (std::size_t call = 0; call < 2 * shm::kRing && first.ok(); ++call) {  // each turn of the ring all look at all
      Fired done;
      rank.launch(mine, memory, memory, done);
      rank.wait(done);
      first = done.status;
    }
    EXPECT_EQ(first.code(), Code::Mismatch) << first.message();
  });
}

/// A difference that went well on both sides, over another way for instance.
TEST(ShmOffload, TellsTheRanks_WhenTheirEarlierCallsDiffer) {
  test::run_as_threads(2, [](const Exchange& world) {
    ShmRank rank(world);
    const CollectiveDesc barrier{};
    std::byte nothing{};
    Call call{.desc = barrier, .in = {&nothing, 0}, .out = {&nothing, 0}};
    call.fingerprint = fingerprint_of(barrier);
    call.history = world.rank == 0 ? 0x9e3779b97f4a7c15 : 0xbf58476d1ce4e5b9;
    Fired done;
    rank.offload().launch(call, done);
    rank.wait(done);
    EXPECT_EQ(done.status.code(), Code::Mismatch);
    EXPECT_EQ(done.status.rank(), 1 - world.rank);
    EXPECT_NE(done.status.message().find("made different calls before barrier"), std::string::npos)
        << done.status.message();
  });
}

TEST(ShmOffload, EndsEverythingLaunchedWithTheReason_WhenAborted) {
  test::run_as_threads(2, [](const Exchange& world) {
    ShmRank rank(world);
    if (world.rank == 1) return;
    std::vector<float> data(100'000);
    auto* memory = reinterpret_cast<std::byte*>(data.data());
    const CollectiveDesc d{.collective = Collective::AllReduce, .dtype = DType::F32, .count = data.size()};
    std::vector<Fired> done(12);
    for (std::size_t i = 0; i < 11; ++i) rank.launch(d, memory, memory, done[i]);
    for (int i = 0; i < 100; ++i) (void)rank.offload().progress();
    EXPECT_FALSE(done[0].fired);
    rank.offload().abort({Code::PeerLost, "rank 1 is gone", 1});
    EXPECT_FALSE(done[0].fired) << "completions fire in progress only";
    rank.launch(d, memory, memory, done[11]);
    rank.wait(done[11]);
    for (const Fired& f : done) {
      EXPECT_TRUE(f.fired);
      EXPECT_EQ(f.status.code(), Code::PeerLost);
      EXPECT_EQ(f.status.message(), "rank 1 is gone");
    }
    EXPECT_FALSE(rank.offload().active());
  });
}

TEST(ShmOffload, GivesItsMemoryBack_WhenEverybodyHasEnded) {
  test::run_as_threads(3, [](const Exchange& world) {
    ShmRank rank(world);
    std::size_t most = 0;
    for (int round = 0; round < 20; ++round) {
      Fired done;
      float one = 1;
      auto* memory = reinterpret_cast<std::byte*>(&one);
      rank.launch({.collective = Collective::AllReduce, .dtype = DType::F32, .count = 1}, memory, memory, done);
      rank.wait(done);
      EXPECT_EQ(one, 3.0f);
      rank.end_offload();  // others may still be reading
      rank.make_offload();
      most = std::max(most, rank.host().shared_segment().allocated_bytes());
      EXPECT_LT(rank.offload().memory_bytes(), std::size_t{4} << 20);
    }
    EXPECT_LT(most, std::size_t{16} << 20);
  });
}

/// A launch may throw after prepare(), for example because no memory is left. The next launch then gets the same place.
TEST(ShmCallRing, HoldsNoCallThatCouldNotBeLaunched) {
  shm::CallRing ring;
  EXPECT_EQ(ring.prepare().sequence, 1u);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.prepare().sequence, 1u);
  ring.launched();
  EXPECT_FALSE(ring.empty());
  EXPECT_EQ(ring.prepare().sequence, 2u);
  EXPECT_EQ(ring.next, 2u);
}

TEST(ShmOffload, SaysWhatItDoesNotDo) {
  test::run_as_threads(2, [](const Exchange& world) {
    ShmRank rank(world);
    CollectiveDesc d{.collective = Collective::ReduceScatterV, .dtype = DType::F32};
    EXPECT_EQ(rank.offload().supports(d).reason, "shared memory has no reduce_scatter_v of its own");
    d = {.collective = Collective::AllReduce, .dtype = DType::F32, .count = 4};
    EXPECT_TRUE(rank.offload().supports(d).ok);
    d.determinism = Determinism::LayoutInvariant;
    EXPECT_TRUE(rank.offload().supports(d).ok);
    d.determinism = Determinism::Fast;
    d.place = {MemoryKind::Device, 0};
    EXPECT_EQ(rank.offload().supports(d).reason, "the buffers are device memory");
  });
}

TEST(ShmOffload, PredictsMoreTimeForMoreBytesAndMoreRanks) {
  std::vector<double> by_ranks;
  for (const int ranks : {2, 3, 4}) {
    test::run_as_threads(ranks, [&](const Exchange& world) {
      ShmRank rank(world);
      double before = 0;
      for (std::uint64_t count = 1; count < 1 << 26; count *= 3) {
        const double now =
            rank.offload().predict({.collective = Collective::AllReduce, .dtype = DType::F32, .count = count});
        EXPECT_GE(now, before) << count;
        before = now;
      }
      if (world.rank == 0) by_ranks.push_back(before);
    });
  }
  EXPECT_LT(by_ranks[0], by_ranks[1]);
  EXPECT_LT(by_ranks[1], by_ranks[2]);
}

}  // namespace
}  // namespace sinew

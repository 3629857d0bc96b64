#include <sys/wait.h>

#include <array>
#include <csignal>
#include <span>
#include <transports/shm_rank.hpp>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/numeric/reduce.hpp>
#include <sinew/transports/shm/model/tree.hpp>
#include <sinew/transports/shm/offload/choices.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <support/ranks.hpp>

namespace sinew {
namespace {

using test::Fired;
using test::run_shm_case;
using test::ShmCase;
using test::ShmRank;

TEST(ShmTree, IsAsDeepAsItsFanSays) {
  EXPECT_EQ(shm::tree_steps(1), 0);
  EXPECT_EQ(shm::tree_steps(5), 1);
  EXPECT_EQ(shm::tree_steps(6), 2);
  EXPECT_EQ(shm::tree_steps(21), 2);
  EXPECT_EQ(shm::tree_steps(22), 3);
}

/// A few ranks look at everybody's line sooner than they would pass anything on; many do not.
TEST(ShmTree, IsTakenWhereItIsPredictedToBeFaster) {
  const auto protocol_of = [](const CollectiveDesc& desc, int ranks, const shm::Facts& facts) {
    return shm::Choices(shm::Levels(ranks), facts).protocol_of(desc);
  };
  shm::Facts facts;
  facts.cores = 256;
  CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 2};
  EXPECT_EQ(protocol_of(desc, 8, facts), shm::Protocol::Inline);
  EXPECT_EQ(protocol_of(desc, 128, facts), shm::Protocol::Tree);
  desc.count = 512;
  EXPECT_EQ(protocol_of(desc, 4, facts), shm::Protocol::Lines);
  EXPECT_EQ(protocol_of(desc, 32, facts), shm::Protocol::TreeChunks);
  desc.op = ReduceOp::User;
  EXPECT_EQ(protocol_of(desc, 32, facts), shm::Protocol::Lines);
  desc.op = ReduceOp::Sum;
  facts.cores = 16;
  EXPECT_EQ(protocol_of(desc, 32, facts), shm::Protocol::Lines);
  facts.cores = 256;
  desc.collective = Collective::AllGather;
  EXPECT_EQ(protocol_of(desc, 32, facts), shm::Protocol::Lines);
}

constexpr std::uint64_t kLinesBytesBehind = shm::kLinesBytes + 1;

Bytes always_trees(std::uint64_t chunks_from = 0) {
  shm::Facts facts;
  facts.tree_from_ranks = 3;
  facts.tree_chunks_from_bytes = chunks_from;
  return encode(facts);
}

std::vector<PartsOfRanks> two_by_two(int ranks) {
  PartsOfRanks caches{HostPart::Cache, {}};
  for (int r = 0; r < ranks; ++r) caches.numbers.push_back(r / 2 % 3);
  return {caches};
}

/// Calls that take the tree among others that do not, so that each finds the lines as the other left them.
void mixed_calls(const Exchange& world, const Bytes& facts, std::span<const std::uint64_t> counts) {
  constexpr std::array kCollectives{Collective::AllReduce, Collective::Broadcast, Collective::Barrier,
                                    Collective::Reduce,    Collective::AllGather, Collective::ReduceScatter};
  ShmRank rank(world, facts, two_by_two(world.size));
  unsigned variant = 0;
  for (const std::uint64_t count : counts) {
    for (const Collective collective : kCollectives) {
      for (int repeat = 0; repeat < 5; ++repeat) {
        ShmCase c;
        c.collective = collective;
        c.count = collective == Collective::Barrier ? 0 : count;
        c.root = static_cast<int>(variant) % world.size;
        c.in_place = variant % 2 == 0 && collective != Collective::Reduce;
        c.registered_in = variant % 3 == 0;
        ++variant;
        run_shm_case(rank, c);
      }
    }
  }
}

void short_calls(const Exchange& world) {
  constexpr std::array<std::uint64_t, 9> kCounts{0, 1, 3, 10, 11, 257, 512, 513, 4099};
  mixed_calls(world, always_trees(), kCounts);
}

/// Calls of one, two, a few and many chunks between calls that have chunks without a tree.
void long_calls(const Exchange& world) {
  constexpr std::array<std::uint64_t, 6> kCounts{513, 514, 1030, 4099, 70001, 9};
  mixed_calls(world, always_trees(kLinesBytesBehind), kCounts);
}

TEST(ShmTree, GivesTheClosedForm_OnThreeThreads) { test::run_as_threads(3, short_calls); }
TEST(ShmTree, GivesTheClosedForm_OnEightThreads) { test::run_as_threads(8, short_calls); }
TEST(ShmTree, GivesTheClosedForm_OnSevenProcesses) { test::run_as_processes(7, short_calls); }
TEST(ShmTree, GivesTheClosedFormInChunks_OnThreeThreads) { test::run_as_threads(3, long_calls); }
TEST(ShmTree, GivesTheClosedFormInChunks_OnEightThreads) { test::run_as_threads(8, long_calls); }
TEST(ShmTree, GivesTheClosedFormInChunks_OnSevenProcesses) { test::run_as_processes(7, long_calls); }

TEST(ShmTree, CombinesEveryTypeAndOperator) {
  test::run_as_threads(6, [](const Exchange& world) {
    ShmRank rank(world, always_trees(kLinesBytesBehind), two_by_two(world.size));
    for (const DType dtype : all_dtypes()) {
      for (const ReduceOp op :
           {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Average, ReduceOp::PreMulSum}) {
        const bool narrow = size_of(dtype) == 1;
        if (!is_defined(op, dtype) || (narrow && op == ReduceOp::Average)) continue;
        for (const std::uint64_t count : {2u, 120u, 9000u}) {
          ShmCase c;
          c.dtype = dtype;
          c.op = op;
          c.count = count;
          run_shm_case(rank, c);
        }
      }
    }
  });
}

TEST(ShmTree, FinishesManyCallsInOrder_WhenAllAreLaunchedAtOnce) {
  const auto launch_all = [](const Exchange& world, const Bytes& facts) {
    ShmRank rank(world, facts, two_by_two(world.size));
    constexpr std::size_t kCalls = 200;
    std::vector<std::vector<float>> data;
    std::vector<Fired> done(kCalls);
    for (std::size_t i = 0; i < kCalls; ++i)
      data.emplace_back(i % 5 == 0 ? 700 + i * 20 : i % 3 * 90 + 1,
                        static_cast<float>(i) + static_cast<float>(world.rank));
    for (std::size_t i = 0; i < kCalls; ++i) {
      const CollectiveDesc d{.collective = Collective::AllReduce, .dtype = DType::F32, .count = data[i].size()};
      auto* memory = reinterpret_cast<std::byte*>(data[i].data());
      rank.launch(d, memory, memory, done[i]);
    }
    rank.wait(done.back());
    for (std::size_t i = 0; i < kCalls; ++i) {
      const int sum = static_cast<int>(i) * world.size + world.size * (world.size - 1) / 2;
      EXPECT_EQ(data[i], std::vector<float>(data[i].size(), static_cast<float>(sum))) << "call " << i;
    }
  };
  const auto body = [&](const Exchange& world) {
    launch_all(world, always_trees());
    launch_all(world, always_trees(kLinesBytesBehind));
  };
  test::run_as_threads(7, body);
  test::run_as_processes(4, body);
}

/// The parent finds out; who waits elsewhere in the tree is told by the control plane, here by the test.
TEST(ShmTree, TellsTheParentBothCalls_WhenAChildMakesAnother) {
  test::run_as_threads(6, [](const Exchange& world) {
    ShmRank rank(world, always_trees());
    const CollectiveDesc usual{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 2};
    CollectiveDesc other = usual;
    other.op = ReduceOp::Max;
    std::array<float, 2> data{};
    auto* memory = reinterpret_cast<std::byte*>(data.data());
    Fired first;
    rank.launch(usual, memory, memory, first);
    rank.wait(first);
    EXPECT_TRUE(first.status.ok());
    Fired done;
    constexpr int kOdd = 5;  // its parent is rank 1, not the root
    rank.launch(world.rank == kOdd ? other : usual, memory, memory, done);
    if (world.rank == 1) {
      rank.wait(done);
      const std::string said(done.status.message());
      EXPECT_EQ(done.status.code(), Code::Mismatch);
      EXPECT_EQ(done.status.rank(), kOdd);
      EXPECT_NE(said.find(describe_fingerprint(fingerprint_of(usual))), std::string::npos) << said;
      EXPECT_NE(said.find(describe_fingerprint(fingerprint_of(other))), std::string::npos) << said;
    }
    static_cast<void>(world.all_gather({}));
    EXPECT_EQ(done.fired, world.rank == 1);
    rank.offload().abort({Code::Mismatch, "told"});
    rank.wait(done);
    EXPECT_EQ(done.status.code(), Code::Mismatch);
  });
}

/// A process dies between two chunks. Its neighbours wait for its next chunk until the control plane reports the death,
/// here the test after a silence. Then the call ends on all survivors.
TEST(ShmTree, EndsOnAllSurvivors_WhenARankIsKilledBetweenChunks) {
  constexpr int kRanks = 6;
  static constexpr int kDead = 2;  // it has a parent and a child
  const shm::Tree tree = shm::tree_of(kDead, 0, shm::Levels(kRanks), shm::kLongFanIn);
  ASSERT_TRUE(tree.parent >= 0 && !tree.children.empty());
  for (const Collective collective : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce}) {
    const std::vector<int> ends = test::fork_ranks(kRanks, [collective](const Exchange& world) {
      ShmRank rank(world, always_trees(kLinesBytesBehind));
      const CollectiveDesc desc{.collective = collective, .dtype = DType::F32, .count = 100000};
      std::vector<float> data(desc.count, 1.0F);
      auto* memory = reinterpret_cast<std::byte*>(data.data());
      Fired done;
      rank.launch(desc, memory, memory, done);
      auto quiet_since = Clock::now();
      int events = 0;
      while (!done.fired && Clock::now() - quiet_since < std::chrono::milliseconds(300)) {
        const int now = rank.offload().progress();
        if (now > 0) quiet_since = Clock::now();
        events += now;
        if (world.rank == kDead && events >= 5) std::raise(SIGKILL);
        if (now == 0) ::sched_yield();
      }
      EXPECT_FALSE(done.fired) << "rank " << world.rank << " ended a call that rank " << kDead << " never ended";
      rank.offload().abort({Code::PeerLost, "a rank was killed", kDead});
      rank.wait(done);
      EXPECT_EQ(done.status.code(), Code::PeerLost);
      EXPECT_EQ(done.status.rank(), kDead);
    });
    for (int r = 0; r < kRanks; ++r) {
      const int end = ends[static_cast<std::size_t>(r)];
      if (r == kDead) {
        EXPECT_TRUE(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL) << name_of(collective);
      } else {
        EXPECT_TRUE(WIFEXITED(end) && WEXITSTATUS(end) == 0) << name_of(collective) << ", rank " << r;
      }
    }
  }
}

/// Neighbours in the tree wait for each other's announcement, so both find out.
TEST(ShmTree, TellsBothNeighboursInChunks_WhenARankMakesAnotherCall) {
  test::run_as_threads(6, [](const Exchange& world) {
    ShmRank rank(world, always_trees(kLinesBytesBehind));
    const CollectiveDesc usual{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 5000};
    CollectiveDesc other = usual;
    other.op = ReduceOp::Max;
    std::vector<float> data(usual.count, 1.0F);
    auto* memory = reinterpret_cast<std::byte*>(data.data());
    constexpr int kOdd = 5;
    constexpr int kParent = 2;
    const bool finds_out = world.rank == kOdd || world.rank == kParent;
    Fired done;
    rank.launch(world.rank == kOdd ? other : usual, memory, memory, done);
    if (finds_out) {
      rank.wait(done);
      EXPECT_EQ(done.status.code(), Code::Mismatch);
      EXPECT_EQ(done.status.rank(), kOdd + kParent - world.rank);
    }
    static_cast<void>(world.all_gather({}));
    EXPECT_EQ(done.fired, finds_out);
    rank.offload().abort({Code::Mismatch, "told"});
    rank.wait(done);
    EXPECT_EQ(done.status.code(), Code::Mismatch);
  });
}

/// The parent's buffers are its user's as soon as it has closed: nobody may take from it that it has read on.
TEST(ShmTree, EndsTheCallBeforeToo_WhenAChildMakesAnother) {
  test::run_as_threads(3, [](const Exchange& world) {
    ShmRank rank(world, always_trees());
    const CollectiveDesc large{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 3000};
    const CollectiveDesc small{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 2};
    CollectiveDesc other = small;
    other.op = ReduceOp::Max;
    ASSERT_EQ(protocol_of(large, 3, shm::decode_facts(always_trees())), shm::Protocol::Slot);
    const std::vector<float> in(large.count, 1.0F);
    std::vector<float> out(large.count);
    std::array<float, 2> two{};
    auto* memory = reinterpret_cast<std::byte*>(two.data());
    Fired first;
    Fired second;
    if (world.rank != 0) static_cast<void>(world.all_gather({}));
    rank.launch(large, reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()), first);
    rank.launch(world.rank == 1 ? other : small, memory, memory, second);
    if (world.rank == 0) static_cast<void>(world.all_gather({}));
    static_cast<void>(world.all_gather({}));  // all have announced what they can
    if (world.rank == 0) {
      EXPECT_EQ(rank.offload().progress(), 1);
      EXPECT_TRUE(first.fired);
      EXPECT_EQ(first.status.code(), Code::Mismatch) << first.status.message();
    }
    static_cast<void>(world.all_gather({}));
    rank.wait(second);
    EXPECT_EQ(first.status.code(), world.rank == 0 ? Code::Mismatch : Code::Aborted) << first.status.message();
    EXPECT_EQ(out, std::vector<float>(large.count)) << "somebody was read that had ended the call";
  });
}

}  // namespace
}  // namespace sinew

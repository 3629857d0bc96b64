#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/execution/executor.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/transports/inproc/inproc.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;
using Value = std::int64_t;

/// Element i of what a rank gives.
Value given(int rank, std::uint64_t i) { return 1 + static_cast<Value>(i) * 31 + rank * Value{1000003}; }

/// A rank's buffers, as a user would pass them.
struct Memory {
  std::vector<Value> storage;
  std::span<Value> in;
  std::span<Value> out;
  bool shared = false;

  Memory(const CollectiveDesc& desc, const Program& p) {
    const Blocks blocks = blocks_of(desc.collective, static_cast<std::uint64_t>(p.ranks));
    const std::size_t ins = p.in_class.empty() ? 0 : blocks.in * desc.count;
    const std::size_t outs = p.out_class.empty() ? 0 : blocks.out * desc.count;
    const std::size_t mine = static_cast<std::size_t>(p.rank) * desc.count;
    storage.assign(ins + outs, -1);
    shared = p.in_place && !p.in_class.empty() && !p.out_class.empty();
    in = std::span(storage).subspan(shared && blocks.out > blocks.in ? mine : 0, ins);
    out = std::span(storage).subspan(!shared ? ins : blocks.in > blocks.out ? mine : 0, outs);
    for (std::size_t i = 0; i < ins; ++i) in[i] = given(p.rank, i);
  }
};

Value expected(const CollectiveDesc& desc, int rank, int ranks, std::uint64_t i) {
  const std::uint64_t mine = static_cast<std::uint64_t>(rank) * desc.count;
  const auto sum = [&](std::uint64_t at) {
    Value total = 0;
    for (int r = 0; r < ranks; ++r) total += given(r, at);
    return total;
  };
  switch (desc.collective) {
    case Collective::Broadcast: return given(desc.root, i);
    case Collective::Scatter: return given(desc.root, mine + i);
    case Collective::AllGather:
    case Collective::Gather: return given(static_cast<int>(i / desc.count), i % desc.count);
    case Collective::AllToAll: return given(static_cast<int>(i / desc.count), mine + i % desc.count);
    case Collective::ReduceScatter: return sum(mine + i);
    default: return sum(i);
  }
}

struct Finished : Completion {
  bool over = false;
  Finished() noexcept : Completion([](Completion& c) noexcept { static_cast<Finished&>(c).over = true; }) {}
};

/// The ranks of a group, driven in turns by one thread over inproc.
class Group {
 public:
  explicit Group(int ranks) {
    for (int r = 0; r < ranks; ++r) members_.push_back(std::make_unique<Member>(r));
    for (auto& from : members_) {
      for (auto& to : members_) {
        from->peers.push_back(from == to ? nullptr : from->transport->connect(to->transport->address()));
      }
    }
  }

  /// Runs one call on every rank and expects its results.
  void expect_right(const Recipe& recipe, const CollectiveDesc& desc, PlacingKind placing, std::uint64_t segment) {
    const Schedule schedule = recipe.build_all(desc, test::in_place(placing, size()));
    ++sequence_;
    std::vector<std::unique_ptr<Executable>> executables;
    std::vector<Memory> memory;
    std::vector<Finished> done(members_.size());
    for (std::size_t r = 0; r < members_.size(); ++r) {
      Member& m = *members_[r];
      memory.emplace_back(desc, schedule.programs[r]);
      executables.push_back(Executable::make(desc, schedule.programs[r], Segmentation{segment, 3},
                                             [&](int peer) { return m.peers[static_cast<std::size_t>(peer)].get(); }));
      const Buffer in{reinterpret_cast<std::byte*>(memory[r].in.data()), memory[r].in.size_bytes(), {}};
      const Buffer out{reinterpret_cast<std::byte*>(memory[r].out.data()), memory[r].out.size_bytes(), {}};
      m.executor.start({.executable = executables[r].get(), .in = in, .out = out, .sequence = sequence_}, done[r]);
    }
    ASSERT_TRUE(drive(done)) << "no rank gets further";
    for (int r = 0; r < size(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      ASSERT_TRUE(done[at].status.ok()) << done[at].status.message();
      expect_results(desc, r, memory[at]);
      members_[at]->executor.forget(*executables[at]);
    }
  }

 private:
  struct Member {
    explicit Member(int rank) : transport(inproc::make_transport(rank, 0)) {}
    std::unique_ptr<Transport> transport;
    std::vector<std::unique_ptr<Endpoint>> peers;
    Executor executor;
  };

  int size() const { return static_cast<int>(members_.size()); }

  /// False where nothing moves any more before all are done.
  bool drive(const std::vector<Finished>& done) {
    int idle = 0;
    while (idle < 3) {
      int events = 0;
      for (auto& m : members_) events += m->transport->progress() + m->executor.progress();
      idle = events > 0 ? 0 : idle + 1;
    }
    return std::ranges::all_of(done, &Finished::over);
  }

  void expect_results(const CollectiveDesc& desc, int rank, const Memory& memory) const {
    for (std::size_t i = 0; i < memory.out.size(); ++i) {
      ASSERT_EQ(memory.out[i], expected(desc, rank, size(), i)) << "rank " << rank << ", element " << i;
    }
    for (std::size_t i = 0; i < memory.in.size() && !memory.shared; ++i) {
      ASSERT_EQ(memory.in[i], given(rank, i)) << "rank " << rank << ", input " << i;
    }
  }

  std::vector<std::unique_ptr<Member>> members_;
  std::uint16_t sequence_ = 0;
};

/// Ranks 1, 3, ... and then 0, 2, ...
std::vector<int> odd_places_first(int ranks) {
  std::vector<int> order;
  for (const int first : {1, 0}) {
    for (int r = first; r < ranks; r += 2) order.push_back(r);
  }
  return order;
}

class ExecutionOn : public ::testing::TestWithParam<int> {};

/// Covers fewer elements than ranks, chunks of unequal lengths, and several short segments in flight.
TEST_P(ExecutionOn, MovesRealData_ByEveryAlgorithm) {
  const int ranks = GetParam();
  Group group(ranks);
  test::for_each_schedule(ranks, [&](const Algorithm& a, CollectiveDesc desc, PlacingKind placing) {
    const bool plain = a.collective == plain_form(a.collective);
    if (!plain || a.collective == Collective::Barrier || desc.op != ReduceOp::Sum) return;
    desc.dtype = DType::I64;  // as the data
    for (const std::uint64_t count : {0, 1, 101}) {
      desc.count = count;
      for (const std::uint64_t segment : {0, 40}) {
        SCOPED_TRACE(test::label(a, desc, ranks, placing) + ", count " + std::to_string(count) + ", segments of " +
                     std::to_string(segment) + " bytes");
        group.expect_right(a, desc, placing, segment);
        if (HasFatalFailure()) return;
        if (!Ordered::supports(a, desc, ranks).ok) continue;
        group.expect_right(Ordered{&a, odd_places_first(ranks)}, desc, placing, segment);
        if (HasFatalFailure()) return;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ExecutionOn, ::testing::Range(1, 10));

/// Its send() and recv() throw, as those of a transport do when no memory is left.
class NoMemory final : public Endpoint {
 public:
  void send(ConstBuffer, Tag, std::uint64_t, Completion&) override { throw std::bad_alloc(); }
  void recv(Sink, Tag, Completion&) override { throw std::bad_alloc(); }
  bool has_unexpected(Tag) const noexcept override { return false; }
  bool cancel(Completion&) override { return false; }
  void close(Completion&) override {}
};

TEST(Execution, EndsACallWithItsError_IfAnEndpointThrows) {
  NoMemory endpoint;
  Executor executor;
  const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::I64, .count = 8};
  const Algorithm& ring = *find_algorithm(desc.collective, "ring");
  const auto executable = Executable::make(desc, build_program(ring, desc, 0, 2, true), Segmentation{},
                                           [&](int) -> Endpoint* { return &endpoint; });
  std::vector<Value> data(desc.count, 1);
  const Buffer memory{reinterpret_cast<std::byte*>(data.data()), data.size() * sizeof(Value), {}};
  Finished done;
  executor.start({.executable = executable.get(), .in = memory, .out = memory, .sequence = 1}, done);
  EXPECT_FALSE(done.over) << "completions fire inside progress()";
  executor.progress();
  EXPECT_TRUE(done.over);
  EXPECT_EQ(done.status.code(), Code::System);
  executor.forget(*executable);
}

}  // namespace
}  // namespace sinew

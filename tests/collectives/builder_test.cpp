#include <gtest/gtest.h>

#include <sinew/collectives/schedule/builder.hpp>
#include <sinew/collectives/schedule/schedule_text.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::desc_of;

std::vector<std::uint32_t> predecessors(const Program& p, std::size_t step) {
  const DepRange deps = p.steps[step].deps;
  return {p.dependencies.begin() + deps.first, p.dependencies.begin() + deps.first + deps.count};
}

using Steps = std::vector<std::uint32_t>;

TEST(ProgramBuilder, NumbersMessagesByPeerAndDirection) {
  ProgramBuilder b(desc_of(Collective::AllReduce), 1, 3, false, 3);
  b.send(0, b.in(0));
  b.send(2, b.in(1));
  b.send(0, b.in(2));
  b.recv(0, b.out(0));
  const Program p = b.build();
  EXPECT_EQ(p.steps[0].match, 0u);
  EXPECT_EQ(p.steps[1].match, 0u);
  EXPECT_EQ(p.steps[2].match, 1u);
  EXPECT_EQ(p.steps[3].match, 0u);
  EXPECT_TRUE(p.dependencies.empty()) << "messages alone need no order";
}

TEST(ProgramBuilder, OrdersReadsAndWritesOfTheSameChunk) {
  ProgramBuilder b(desc_of(Collective::AllReduce), 0, 2, false, 2);
  b.recv(1, b.out(0));                     // 0
  b.send(1, b.out(0));                     // 1 reads what 0 wrote
  b.recv(1, b.out(0));                     // 2 overwrites what 1 reads; 0 is implied
  b.recv(1, b.out(1));                     // 3 touches another chunk
  b.reduce(b.out(0), b.out(0), b.out(1));  // 4
  const Program p = b.build();
  EXPECT_EQ(predecessors(p, 0), Steps{});
  EXPECT_EQ(predecessors(p, 1), Steps{0});
  EXPECT_EQ(predecessors(p, 2), Steps{1});
  EXPECT_EQ(predecessors(p, 3), Steps{});
  EXPECT_EQ(predecessors(p, 4), (Steps{3, 2}));
}

TEST(ProgramBuilder, LeavesOutWhatAnotherDependencyImplies_AtAnyDistance) {
  ProgramBuilder b(desc_of(Collective::AllReduce), 0, 2, false, 3);
  b.copy(b.out(0), b.in(0));               // 0
  b.reduce(b.out(1), b.out(0), b.in(1));   // 1
  b.reduce(b.out(2), b.out(1), b.in(2));   // 2
  b.reduce(b.out(0), b.out(2), b.out(0));  // 3 reads what 0 wrote, through 2 and 1
  EXPECT_EQ(predecessors(b.build(), 3), Steps{2});
}

TEST(ProgramBuilder, SeesThatInAndOutAreOneBuffer_InPlace) {
  for (const bool in_place : {false, true}) {
    ProgramBuilder b(desc_of(Collective::AllReduce), 0, 2, in_place);
    b.send(1, b.in());
    b.recv(1, b.out());
    EXPECT_EQ(predecessors(b.build(), 1), in_place ? Steps{0} : Steps{});
  }
}

TEST(ProgramBuilder, DropsACopyOntoItself_UnlessItScales) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
    for (const bool in_place : {false, true}) {
      ProgramBuilder b(desc_of(Collective::AllReduce, op), 0, 1, in_place);
      b.copy(b.out(), b.in(), Sum::Complete);
      EXPECT_EQ(b.build().steps.size(), in_place && op == ReduceOp::Sum ? 0u : 1u);
    }
  }
}

TEST(ProgramBuilder, LaysChunksOutByCollective) {
  const auto program = [](Collective c, int rank) {
    return ProgramBuilder(desc_of(c, ReduceOp::Sum, 1), rank, 3, true).build();
  };
  EXPECT_EQ(program(Collective::AllToAll, 1).in_class, (Steps{3, 4, 5}));
  EXPECT_EQ(program(Collective::AllToAll, 1).out_class, (Steps{1, 4, 7}));
  EXPECT_EQ(program(Collective::AllGatherV, 2).in_class, Steps{2});
  EXPECT_EQ(program(Collective::Gather, 0).out_class, Steps{});
  EXPECT_EQ(program(Collective::Gather, 1).out_class, (Steps{0, 1, 2}));
  EXPECT_EQ(program(Collective::Broadcast, 0).in_class, Steps{});
  EXPECT_EQ(program(Collective::ScatterV, 1).in_class, (Steps{0, 1, 2}));
  EXPECT_EQ(program(Collective::Barrier, 0).out_class, (Steps{0, 0, 0}));
}

TEST(ProgramBuilder, HoldsMessagesBackUntilTheirTurn) {
  ProgramBuilder b(desc_of(Collective::AllToAll), 0, 3, false);
  b.send(1, b.in(1));
  b.recv(2, b.out(2));
  b.turn();
  b.send(2, b.in(2));
  b.copy(b.out(0), b.in(0));
  const Program p = b.build();
  EXPECT_EQ(predecessors(p, 2), (Steps{1, 0}));
  EXPECT_EQ(predecessors(p, 3), Steps{});
}

/// Working in place or not may change copies and dependencies; the messages of a rank are always the same.
TEST(Algorithms, SendTheSameMessages_InPlaceAndOutOfPlace) {
  const auto messages = [](const Program& p) {
    std::vector<std::tuple<Op, int, std::uint32_t, Steps>> found;
    for (const Step& s : p.steps) {
      if (s.op != Op::Send && s.op != Op::Recv) continue;
      const Slice data = s.op == Op::Send ? s.a : s.dst;
      const Steps& classes = data.space == Space::In    ? p.in_class
                             : data.space == Space::Out ? p.out_class
                                                        : p.scratch_class;
      found.emplace_back(s.op, s.peer, s.match,
                         Steps(classes.begin() + data.first, classes.begin() + data.first + data.count));
    }
    return found;
  };
  for (int ranks = 1; ranks <= 9; ++ranks) {
    test::for_each_schedule(ranks, [&](const Algorithm& a, const CollectiveDesc& desc, test::PlacingKind placing) {
      for (int rank = 0; rank < ranks && placing == test::PlacingKind::InPlace; ++rank) {
        EXPECT_EQ(messages(build_program(a, desc, rank, ranks, true)),
                  messages(build_program(a, desc, rank, ranks, false)))
            << test::label(a, desc, ranks, placing);
      }
    });
  }
}

TEST(Algorithms, CopyNothingOnOneRank_InPlace) {
  test::for_each_schedule(1, [&](const Algorithm& a, const CollectiveDesc& desc, test::PlacingKind placing) {
    if (placing == test::PlacingKind::OutOfPlace || desc.op != ReduceOp::Sum) return;
    EXPECT_TRUE(build_program(a, desc, 0, 1, true).steps.empty()) << test::label(a, desc, 1, placing);
  });
}

TEST(Algorithms, AreFoundByNameOrNotAtAll) {
  ASSERT_NE(find_algorithm(Collective::AllReduce, "ring"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::AllReduce, "ring")->collective, Collective::AllReduce);
  EXPECT_EQ(find_algorithm(Collective::AllGatherV, "ring")->collective, Collective::AllGatherV);
  EXPECT_EQ(find_algorithm(Collective::Barrier, "ring"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::AllReduce, "rings"), nullptr);
}

TEST(Algorithms, SayWhyTheyCannotRun) {
  const Algorithm* doubling = find_algorithm(Collective::AllGather, "recursive_doubling");
  EXPECT_EQ(doubling->supports(desc_of(Collective::AllGather), 6).reason, "needs a power of two of ranks, not 6");
  CollectiveDesc desc = desc_of(Collective::AllReduce);
  desc.determinism = Determinism::Reproducible;
  const Algorithm* ring = find_algorithm(Collective::AllReduce, "ring");
  EXPECT_TRUE(ring->supports(desc, 6).ok) << "integers have the same bits in any order";
  desc.dtype = DType::F32;
  EXPECT_FALSE(ring->supports(desc, 6).ok);
}

TEST(ScheduleText, ShowsDataFlowAndOrder) {
  const Algorithm* ring = find_algorithm(Collective::AllReduce, "ring");
  EXPECT_EQ(to_text(build_program(*ring, desc_of(Collective::AllReduce, ReduceOp::Average), 0, 2, false)),
            "rank 0 of 2, out of place: 4 steps; chunks: 2 in, 2 out, 0 scratch\n"
            "    0  send in[0] as message 0 to rank 1\n"
            "    1  recv out[1] = scale(in[1] + message 0 from rank 1)\n"
            "    2  send out[1] as message 1 to rank 1             after 1\n"
            "    3  recv out[0] = message 1 from rank 1\n");
}

TEST(ScheduleText, ShowsRunsOfChunks) {
  EXPECT_EQ(
      to_text(Step{.op = Op::Reduce, .a = {Space::Scratch, 2, 3}, .b = {Space::In, 0, 3}, .dst = {Space::Out, 4, 3}}),
      "reduce out[4..6] = scratch[2..4] + in[0..2]");
}

}  // namespace
}  // namespace sinew

#include <set>

#include <gtest/gtest.h>

#include <fakes/interpreter.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <support/sanitized.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using fakes::Interpreter;
using test::PlacingKind;
using Value = Interpreter::Value;

/// Element e of the chunk of class c that rank r gives.
Value given(int r, std::uint32_t c, std::size_t e) {
  return 1 + static_cast<Value>(e) * 31 + static_cast<Value>(c) * 1009 + r * 1000003;
}

/// Uneven, some empty. In place a chunk that leaves is as large as the one that takes its place.
std::size_t elements(const CollectiveDesc& desc, int ranks, PlacingKind placing, std::uint32_t c) {
  if (desc.collective == Collective::Barrier) return 1;
  if (plain_form(desc.collective) != Collective::AllToAll) return (c * 5 + 3) % 4;
  const std::uint32_t from = c / static_cast<std::uint32_t>(ranks);
  const std::uint32_t to = c % static_cast<std::uint32_t>(ranks);
  return placing == PlacingKind::OutOfPlace ? (from + 2 * to + 3) % 4 : (from + to + 3) % 4;
}

Value scaled(ReduceOp op, int ranks, Value v) { return op == ReduceOp::Average ? v / ranks : 3 * v; }

Value sum_of_all(const CollectiveDesc& desc, int ranks, std::uint32_t c, std::size_t e) {
  Value sum = 0;
  for (int r = 0; r < ranks; ++r) {
    sum += desc.op == ReduceOp::PreMulSum ? scaled(desc.op, ranks, given(r, c, e)) : given(r, c, e);
  }
  return desc.op == ReduceOp::Average ? scaled(desc.op, ranks, sum) : sum;
}

Value expected(const CollectiveDesc& desc, int ranks, std::uint32_t c, std::size_t e) {
  switch (plain_form(desc.collective)) {
    case Collective::Broadcast:
    case Collective::Scatter: return given(desc.root, c, e);
    case Collective::AllGather:
    case Collective::Gather: return given(static_cast<int>(c), c, e);
    case Collective::AllToAll: return given(static_cast<int>(c) / ranks, c, e);
    default: return sum_of_all(desc, ranks, c, e);
  }
}

void fill(Interpreter& run, const Schedule& schedule) {
  for (const Program& p : schedule.programs) {
    for (std::uint32_t i = 0; i < p.in_class.size(); ++i) {
      const auto chunk = run.chunk(p.rank, Space::In, i);
      for (std::size_t e = 0; e < chunk.size(); ++e) chunk[e] = given(p.rank, p.in_class[i], e);
    }
  }
}

/// Every element of every Out chunk is what the collective says. Returns how many there were.
std::size_t expect_results(Interpreter& run, const Schedule& schedule) {
  std::size_t seen = 0;
  for (const Program& p : schedule.programs) {
    for (std::uint32_t i = 0; i < p.out_class.size(); ++i) {
      const auto chunk = run.chunk(p.rank, Space::Out, i);
      for (std::size_t e = 0; e < chunk.size(); ++e, ++seen) {
        EXPECT_EQ(chunk[e], expected(schedule.desc, p.ranks, p.out_class[i], e)) << "rank " << p.rank << " chunk " << i;
      }
    }
  }
  return seen;
}

/// A barrier leaves the token of every rank on every rank, in any order.
std::size_t expect_tokens(Interpreter& run, const Schedule& schedule) {
  std::set<Value> all;
  for (const Program& p : schedule.programs) all.insert(given(p.rank, 0, 0));
  for (const Program& p : schedule.programs) {
    std::set<Value> here;
    for (std::uint32_t i = 0; i < p.out_class.size(); ++i) here.insert(run.chunk(p.rank, Space::Out, i)[0]);
    EXPECT_EQ(here, all) << "rank " << p.rank;
  }
  return all.size();
}

void expect_inputs_untouched(Interpreter& run, const Schedule& schedule) {
  for (const Program& p : schedule.programs) {
    const Cells cells(schedule.desc.collective, p);
    for (std::uint32_t i = 0; i < p.in_class.size(); ++i) {
      if (cells.shared(i)) continue;
      const auto chunk = run.chunk(p.rank, Space::In, i);
      for (std::size_t e = 0; e < chunk.size(); ++e) EXPECT_EQ(chunk[e], given(p.rank, p.in_class[i], e));
    }
  }
}

class AlgorithmsOn : public ::testing::TestWithParam<int> {};

TEST_P(AlgorithmsOn, GiveExactResults_InAnyOrderOfSteps) {
  const int ranks = GetParam();
  std::size_t elements_seen = 0;
  test::for_each_schedule(ranks, [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    SCOPED_TRACE(test::label(a, desc, ranks, placing));
    const Schedule schedule = Recipe(a).build_all(desc, test::in_place(placing, ranks));
    for (unsigned seed = 0; seed < 3; ++seed) {
      Interpreter run(
          schedule, [&](std::uint32_t c) { return elements(desc, ranks, placing, c); },
          [&](Value v) { return scaled(desc.op, ranks, v); }, seed);
      fill(run, schedule);
      ASSERT_TRUE(run.run()) << "steps wait for one another";
      const bool barrier = desc.collective == Collective::Barrier;
      elements_seen += barrier ? expect_tokens(run, schedule) : expect_results(run, schedule);
      expect_inputs_untouched(run, schedule);
      ASSERT_FALSE(HasFailure());
    }
  });
  EXPECT_GT(elements_seen, 100u * static_cast<unsigned>(ranks));
}

INSTANTIATE_TEST_SUITE_P(Ranks, AlgorithmsOn, ::testing::Range(1, test::kSanitized ? 10 : 17));

}  // namespace
}  // namespace sinew

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/redistribution/route.hpp>

// The search alone, by prices that are known.
namespace sinew::parallel::test {
namespace {

using testing::ElementsAre;

using Entries = std::vector<Placements::Entry>;

const std::vector<Axis> kAxes{{"tp", 4}, {"dp", 2}};

/// Bytes of a rank's larger buffer.
double larger_bytes(const Question& q, const Factorisation& mesh) {
  if (q.largest_bytes > 0) return static_cast<double>(q.largest_bytes);
  std::uint64_t elements = q.count;
  if (!q.counts.empty()) {
    elements = 0;
    for (const std::uint64_t c : q.counts) elements += c;
  } else if (q.collective != Collective::AllReduce) {
    elements *= static_cast<std::uint64_t>(mesh.size(q.axis));
  }
  return static_cast<double>(elements * size_of(q.dtype));
}

/// 10 us, and what a ring moves at 1 GB/s: each rank sends (P-1)/P of its larger buffer, of an all_to_all (P-1)/P of
/// its own, of an all_reduce twice that.
Seconds ring(const Question& q, const Factorisation& mesh) {
  const double bytes = larger_bytes(q, mesh);
  const int ranks = mesh.size(q.axis);
  return 10e-6 + (q.collective == Collective::AllReduce ? 2 : 1) * bytes * (ranks - 1) / ranks / 1e9;
}

std::vector<Transition> route(const TensorSpec& from, const Placements& to) {
  const Factorisation mesh(kAxes);
  const Roads roads = roads_between(from, to, mesh);
  std::vector<Seconds> answers;
  for (const Question& q : roads.questions) answers.push_back(ring(q, mesh));
  return cheapest_way(roads, answers);
}

std::vector<std::string> text_of(const std::vector<Transition>& steps) {
  std::vector<std::string> texts;
  for (const Transition& s : steps)
    texts.push_back(s.axis + ": " + std::string(s.collective == Collective::Barrier ? "copy" : name_of(s.collective)));
  return texts;
}

/// Large, and divisible by all.
std::vector<std::string> ways(Entries from, Entries to, std::vector<std::int64_t> shape = {1024, 1024}) {
  return text_of(route({"t", DType::F32, std::move(shape), std::move(from)}, std::move(to)));
}

TEST(Route, IsOneStep_AlongOneAxis) {
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}}, {{"tp", Shard{1, {}}}}), ElementsAre("tp: all_to_all"));
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}}, {}), ElementsAre("tp: all_gather"));
  EXPECT_THAT(ways({{"tp", Partial{}}}, {}), ElementsAre("tp: all_reduce"));
  EXPECT_THAT(ways({{"tp", Partial{}}}, {{"tp", Shard{1, {}}}}), ElementsAre("tp: reduce_scatter"));
  EXPECT_THAT(ways({}, {{"tp", Shard{1, {}}}}), ElementsAre("tp: copy"));
  EXPECT_THAT(ways({}, {{"tp", Partial{}}}), ElementsAre("tp: copy"));
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}}, {{"tp", Partial{}}}), ElementsAre("tp: copy"));
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}}, {{"tp", Partial{ReduceOp::Average}}}),
              ElementsAre("tp: all_gather", "tp: copy"));
  EXPECT_THAT(ways({{"tp", Partial{}}}, {{"tp", Partial{ReduceOp::Max}}}), ElementsAre("tp: all_reduce", "tp: copy"));
}

TEST(Route, TakesTheForms_ForPartsThatDiffer) {
  const std::vector<std::int64_t> shape{1022, 1023};
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}}, {{"tp", Shard{1, {}}}}, shape), ElementsAre("tp: all_to_all_v"));
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}}, {}, shape), ElementsAre("tp: all_gather_v"));
  EXPECT_THAT(ways({{"tp", Partial{}}}, {{"tp", Shard{1, {}}}}, shape), ElementsAre("tp: reduce_scatter_v"));
  EXPECT_THAT(ways({{"dp", Shard{0, {0, 500, 1024}}}}, {{"dp", Shard{0, {}}}}), ElementsAre("dp: all_to_all_v"));
  EXPECT_THAT(ways({{"dp", Shard{0, {0, 512, 1024}}}}, {{"dp", Shard{0, {}}}}), ElementsAre());
}

TEST(Route, GoesByWayOfOthers_WhereACutLiesInsideAnother) {
  const Entries tp_outside{{"tp", Shard{0, {}}}, {"dp", Shard{0, {}}}};
  const Entries dp_outside{{"dp", Shard{0, {}}}, {"tp", Shard{0, {}}}};
  EXPECT_THAT(ways(tp_outside, dp_outside), ElementsAre("dp: all_gather", "tp: all_gather", "dp: copy", "tp: copy"));
  EXPECT_THAT(ways(tp_outside, {{"dp", Shard{0, {}}}}), ElementsAre("dp: all_gather", "tp: all_gather", "dp: copy"));
  // By hand: tp moves to the columns, which leaves the rows to dp: 534 + 927 + 66 us; over the whole it takes 3962.
  EXPECT_THAT(ways(tp_outside, {{"dp", Shard{0, {}}}, {"tp", Shard{1, {}}}}),
              ElementsAre("dp: all_gather", "tp: all_to_all", "dp: copy"));
}

TEST(Route, ReducesWhatIsLeast_OfSeveralAxes) {
  // The sum over dp of a quarter of the rows, and then these are gathered.
  EXPECT_THAT(ways({{"tp", Shard{0, {}}}, {"dp", Partial{}}}, {}), ElementsAre("dp: all_reduce", "tp: all_gather"));
  // dp's sum of what tp has to cut anyhow.
  EXPECT_THAT(ways({{"dp", Partial{}}}, {{"tp", Shard{0, {}}}}), ElementsAre("tp: copy", "dp: all_reduce"));
}

TEST(Route, KeepsTheOrderOfOperators_ThatDoNotCommute) {
  EXPECT_THAT(ways({{"tp", Partial{}}, {"dp", Partial{ReduceOp::Max}}}, {}),
              ElementsAre("dp: all_reduce", "tp: all_reduce"));
  EXPECT_THAT(ways({{"dp", Partial{ReduceOp::Max}}, {"tp", Partial{}}}, {}),
              ElementsAre("tp: all_reduce", "dp: all_reduce"));
}

/// Every placement of two axes of a matrix, both orders of cutting.
std::vector<Placements> all_placements() {
  const std::vector<Placement> each{Replicate{}, Shard{0, {}}, Shard{1, {}}, Partial{}};
  std::vector<Placements> all;
  for (const Placement& tp : each) {
    for (const Placement& dp : each) {
      all.push_back(Entries{{"tp", tp}, {"dp", dp}});
      if (tp == dp && std::holds_alternative<Shard>(tp)) all.push_back(Entries{{"dp", dp}, {"tp", tp}});
    }
  }
  return all;
}

Seconds sum_of(const std::vector<Transition>& steps) {
  Seconds sum = 0;
  for (const Transition& s : steps) sum += s.predicted;
  return sum;
}

TEST(Route, IsNeverDearerThanByWayOfTheWholeOnEveryRank) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{1024, 1024}, {1021, 3}, {2, 2}, {0, 5}}) {
    for (const Placements& from : all_placements()) {
      for (const Placements& to : all_placements()) {
        const TensorSpec start{"t", DType::F32, shape, from};
        const TensorSpec whole{"t", DType::F32, shape, {}};
        const Seconds by_whole = sum_of(route(start, {})) + sum_of(route(whole, to));
        EXPECT_LE(sum_of(route(start, to)), by_whole * (1 + 1e-12)) << from.to_string() << " -> " << to.to_string();
      }
    }
  }
}

/// Does any way of at most so many steps cost less?
bool is_cheaper_way(const TensorSpec& state, const Placements& to, std::span<const Choices> choices,
                    const Factorisation& mesh, int steps, Seconds budget) {
  if (budget <= 0) return false;
  if (state.placements == to) return true;
  if (steps == 0) return false;
  for (const Move& move : moves_from(state, choices, mesh)) {
    TensorSpec next = state;
    next.placements = move.after;
    const Seconds sent = move.question.collective == Collective::Barrier ? 0 : ring(move.question, mesh);
    const Seconds copied = static_cast<double>(move.copied_bytes) / 8e9;
    if (is_cheaper_way(next, to, choices, mesh, steps - 1, budget - sent - copied)) return true;
  }
  return false;
}

TEST(Route, IsTheCheapestOfAllWaysOfUpToSixSteps) {
  const Factorisation mesh(kAxes);
  for (const Placements& from : all_placements()) {
    for (const Placements& to : all_placements()) {
      TensorSpec start{"t", DType::F32, {1024, 1024}, from};
      const TensorSpec end{"t", DType::F32, {1024, 1024}, to};
      const Seconds found = sum_of(route(start, to));
      start.placements = normal_form(start, mesh);
      const Placements target = normal_form(end, mesh);
      const auto choices = choices_between(start.placements, target);
      EXPECT_FALSE(is_cheaper_way(start, target, choices, mesh, 6, found * (1 - 1e-9)))
          << from.to_string() << " -> " << to.to_string();
      // It is one of those that are looked at.
      EXPECT_EQ(is_cheaper_way(start, target, choices, mesh, 6, found * (1 + 1e-9)), found > 0)
          << from.to_string() << " -> " << to.to_string();
    }
  }
}

TEST(NormalForm, IsOneForAllSpellings) {
  const Factorisation mesh({{"a", 2}, {"b", 2}, {"c", 2}, {"one", 1}});
  const auto form = [&](Entries entries, DType dtype = DType::F32) {
    return normal_form({"t", dtype, {8, 8}, std::move(entries)}, mesh).to_string();
  };
  EXPECT_EQ(form({{"b", Shard{0, {}}}, {"a", Shard{1, {}}}}), "a: Shard(1), b: Shard(0)");
  EXPECT_EQ(form({{"b", Shard{0, {}}}, {"a", Shard{0, {}}}}), "b: Shard(0), a: Shard(0)");
  EXPECT_EQ(form({{"c", Shard{0, {}}}, {"a", Shard{0, {}}}, {"b", Partial{}}}),
            form({{"b", Partial{}}, {"c", Shard{0, {}}}, {"a", Shard{0, {}}}}));
  EXPECT_EQ(form({{"one", Partial{}}, {"a", Shard{0, {0, 4, 8}}}, {"b", Shard{0, {0, 1, 4}}}}),
            "a: Shard(0), b: Shard(0: 0, 1, 4)");
  EXPECT_EQ(form({{"b-a", Shard{0, {}}}}), "a-b: Shard(0)");
  EXPECT_EQ(form({{"b", Partial{}}, {"a", Partial{ReduceOp::Average}}}), "a: Partial(avg), b: Partial(sum)");
  EXPECT_EQ(form({{"b", Partial{}}, {"a", Partial{ReduceOp::Average}}}, DType::I32),
            "b: Partial(sum), a: Partial(avg)");
  EXPECT_EQ(form({{"b", Partial{}}, {"a", Partial{ReduceOp::Max}}}), "b: Partial(sum), a: Partial(max)");
}

}  // namespace
}  // namespace sinew::parallel::test

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/carry.hpp>
#include <support/worlds.hpp>

#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::Lying;
using test::Parts;
using test::parts_of_rank;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Lying kLyings[] = {Lying::Copies, Lying::Flat, Lying::Rows, Lying::Columns, Lying::FlatOfColumns};

TEST(CarryOver, FillsEveryLayoutFromEveryOther) {
  for (const Lying from : kLyings) {
    for (const Lying to : kLyings) {
      const int ranks = 1 + (static_cast<int>(from) * 2 + static_cast<int>(to)) % 5;
      on_threads(ranks, only("inproc"), [&](World& world) {
        const Parts held = parts_of_rank(from, world.rank(), ranks, true);
        Parts wanted = parts_of_rank(to, world.rank(), ranks, false);
        require(wanted.wrong_bytes() > 0, "the test's memory is right before anything is carried");
        const auto carried = carry_over(world.communicator(), {7, 5, held.all}, wanted.all);
        require(carried && carried->step == 7 && carried->optimizer_steps == 5, "the step that all hold");
        require(wanted.wrong_bytes() == 0, "other bytes than were held");
      });
    }
  }
}

/// Ranks 0 to 2 of four are left: what was cut over four is not whole any more, what each had is.
TEST(CarryOver, FindsNothing_WhereWhatADeadRankHadWasOnNoOther) {
  for (const Lying how : kLyings) {
    on_threads(3, only("inproc"), [&](World& world) {
      const Parts held = parts_of_rank(how, world.rank(), 4, true);
      Parts wanted = parts_of_rank(Lying::Flat, world.rank(), 3, false);
      const std::size_t wrong = wanted.wrong_bytes();
      const bool is_there = carry_over(world.communicator(), {7, 7, held.all}, wanted.all).has_value();
      require(is_there == (how == Lying::Copies), "only copies outlive their rank");
      require(wanted.wrong_bytes() == (is_there ? 0 : wrong), "all or nothing is written");
    });
  }
}

/// Rank 1 has ended a step more than the others, alone, or has not.
TEST(CarryOver, TakesTheNewestStepThatIsWhole) {
  on_threads(3, only("inproc"), [](World& world) {
    const int r = world.rank();
    for (const bool alone_is_whole : {true, false}) {
      const Parts held =
          r == 1 && !alone_is_whole ? parts_of_rank(Lying::Rows, 0, 2, true) : parts_of_rank(Lying::Copies, r, 3, true);
      Parts wanted = parts_of_rank(Lying::Columns, r, 3, false);
      const std::int64_t step = r == 1 ? 8 : 7;
      const auto carried = carry_over(world.communicator(), {step, step, held.all}, wanted.all);
      require(carried && carried->step == (alone_is_whole ? 8 : 7), "the newest whole one");
      require(wanted.wrong_bytes() == 0, "other bytes than were held");
    }
    Parts wanted = parts_of_rank(Lying::Flat, r, 3, false);
    const Parts held = parts_of_rank(Lying::Copies, r, 3, true);
    const HeldState only_last = r == 2 ? HeldState{3, 3, held.all} : HeldState{};
    require(carry_over(world.communicator(), only_last, wanted.all)->step == 3, "one rank holds it");
    require(wanted.wrong_bytes() == 0, "what one rank holds");
    require(!carry_over(world.communicator(), HeldState{}, wanted.all), "nobody holds anything");
  });
}

/// The scale of the loss is that of the step that is carried, which other ranks have not ended yet.
TEST(CarryOver, TakesTheLossScaleOfThatStep) {
  on_threads(3, only("inproc"), [](World& world) {
    const int r = world.rank();
    const Parts held = parts_of_rank(Lying::Copies, r, 3, true);
    Parts wanted = parts_of_rank(Lying::Columns, r, 3, false);
    const LossScaleState before{0.1, 11, 2}, after{0.05, 0, 3};
    const HeldState state{r == 1 ? 8 : 7, 5, held.all, r == 1 ? after : before};
    const auto carried = carry_over(world.communicator(), state, wanted.all);
    require(carried && carried->step == 8 && carried->loss_scale == after, "rank 1's");
    const auto without = carry_over(world.communicator(), {7, 5, held.all}, wanted.all);
    require(without && !without->loss_scale, "nobody scales");
  });
}

TEST(CarryOver, TakesTheSamplerOfThatStep) {
  on_threads(3, only("inproc"), [](World& world) {
    const int r = world.rank();
    const Parts held = parts_of_rank(Lying::Copies, r, 3, true);
    Parts wanted = parts_of_rank(Lying::Columns, r, 3, false);
    const SamplerState before{~std::uint64_t{0}, 1000, true, 4, 64}, after{~std::uint64_t{0}, 1000, true, 4, 96};
    const auto carried =
        carry_over(world.communicator(),
                   {.step = r == 1 ? 8 : 7, .parts = held.all, .sampler = r == 1 ? after : before}, wanted.all);
    require(carried && carried->step == 8 && carried->sampler == after && !carried->loss_scale, "rank 1's");
  });
}

/// Ranks that were dealt a new layout already, and one that was not: parts of both have elements in common.
TEST(CarryOver, MixesOldAndNewLayouts) {
  on_threads(3, only("inproc"), [](World& world) {
    const int r = world.rank();
    const Parts held = r < 2 ? parts_of_rank(Lying::Flat, r, 2, true) : parts_of_rank(Lying::Columns, 1, 3, true);
    Parts wanted = parts_of_rank(Lying::Rows, r, 3, false);
    require(carry_over(world.communicator(), {4, 4, held.all}, wanted.all).has_value(), "whole");
    require(wanted.wrong_bytes() == 0, "other bytes than were held");
  });
}

/// Ranks 0 to 2 have the halves 0, 0 and 1 of everything, rank 3 the next step's half 0.
TEST(CarryOver, LetsGoWhomTheOthersCanDoWithout) {
  on_threads(4, only("inproc"), [](World& world) {
    const int r = world.rank();
    const Parts held = parts_of_rank(Lying::Flat, r == 2 ? 1 : 0, 2, true);
    const auto leave = [&](int leaving) {
      return ranks_to_leave(world.communicator(), {r == 3 ? 8 : 7, 7, held.all}, leaving);
    };
    require(leave(1) == std::vector{3} && leave(2) == std::vector{3, 1}, "rank 2 alone has its half");
    require(leave(3) == std::vector{1, 2, 3}, "none is whole: the last ones");
    require(ranks_to_leave(world.communicator(), HeldState{}, 1) == std::vector{3}, "nobody holds anything");
  });
}

/// More than one round: 48 MB from one rank.
TEST(CarryOver, CutsLongPartsIntoRounds) {
  on_threads(2, only("inproc"), [](World& world) {
    const CheckpointItem item{"long", DType::F64, {6'000'001}};
    Parts held, wanted;
    held.add(item, whole_of(item), world.rank() == 0);
    wanted.add(item, whole_of(item), false);
    const HeldState state{world.rank() == 0 ? 2 : 1, 2, held.all};
    require(carry_over(world.communicator(), state, wanted.all)->step == 2, "rank 0's");
    require(wanted.wrong_bytes() == 0, "other bytes than were held");
  });
}

TEST(CarryOver, NamesAnItemOfAnotherShape_OnAllRanks) {
  on_threads(2, only("inproc"), [](World& world) {
    const CheckpointItem item{"w", DType::F32, {4, 2}}, other{"w", DType::F32, {8}};
    Parts held, wanted;
    held.add(item, whole_of(item), true);
    wanted.add(world.rank() == 1 ? other : item, whole_of(world.rank() == 1 ? other : item), false);
    const std::string text = complaint([&] {
      static_cast<void>(carry_over(world.communicator(), {1, 1, held.all}, wanted.all));
    });
    require(text.find("rank 1") != std::string::npos, text);
    require(text.find("'w' (f32 [4, 2])") != std::string::npos && text.find("'w' (f32 [8])") != std::string::npos,
            text);
  });
}

}  // namespace
}  // namespace sinew::parallel

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/checkpoint/buddy_copies.hpp>
#include <support/worlds.hpp>

#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;
using test::Lying;
using test::Parts;
using test::parts_of_rank;
using ::testing::ElementsAre;

TEST(ChooseBuddies, TakesTheNextRank_OnOneHost) {
  EXPECT_THAT(choose_buddies({0, 0, 0, 0}), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(choose_buddies({0}), ElementsAre(0));
}

TEST(ChooseBuddies, TakesAnotherHost_WhereverThatIsPossible) {
  // Several sizes of hosts, in blocks and mixed.
  const std::vector<std::vector<int>> cases{{0, 0, 1, 1},       {0, 1, 0, 1},    {0, 0, 1, 1, 2},
                                            {0, 1, 1, 2, 2, 2}, {0, 0, 0, 0, 1}, {2, 0, 1, 0, 2, 0, 1}};
  for (const std::vector<int>& hosts : cases) {
    const std::vector<int> buddies = choose_buddies(hosts);
    std::vector<int> sorted = buddies;
    std::ranges::sort(sorted);
    std::ptrdiff_t within = 0, largest = 0;
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      EXPECT_EQ(sorted[r], static_cast<int>(r)) << "each rank is the buddy of one";
      EXPECT_NE(buddies[r], static_cast<int>(r));
      within += hosts[static_cast<std::size_t>(buddies[r])] == hosts[r] ? 1 : 0;
      largest = std::max(largest, std::ranges::count(hosts, hosts[r]));
    }
    // Ranks of the largest host have as many buddies elsewhere as there are other ranks.
    EXPECT_EQ(within, std::max<std::ptrdiff_t>(2 * largest - std::ssize(hosts), 0)) << hosts.size() << " ranks";
  }
}

/// A state that follows from its step. The items of `tensors.hpp` have the same bytes in all steps.
class Training {
 public:
  Training(World& world, Lying how)
      : world_(world), parts_(parts_of_rank(how, world.rank(), world.size(), true)), copies_(world.communicator()) {
    const CheckpointItem item{"step", DType::I64, {world.size()}};
    all_ = parts_.all;
    all_.push_back({item, range_of(item, world.rank(), world.rank() + 1), buffer_of(std::span(&number_, 1))});
  }

  void step() { number_ = ++step_; }
  BuddyCopies& copies() { return copies_; }
  HeldState own() const { return {step_, step_, all_}; }
  void copy() { copies_.copy(own()); }

  /// Returns the step that the ranks hold together without those that have died.
  std::optional<std::int64_t> carry(const std::vector<int>& dead) {
    std::vector<HeldState> states = copies_.held();
    states.push_back(own());
    if (std::ranges::find(dead, world_.rank()) != dead.end()) states.clear();
    Parts wanted = parts_of_rank(Lying::Columns, world_.rank(), world_.size(), false);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(world_.size()), -7);
    std::vector<CheckpointPart> all = wanted.all;
    const CheckpointItem& item = all_.back().item;
    all.push_back({item, whole_of(item), buffer_of(std::span(numbers))});
    const auto carried = carry_over(world_.communicator(), states, all);
    if (!carried) return std::nullopt;
    require(wanted.wrong_bytes() == 0, "other bytes than were held");
    for (const std::int64_t n : numbers) require(n == carried->step, "state of another step");
    return carried->step;
  }

 private:
  World& world_;
  Parts parts_;
  BuddyCopies copies_;
  std::int64_t step_ = 0, number_ = 0;
  std::vector<CheckpointPart> all_;
};

TEST(BuddyCopies, BringBackWhatADeadRankHad) {
  for (const int ranks : {2, 3, 5}) {
    on_threads(ranks, only("inproc"), [](World& world) {
      Training training(world, Lying::Flat);
      training.step();
      require(!training.carry({0}), "nobody has a copy yet");
      training.copy();
      for (int dead = 0; dead < world.size(); ++dead)
        require(training.carry({dead}) == 1, "the step that was copied, while the copies arrive");
    });
  }
}

/// Ranks compute the next steps in place, so the step of the copies is only in the copies.
TEST(BuddyCopies, BringBackTheLastStepThatAllHaveCopied) {
  on_threads(4, only("inproc"), [](World& world) {
    Training training(world, Lying::FlatOfColumns);
    for (int s = 1; s <= 4; ++s) {
      training.step();
      training.copy();
    }
    training.step();
    require(training.carry({}) == 5, "nobody died");
    require(training.carry({2}) == 4, "rank 2 died in step 6");
  });
}

/// Rank 1 dies before it has begun to copy step 3. Its buddy has step 2 of it, and so have all others of themselves.
TEST(BuddyCopies, FallBackToTheStepBefore_WhereARankDiesBetweenCopies) {
  on_threads(4, only("inproc"), [](World& world) {
    Training training(world, Lying::Rows);
    training.step();
    training.copy();
    training.step();
    training.copy();
    training.copies().finish();
    training.step();
    if (world.rank() == 3) training.step();  // ranks may be a step apart
    require(training.carry({1}) == 2, "step 3 has no copy");
  });
}

TEST(BuddyCopies, AreLost_WhereARankAndItsBuddyDie) {
  on_threads(4, only("inproc"), [](World& world) {
    Training training(world, Lying::Flat);
    training.step();
    training.copy();
    require(training.copies().buddy() == (world.rank() + 1) % 4, "the next rank");
    require(!training.carry({1, 2}), "rank 2 had the copy of rank 1");
    require(training.carry({1, 3}) == 1, "both copies are left");
  });
}

TEST(BuddyCopies, FollowPartsThatChange) {
  on_threads(3, only("inproc"), [](World& world) {
    BuddyCopies copies(world.communicator());
    std::int64_t step = 0;
    for (const Lying how : {Lying::Flat, Lying::Rows, Lying::Rows, Lying::Columns}) {
      const Parts held = parts_of_rank(how, world.rank(), world.size(), true);
      copies.copy({++step, step, held.all});
      const std::vector<HeldState> states = copies.held();
      require(states.size() == (step == 1 ? 2 : 4), "two steps, of two ranks each");
      Parts wanted = parts_of_rank(Lying::Copies, world.rank(), world.size(), false);
      const auto mine = world.rank() == 1 ? std::vector<HeldState>{} : states;
      require(carry_over(world.communicator(), mine, wanted.all)->step == step, "the newest one");
      require(wanted.wrong_bytes() == 0, "other bytes than were held");
      require(copies.memory_bytes() > copies.bytes_of_copy(), "the copies take memory");
    }
  });
}

TEST(BuddyCopies, NameTheSteps_WhereRanksCopyDifferentOnes) {
  on_threads(3, only("inproc"), [](World& world) {
    BuddyCopies copies(world.communicator());
    const Parts held = parts_of_rank(Lying::Flat, world.rank(), world.size(), true);
    const std::int64_t step = world.rank() == 2 ? 8 : 7;
    require_part(complaint([&] { copies.copy({step, step, held.all}); }), "ranks copy steps from 7 to 8");
    copies.copy({8, 8, held.all});
    copies.finish();
  });
}

TEST(BuddyCopies, RefuseABufferOfAnotherLength_InEachCopy) {
  on_threads(3, only("inproc"), [](World& world) {
    BuddyCopies copies(world.communicator());
    const Parts held = parts_of_rank(Lying::Flat, world.rank(), world.size(), true);
    copies.copy({1, 1, held.all});
    std::vector<CheckpointPart> parts = held.all;
    if (world.rank() == 1) parts.front().buffer.bytes += 8;
    const std::string what = complaint([&] { copies.copy({2, 2, parts}); });
    require_part(what, "rank 1");
    require_part(what, "bytes, expected");
    copies.copy({2, 2, held.all});
    copies.finish();
  });
}

TEST(BuddyCopies, AreNone_WithOneRank) {
  on_threads(1, only("inproc"), [](World& world) {
    BuddyCopies copies(world.communicator());
    const Parts held = parts_of_rank(Lying::Flat, 0, 1, true);
    copies.copy({1, 1, held.all});
    require(copies.held().empty() && copies.memory_bytes() == 0, "nobody would have them");
  });
}

/// The last rank ends in the middle of a step, at another point in each job. The others have no checkpoint.
TEST(BuddyCopies, OutliveARankThatIsKilled) {
  for (int point = 0; point < 4; ++point) {
    in_processes(4, only("shm"), [point](World& world) {
      Training training(world, Lying::Flat);
      const auto dies = [&](int at) {
        if (world.rank() == 3 && training.own().step >= 5 && at == point) ::_exit(0);
      };
      std::optional<Error> lost;
      try {
        for (int s = 0; s < 1000; ++s) {
          dies(0);
          training.step();
          dies(1);
          training.copy();
          dies(2);
          world.communicator().barrier().get();
          dies(3);
        }
      } catch (const Error& e) {
        lost = e;
      }
      require(lost.has_value() && lost->code() == Code::PeerLost, "rank 3 has died");
      World left = world.shrink();
      std::vector<HeldState> states = training.copies().held();
      states.push_back(training.own());
      std::vector<std::int64_t> numbers(4);
      Parts wanted = parts_of_rank(Lying::Flat, left.rank(), left.size(), false);
      std::vector<CheckpointPart> all = wanted.all;
      const CheckpointItem& item = training.own().parts.back().item;
      all.push_back({item, whole_of(item), buffer_of(std::span(numbers))});
      const auto carried = carry_over(left.communicator(), states, all);
      // Perhaps the copy of step 4 has not arrived when rank 3 has ended step 5.
      require(carried && carried->step >= 3 && carried->step <= 6, "the last copy or the one before");
      require(wanted.wrong_bytes() == 0, "other bytes than were held");
      for (const std::int64_t n : numbers) require(n == carried->step, "state of another step");
    });
  }
}

}  // namespace
}  // namespace sinew::parallel

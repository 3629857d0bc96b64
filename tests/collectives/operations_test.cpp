#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/worlds.hpp"

// Calls beyond the cover of all collectives (communicator_test.cpp): groups, plans that are kept, counts that disagree.
namespace sinew::test {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Counts = std::vector<std::uint64_t>;

class Operations : public testing::TestWithParam<const char*> {
 protected:
  static void run(int ranks, const Body& body, Threads threads = Threads::Single) {
    WorldOptions options = only(GetParam());
    options.threads = threads;
    on_threads(ranks, options, body);
  }
};

TEST_P(Operations, ExchangeWithBothNeighbours_InOneSendrecv) {
  for (const Threads threads : {Threads::Single, Threads::Multiple}) {
    run(
        3,
        [](World& world) {
          Communicator& all = world.communicator();
          const int right = (all.rank() + 1) % 3;
          const int left = (all.rank() + 2) % 3;
          for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
            std::vector<std::int32_t> mine(count, all.rank());
            std::vector<std::int32_t> theirs(count, -1);
            all.sendrecv(mine, right, theirs, left, 7, 7).get();
            require(std::ranges::count(theirs, left) == static_cast<std::ptrdiff_t>(count), fmt::format("{}", count));
          }
        },
        threads);
  }
}

TEST_P(Operations, EndAGroup_WhenItsLastMessageIsOver) {
  for (const Threads threads : {Threads::Single, Threads::Multiple}) {
    run(
        4,
        [](World& world) {
          Communicator& all = world.communicator();
          std::vector<std::int32_t> given(4 * 1000, all.rank());
          std::vector<std::int32_t> got(4 * 1000, -1);
          const auto part = [](std::vector<std::int32_t>& v, int r) {
            return std::span(v).subspan(static_cast<std::size_t>(1000 * r), 1000);
          };
          std::vector<Message> messages;
          for (int r = 0; r < 4; ++r) {
            if (r == all.rank()) continue;
            messages.push_back(Message::send(part(given, r), r, 3));
            messages.push_back(Message::recv(part(got, r), r, 3));
          }
          Work first = all.group(messages);
          Work second = all.group({Message::send(part(given, 0), (all.rank() + 1) % 4, 4),
                                   Message::recv(part(got, all.rank()), (all.rank() + 3) % 4, 4)});
          second.get();
          first.get();
          for (int r = 0; r < 4; ++r) {
            const int from = r == all.rank() ? (r + 3) % 4 : r;
            require(got[static_cast<std::size_t>(1000 * r + 999)] == from, fmt::format("part {}", r));
          }
          require(all.group({}).done(), "a group of nothing is over");
        },
        threads);
  }
}

TEST_P(Operations, EndAGroupWithItsFirstFailure_AndTheOtherMessagesArrive) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    const int peer = 1 - all.rank();
    std::array<std::int32_t, 4> mine{1, 2, 3, 4};
    std::array<std::int32_t, 4> second{};
    std::array<std::int32_t, 2> too_short{-1, -1};
    if (all.rank() == 0) {
      Work work = all.group({Message::recv(too_short, peer, 1), Message::recv(second, peer, 2)});
      const Status status = work.wait();
      EXPECT_EQ(status.code(), Code::Truncated) << status.message();
      EXPECT_EQ(status.rank(), 1);
      EXPECT_EQ(second, mine);
      EXPECT_EQ(too_short, (std::array<std::int32_t, 2>{-1, -1}));
    } else {
      static_cast<void>(all.group({Message::send(mine, peer, 1), Message::send(mine, peer, 2)}).wait());
    }
    all.barrier().get();
  });
}

TEST_P(Operations, RefuseMessagesInAGroup_NamingTheArgument) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::array<float, 2> data{};
    EXPECT_THAT(complaint([&] { all.sendrecv(data, 2, data, 0).get(); }), HasSubstr("sendrecv: "));
    EXPECT_EQ(complaint([&] { all.group({Message::recv(Buffer{}, 5)}).get(); }),
              "group: from_rank is 5, expected 0 to 1");
  });
}

TEST_P(Operations, SayWhomAGroupWaitsFor) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::array<std::int32_t, 4> data{};
    if (all.rank() == 0) {
      Work work = all.group({Message::recv(data, 1, 9)});
      const std::string why = all.verdict();
      EXPECT_THAT(why, AllOf(HasSubstr("messages with rank 1 at "), HasSubstr("operations_test.cpp:")));
      all.barrier().get();
      work.get();
    } else {
      all.barrier().get();
      all.send(data, 0, 9).get();
    }
  });
}

TEST_P(Operations, SayWhichSizeTheyWereChosenFor_WhereCountsAreLocal) {
  run(2, [](World& world) {
    CollectiveDesc desc{.collective = Collective::AllToAllV, .dtype = DType::F32};
    EXPECT_THAT(world.communicator().plan(desc).explain(), HasSubstr("for 1MiB as no bound was given"));
    desc.largest_bytes = 64;
    EXPECT_THAT(world.communicator().plan(desc).explain(),
                AllOf(HasSubstr("all_to_all_v(f32, at most 64 bytes)"), Not(HasSubstr("no bound"))));
    const std::string gather = world.communicator().plan({.collective = Collective::GatherV}).explain();
    EXPECT_THAT(gather, HasSubstr("direct"));
  });
}

TEST_P(Operations, RunAKeptPlanAgainAndAgain_SeveralInFlight) {
  for (const Threads threads : {Threads::Single, Threads::Multiple}) {
    run(
        3,
        [](World& world) {
          Communicator& all = world.communicator();
          const Plan sum = all.plan({.collective = Collective::AllReduce, .dtype = DType::I64, .count = 1000});
          const Counts counts{3, 0, 5};
          const Plan gather = all.plan({.collective = Collective::AllGatherV, .dtype = DType::I64, .counts = counts});
          const Plan spread =
              all.plan({.collective = Collective::Broadcast, .dtype = DType::I64, .root = 2, .count = 4});
          const auto bytes_of = [](std::vector<std::int64_t>& v) {
            return Buffer{reinterpret_cast<std::byte*>(v.data()), v.size() * 8};
          };
          for (int round = 0; round < 3; ++round) {
            std::vector<std::int64_t> a(1000, 1), b(1000, all.rank());
            std::vector<std::int64_t> in(counts[static_cast<std::size_t>(all.rank())], all.rank()), out(8, -1);
            std::vector<std::int64_t> word(4, all.rank());
            Work works[] = {all.run(sum, bytes_of(a), bytes_of(a)), all.run(sum, bytes_of(b), bytes_of(b)),
                            all.run(gather, bytes_of(in), bytes_of(out)), all.run(spread, {}, bytes_of(word))};
            for (auto w = std::rbegin(works); w != std::rend(works); ++w) w->get();
            require(a.back() == 3 && b.back() == 3, "sums");
            require(out == std::vector<std::int64_t>{0, 0, 0, 2, 2, 2, 2, 2}, "parts");
            require(word.back() == 2, "word");
          }
        },
        threads);
  }
}

TEST_P(Operations, RefuseAPlan_ThatIsNotTheirs) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> data(4);
    const Buffer b{reinterpret_cast<std::byte*>(data.data()), 16};
    Plan gone;
    {
      Communicator other = all.split(0);
      gone = other.plan({.collective = Collective::AllReduce, .dtype = DType::F32, .count = 4});
      other.run(gone, b, b).get();
      EXPECT_EQ(complaint([&] { all.run(gone, b, b).get(); }), "run: the plan is of another communicator");
    }
    EXPECT_EQ(complaint([&] { all.run(gone, b, b).get(); }), "run: the plan is of a communicator that has gone");
    EXPECT_THAT(complaint([&] { all.run(Plan{}, b, b).get(); }), HasSubstr("of no communicator"));
    const Plan local = all.plan({.collective = Collective::AllToAllV, .dtype = DType::F32});
    EXPECT_THAT(complaint([&] { all.run(local, b, b).get(); }), HasSubstr("belong to each call"));
    const Plan other_count = all.plan({.collective = Collective::AllReduce, .dtype = DType::F32, .count = 5});
    EXPECT_EQ(complaint([&] { all.run(other_count, b, b).get(); }), "all_reduce: in has 16 bytes, expected 20");
  });
}

TEST_P(Operations, KeepAPlan_WhenMoreCallsWereMadeThanAreRemembered) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::vector<std::int32_t> kept(7, 1);
    const Buffer b{reinterpret_cast<std::byte*>(kept.data()), 28};
    const Plan plan = all.plan({.collective = Collective::AllReduce, .dtype = DType::I32, .count = 7});
    for (std::size_t count = 8; count < 600; ++count) {
      std::vector<std::int32_t> data(count);
      all.all_reduce(data).get();
    }
    all.run(plan, b, b).get();
    EXPECT_EQ(kept.back(), 2);
  });
}

TEST_P(Operations, KeepEachCallsOwnCounts_WithSeveralInFlight) {
  for (const Threads threads : {Threads::Single, Threads::Multiple}) {
    run(
        3,
        [](World& world) {
          Communicator& all = world.communicator();
          const auto me = static_cast<std::uint64_t>(all.rank());
          constexpr std::size_t kCalls = 5;
          std::vector<std::vector<std::int32_t>> in(kCalls), out(kCalls);
          std::vector<Work> works;
          for (std::uint64_t call = 0; call < kCalls; ++call) {
            Counts gives(3), takes(3);
            for (std::uint64_t r = 0; r < 3; ++r) {
              gives[r] = 100 * call + 10 * me + r;
              takes[r] = 100 * call + 10 * r + me;
            }
            in[call].assign(std::accumulate(gives.begin(), gives.end(), 0UL),
                            static_cast<std::int32_t>(me + 10 * call));
            out[call].assign(std::accumulate(takes.begin(), takes.end(), 0UL), -1);
            works.push_back(all.all_to_all_v(in[call], out[call], {gives}, {takes}));
          }
          for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
          for (std::uint64_t call = 0; call < kCalls; ++call) {
            auto at = out[call].begin();
            for (std::uint64_t r = 0; r < 3; ++r) {
              const auto takes = static_cast<std::ptrdiff_t>(100 * call + 10 * r + me);
              require(std::count(at, at + takes, static_cast<std::int32_t>(r + 10 * call)) == takes,
                      fmt::format("call {} part {}", call, r));
              at += takes;
            }
          }
        },
        threads);
  }
}

/// One rank sends another more, or less, than that expects: all learn which and how many.
TEST_P(Operations, EndWithBothCounts_WhenAPairDisagrees) {
  for (const std::uint64_t sent : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{70'000}}) {
    run(3, [sent](World& world) {
      Communicator c = world.communicator().split(0);
      Counts gives(3, 6), takes(3, 6);
      if (c.rank() == 2) gives[1] = sent;
      std::vector<std::int32_t> in(80'000), out(20, -1);
      Status status = c.all_to_all_v(in, out, {gives}, {takes}).wait(Deadline::after(seconds(20)));
      if (status.ok()) status = c.barrier().wait(Deadline::after(seconds(20)));
      EXPECT_EQ(status.code(), Code::Mismatch) << status.message();
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(fmt::format("rank 2 sent rank 1 {} elements, which expected 6", sent)),
                        HasSubstr("operations_test.cpp:")));
      EXPECT_EQ(std::vector<std::int32_t>(out.begin() + 18, out.end()), std::vector<std::int32_t>(2, -1));
      world.communicator().barrier().get();  // who leaves before the others have heard is a reason of its own
    });
  }
}

TEST_P(Operations, EndWithBothCounts_WhenTheRootExpectsOthers) {
  run(3, [](World& world) {
    Communicator c = world.communicator().split(0);
    const Counts takes{4, 4, 4};
    std::vector<std::int32_t> in(c.rank() == 1 ? 3 : 4), out(12);
    Status status = c.gather_v(in, out, 0, {takes}).wait(Deadline::after(seconds(20)));
    if (status.ok()) status = c.barrier().wait(Deadline::after(seconds(20)));
    EXPECT_EQ(status.code(), Code::Mismatch) << status.message();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 sent rank 0 3 elements, which expected 4"));
    world.communicator().barrier().get();
  });
}

/// A plan is asked for while a call runs, and the plans are too many to be kept.
TEST_P(Operations, KeepThePlanOfACallInFlight_WhenAnotherIsAskedFor) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    for (std::uint64_t n = 1; n <= 520; ++n) {
      std::vector<float> small(n, 1.0F);
      all.all_reduce(small).get();
    }
    std::vector<float> large(3'000'000, 1.0F);
    Work work = all.all_reduce(large);
    for (std::uint64_t n = 1; n <= 600; ++n)
      (void)all.plan({.collective = Collective::AllReduce, .dtype = DType::F64, .count = n});
    work.get();
    EXPECT_EQ(std::ranges::count(large, 2.0F), 3'000'000);
  });
}

TEST_P(Operations, CombineByTheUsersOperator_WhereverTheyReduce) {
  run(3, [](World& world) {
    Communicator& all = world.communicator();
    const ReduceFn larger = [](void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
      for (std::size_t i = 0; i < count; ++i)
        static_cast<std::int32_t*>(dst)[i] =
            std::max(static_cast<const std::int32_t*>(a)[i], static_cast<const std::int32_t*>(b)[i]);
    };
    const Reducer mine{larger, nullptr, sizeof(std::int32_t)};
    CallOptions options;
    options.user = &mine;
    for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{100'000}}) {
      std::vector<std::int32_t> in(3 * count, all.rank()), out(count, -1), whole(3 * count, -1);
      all.reduce(in, whole, 1, ReduceOp::User, options).get();
      require(all.rank() != 1 || whole.back() == 2, "reduce");
      all.reduce_scatter(in, out, ReduceOp::User, options).get();
      require(out.back() == 2, "reduce_scatter");
      const Counts counts{0, 2 * count, count};
      std::vector<std::int32_t> part(counts[static_cast<std::size_t>(all.rank())], -1);
      all.reduce_scatter_v(in, part, {counts}, ReduceOp::User, options).get();
      require(part.empty() || part.back() == 2, "reduce_scatter_v");
    }
  });
}

TEST_P(Operations, EndWhereTheyAreTested_AgainAndAgain) {
  const auto tested = [](World& world) {
    std::vector<float> values(50'000, 1.0F);
    Work work = world.communicator().all_reduce(values);
    while (!work.test()) {
    }
    work.get();
    EXPECT_EQ(std::ranges::count(values, 3.0F), 50'000);
    EXPECT_TRUE(Work().test());
  };
  for (const Threads threads : {Threads::Single, Threads::Multiple}) run(3, tested, threads);
}

TEST_P(Operations, CopyTheUsersOperator_WhichMayEndBeforeTheCall) {
  const auto with = [](World& world) {
    Communicator& all = world.communicator();
    const ReduceFn larger = [](void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
      for (std::size_t i = 0; i < count; ++i)
        static_cast<std::int32_t*>(dst)[i] =
            std::max(static_cast<const std::int32_t*>(a)[i], static_cast<const std::int32_t*>(b)[i]);
    };
    const ReduceFn nothing = [](void*, const void*, const void*, std::size_t, const void*) noexcept {};
    for (std::size_t count = 1; count <= 50; ++count) {  // each a plan of its own
      Reducer mine{larger, nullptr, sizeof(std::int32_t)};
      CallOptions options;
      options.user = &mine;
      std::vector<std::int32_t> values(count, all.rank());
      Work work = all.all_reduce(values, ReduceOp::User, options);
      mine.fn = nothing;
      work.get();
      require(std::ranges::count(values, 2) == static_cast<std::ptrdiff_t>(count), fmt::format("{} values", count));
    }
  };
  for (const Threads threads : {Threads::Single, Threads::Multiple}) run(3, with, threads);
}

TEST_P(Operations, RefuseParts_NamingTheArgumentAndBothValues) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> in(4), out(8);
    const Counts three{1, 1, 1}, two{4, 4}, wrong_place{0, 3}, far{0, ~std::uint64_t{0} / 2}, five{4, 5};
    EXPECT_EQ(complaint([&] { all.all_gather_v(in, out, {three}).get(); }),
              "all_gather_v: the parts of out have 3 counts, expected 2: one per rank");
    EXPECT_EQ(complaint([&] {
                all.all_gather_v(in, out, {two, three}).get();
              }),
              "all_gather_v: the parts of out have 3 displacements, expected 2: one per rank");
    EXPECT_EQ(complaint([&] {
                all.all_gather_v(in, out, {two, wrong_place}).get();
              }),
              "all_gather_v: parts 0 and 1 of out overlap: elements [0, 4) and [3, 7)");
    EXPECT_THAT(complaint([&] {
                  all.all_gather_v(in, out, {two, far}).get();
                }),
                AllOf(HasSubstr("part 1 of out begins at element 9223372036854775807 and has 4")));
    EXPECT_EQ(complaint([&] { all.all_to_all_v(out, out, {two}, {five}).get(); }),
              all.rank() == 0
                  ? "all_to_all_v: in place, but part 1 has count 4 in in_parts and 5 in out_parts; expected "
                    "equal ones"
                  : "all_to_all_v: this rank's part of in has 4 elements, expected 5, as in out");
    EXPECT_EQ(complaint([&] { all.all_to_all_v(in, out, {two}, {two}).get(); }),
              "all_to_all_v: in has 16 bytes, expected at least 32: where its last part ends");
    EXPECT_EQ(complaint([&] { all.reduce(in, out, 2).get(); }), "reduce: root is 2, expected 0 to 1");
    EXPECT_EQ(complaint([&] { all.gather(in, in, all.rank()).get(); }), "gather: out has 16 bytes, expected 32");
    EXPECT_EQ(complaint([&] { all.scatter(in, out, all.rank()).get(); }), "scatter: in has 16 bytes, expected 64");
    all.barrier().get();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Operations, testing::Values("inproc", "shm", "tcp"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace sinew::test

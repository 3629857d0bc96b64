#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <support/error_shape.hpp>
#include <support/log_guard.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

// How errors name ranks, communicators and calls. Each rank is a process. In one of the communicators the ranks have
// other numbers than in the World.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr int kRanks = 4;

Status end_of(Work work) { return work.wait(Deadline::after(seconds(20))); }

Status end_of(const std::function<Work()>& call) {
  try {
    return end_of(call());
  } catch (const Error& e) {
    return {e.code(), e.what(), e.rank()};
  }
}

/// The World's own communicator, or a split in reverse order, where World ranks 3 and 2 are ranks 0 and 1.
struct Where {
  const char* shown;  ///< Communicator::name()
  bool whole;
  const char *zero, *one;  ///< names of its ranks 0 and 1 in errors
  std::vector<int> world_ranks;
};

const Where kWorld{"world of 4", true, "rank 0", "rank 1", {0, 1, 2, 3}};
const Where kSplit{"upper of 2", false, "rank 3 (0 in upper)", "rank 2 (1 in upper)", {2, 3}};

/// What one rank of the communicator does, and what the errors of all others must say.
struct Event {
  const char* name;
  Code code;
  /// The call of rank 1 and the call of all others. A rank may also do something else in place of a call.
  std::function<Status(World&, Communicator&)> odd, others;
  /// Parts of the expected text.
  std::function<std::vector<std::string>(const Where&)> parts;
  bool odd_dies = false;
  bool odd_comes_last = false;
};

Work sum_of_four(Communicator& c, const CallOptions& options = {}) {
  static std::array<float, 4> data{};
  return c.all_reduce(std::span(data), ReduceOp::Sum, options);
}

std::vector<Event> events() {
  const auto sums = [](World&, Communicator& c) {
    const Status first = end_of([&] { return sum_of_four(c); });
    return first.ok() ? end_of([&] { return c.barrier(); }) : first;
  };
  const std::string call = "all_reduce(f32, sum, count 4) at ";
  return {
      {.name = "Mismatch",
       .code = Code::Mismatch,
       .odd =
           [](World&, Communicator& c) {
             const Status first = end_of([&] { return c.barrier(); });
             return first.ok() ? end_of([&] { return c.barrier(); }) : first;
           },
       .others = sums,
       .parts =
           [](const Where& at) {
             return std::vector{fmt::format("on {} is not the same on all ranks: ", at.shown),
                                fmt::format("{}: barrier(", at.one)};
           }},
      {.name = "Timeout",
       .code = Code::Timeout,
       .odd = sums,  // its first call may already have all it needs
       .others =
           [](World&, Communicator& c) {
             return end_of([&] { return sum_of_four(c, {.deadline = Deadline::after(milliseconds(300))}); });
           },
       .parts =
           [call](const Where& at) {
             return std::vector<std::string>{"deadline passed: ", call, fmt::format("on {}: ", at.shown),
                                             fmt::format("{} is late: it has", at.one)};
           },
       .odd_comes_last = true},
      {.name = "AbortOfTheCommunicator",
       .code = Code::Aborted,
       .odd =
           [](World&, Communicator& c) {
             c.abort("enough");
             return end_of([&] { return c.barrier(); });
           },
       .others = sums,
       .parts = [](const Where& at) { return std::vector{fmt::format("{} aborted {}: enough", at.one, at.shown)}; }},
      {.name = "Thrown",
       .code = Code::Aborted,
       .odd =
           [](World&, Communicator& c) {
             try {
               throw std::runtime_error("no more tokens");
             } catch (...) {
               c.abort_world_by_exception("reading of batch 3");
             }
             return end_of([&] { return c.barrier(); });
           },
       .others = sums,
       .parts =
           [](const Where& at) {
             return std::vector{fmt::format("{} aborted the world: reading of batch 3: no more tokens", at.one)};
           }},
      {.name = "PeerLost",
       .code = Code::PeerLost,
       .odd =
           [](World&, Communicator&) {
             ::kill(::getpid(), SIGKILL);
             return Status();
           },
       .others = sums,
       .parts =
           [call](const Where& at) {
             const std::string lost = std::string(at.one).substr(0, 6);
             return std::vector<std::string>{call, fmt::format("on {}: {} (host ", at.shown, lost),
                                             "killed by signal 9", at.one};
           },
       .odd_dies = true},
      {.name = "PeerLostInAMessage",
       .code = Code::PeerLost,
       .odd =
           [](World&, Communicator&) {
             ::kill(::getpid(), SIGKILL);
             return Status();
           },
       .others =
           [](World&, Communicator& c) {
             std::array<float, 4> data{};
             return end_of([&] { return c.recv(std::span(data), 1); });
           },
       .parts =
           [](const Where& at) {
             return std::vector<std::string>{fmt::format("recv from {} at ", at.one), "killed by signal 9"};
           },
       .odd_dies = true},
      {.name = "PartsThatDiffer",
       .code = Code::Mismatch,
       .odd =
           [](World&, Communicator& c) {
             std::vector<std::uint64_t> counts(static_cast<std::size_t>(c.size()), 1);
             std::vector<float> in(counts.size() + 2), out(counts.size());
             std::vector<std::uint64_t> sent = counts;
             sent[0] = 3;
             const Status first = end_of([&] { return c.all_to_all_v(in, out, Parts{sent}, Parts{counts}); });
             return first.ok() ? end_of([&] { return c.barrier(); }) : first;
           },
       .others =
           [](World&, Communicator& c) {
             std::vector<std::uint64_t> counts(static_cast<std::size_t>(c.size()), 1);
             std::vector<float> in(counts.size()), out(counts.size());
             const Status first = end_of([&] { return c.all_to_all_v(in, out, Parts{counts}, Parts{counts}); });
             return first.ok() ? end_of([&] { return c.barrier(); }) : first;
           },
       .parts =
           [](const Where& at) {
             return std::vector{fmt::format("{} sent {} 3 elements, which expected 1", at.one, at.zero),
                                fmt::format("on {}: ", at.shown)};
           }},
  };
}

class ErrorTexts : public testing::TestWithParam<const char*> {};

void meet(const Event& event, const Where& where, const char* transport) {
  const std::vector<int> ends = fork_ranks(kRanks, [&](const Exchange& exchange) {
    World world = World::create(exchange, only(transport));
    const int rank = world.rank();
    Communicator upper = world.communicator().split(rank >= 2 ? 1 : 0, -rank, {}, rank >= 2 ? "upper" : "lower");
    world.communicator().barrier().get();
    static_cast<void>(exchange.all_gather({}));
    if (where.whole || rank >= 2) {
      Communicator& on = where.whole ? world.communicator() : upper;
      EXPECT_EQ(on.name(), where.shown);
      const bool is_odd = on.rank() == 1;
      const auto end_round = [&] {  // no rank leaves while another still reads its records
        if (!event.odd_dies) static_cast<void>(exchange.all_gather({}));
      };
      if (is_odd && event.odd_comes_last) end_round();
      const auto begin = Clock::now();
      const Status end = (is_odd ? event.odd : event.others)(world, on);
      const std::string text = fmt::format("{} on {}, rank {}: {}", event.name, where.shown, rank, end.message());
      EXPECT_EQ(end.code(), event.code) << text;
      EXPECT_LT(Clock::now() - begin, seconds(2)) << text;
      EXPECT_EQ(fault_of_error(end.message(), where.world_ranks, ""), "") << text;
      for (const std::string& part : event.parts(where))
        EXPECT_THAT(std::string(end.message()), HasSubstr(part)) << text;
      if (!is_odd || !event.odd_comes_last) end_round();
    } else if (!event.odd_dies) {
      static_cast<void>(exchange.all_gather({}));
    }
  });
  const int odd = where.whole ? 1 : 2;
  for (int r = 0; r < kRanks; ++r) {
    const int status = ends[static_cast<std::size_t>(r)];
    if (event.odd_dies && r == odd) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << event.name << ", rank " << r << ": " << status;
  }
}

TEST_P(ErrorTexts, NumberRanksAsTheWorldDoes_OnItsOwnCommunicator) {
  for (const Event& event : events()) meet(event, kWorld, GetParam());
}

TEST_P(ErrorTexts, ShowBothNumbers_OnASplitThatCountsTheOtherWayRound) {
  for (const Event& event : events()) meet(event, kSplit, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Transports, ErrorTexts, testing::ValuesIn(transports_between_processes()),
                         [](const auto& i) { return std::string(i.param); });

TEST(ErrorText, NameASplitByItsColorAndPlace_WhereItIsGivenNoName) {
  on_threads(2, only("inproc"), [](World& world) {
    const Communicator half = world.communicator().split(world.rank());
    EXPECT_THAT(half.name(), MatchesRegex("split [01] at error_texts_test.cpp:[0-9]+ of 1"));
    EXPECT_EQ(world.communicator().name(), "world of 2");
    EXPECT_THAT(complaint([&] { (void)world.communicator().split(0, 0, {}, std::string(48, 'x')); }),
                HasSubstr("has 48 characters, expected 47 at most"));
  });
}

TEST(ErrorText, ShowWhatACallIsFor_BehindItsPlace) {
  on_threads(2, only("inproc"), [](World& world) {
    std::array<float, 2> data{};
    const Work late = world.communicator().recv(std::span(data), 1 - world.rank(), 5, {.label = "bucket 3"});
    EXPECT_THAT(world.communicator().verdict(),
                AllOf(HasSubstr("error_texts_test.cpp:"), HasSubstr(" for bucket 3 on ")));
    const Work sent = world.communicator().send(std::span(data), 1 - world.rank(), 5);
    world.communicator().barrier().get();
  });
}

TEST(ErrorText, SayThatOptionsNameNoPlace_WhereTheyWereMadeWithoutBraces) {
  on_threads(2, only("inproc"), [](World& world) {
    CallOptions kept;
    std::array<float, 2> data{};
    const Work late = world.communicator().recv(std::span(data), 1 - world.rank(), 5, kept);
    EXPECT_THAT(world.communicator().verdict(), HasSubstr("at a place that its CallOptions do not name"));
    const Work sent = world.communicator().send(std::span(data), 1 - world.rank(), 5);
    world.communicator().barrier().get();
  });
}

TEST(ErrorText, ShowTheLabelAlone_WhereNoPlaceIsGiven) {
  on_threads(2, only("inproc"), [](World& world) {
    std::array<float, 2> mine{};
    std::array<float, 2> first{};
    std::array<float, 2> second{};
    const CallOptions named{.label = "train.py:12", .where = {}};
    const CallOptions unnamed{.where = {}};
    const Work late = world.communicator().recv(std::span(first), 1 - world.rank(), 5, named);
    EXPECT_THAT(world.communicator().verdict(), HasSubstr("at train.py:12"));
    const Work sent = world.communicator().send(std::span(mine), 1 - world.rank(), 5);
    world.communicator().barrier().get();
    const Work later = world.communicator().recv(std::span(second), 1 - world.rank(), 5, unnamed);
    EXPECT_THAT(world.communicator().verdict(), HasSubstr("at a place that is not known"));
    const Work sent_later = world.communicator().send(std::span(mine), 1 - world.rank(), 5);
    world.communicator().barrier().get();
  });
}

/// Rank 0 aborts a communicator with rank 1. Rank 1 forwards the abort to rank 2, and rank 2 to all ranks. The text
/// must stay the same.
TEST(ErrorText, OfAnAbortIsPassedOnAsItIs_WhereItIsTheReasonOfAnother) {
  on_threads(3, only("inproc"), [](World& world) {
    Communicator left = world.communicator().split(world.rank() < 2 ? 0 : -1, 0, {}, "left");
    Communicator right = world.communicator().split(world.rank() > 0 ? 0 : -1, 0, {}, "right");
    const auto expect_told = [](Communicator& of, int blamed) {
      const Status end = end_of([&] { return of.barrier(); });
      EXPECT_EQ(end.code(), Code::Aborted);
      EXPECT_EQ(end.message(), "rank 0 aborted left of 2: no data");
      EXPECT_EQ(end.rank(), blamed);
      return end;
    };
    if (world.rank() == 0) left.abort("no data");
    if (world.rank() == 1) right.abort(std::string(expect_told(left, 0).message()));
    if (world.rank() == 2) {
      try {
        expect_told(right, -1).require();  // rank 0 is not in it
      } catch (const Error&) {
        right.abort_world_by_exception("step 3");
      }
    }
    static_cast<void>(expect_told(world.communicator(), -1));
  });
}

/// Negative control: the check finds each kind of fault.
TEST(ErrorText, CheckFindsWhatIsWrong) {
  EXPECT_EQ(fault_of_error("rank 3 (0 in upper) aborted upper of 2: enough", {2, 3}, "upper of 2"), "");
  EXPECT_THAT(fault_of_error("rank 0 aborted upper of 2", {2, 3}, "upper of 2"), HasSubstr("none of the World's"));
  EXPECT_THAT(fault_of_error("ranks 2, 1 differ on upper of 2", {2, 3}, "upper of 2"),
              HasSubstr("none of the World's"));
  EXPECT_THAT(fault_of_error("rank 2 on communicator 6", {2, 3}, ""), HasSubstr("id"));
  EXPECT_THAT(fault_of_error("at /x/core/call_options.hpp:18", {2, 3}, ""), EndsWith("call_options.hpp:18"));
  EXPECT_THAT(fault_of_error("rank 2 left", {2, 3}, "upper of 2"), HasSubstr("'upper of 2'"));
}

}  // namespace
}  // namespace sinew::test

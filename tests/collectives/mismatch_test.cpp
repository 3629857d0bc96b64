#include <array>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>
#include <support/log_guard.hpp>
#include <support/ranks.hpp>
#include <support/sanitized.hpp>
#include <support/worlds.hpp>

// Every pair of different calls, one on one rank and one on all others: all of them learn both.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr std::size_t kFew = 6;         // elements
constexpr std::size_t kMany = 3 << 16;  // of 4 bytes: past what fits into one message or slot

struct Variant {
  const char* shown;  // in a verdict
  std::function<Work(Communicator&, std::span<float> in, std::span<float> out)> make;
};

std::vector<Variant> variants() {
  using C = Communicator&;
  using S = std::span<float>;
  const auto as_integers = [](S s) { return std::span(reinterpret_cast<std::int32_t*>(s.data()), s.size()); };
  return {
      {"all_reduce(f32, sum, count 6)", [](C c, S in, S) { return c.all_reduce(in.first(kFew)); }},
      {"all_reduce(f32, max, count 6)", [](C c, S in, S) { return c.all_reduce(in.first(kFew), ReduceOp::Max); }},
      {"all_reduce(i32, sum, count 6)",
       [as_integers](C c, S in, S) { return c.all_reduce(as_integers(in.first(kFew))); }},
      {"all_reduce(f32, sum, count 6, codec int8)",
       [](C c, S in, S) { return c.all_reduce(in.first(kFew), ReduceOp::Sum, {.codec = Codec::Int8}); }},
      {"all_reduce(f32, sum, count 5)", [](C c, S in, S) { return c.all_reduce(in.first(kFew - 1)); }},
      {"all_reduce(f32, sum, count 196608)", [](C c, S in, S out) { return c.all_reduce(in, out); }},
      {"all_gather(f32, count 2)", [](C c, S in, S out) { return c.all_gather(in.first(2), out.first(kFew)); }},
      {"reduce_scatter(f32, sum, count 2)",
       [](C c, S in, S out) { return c.reduce_scatter(in.first(kFew), out.first(2)); }},
      {"all_to_all(f32, count 2)", [](C c, S in, S out) { return c.all_to_all(in.first(kFew), out.first(kFew)); }},
      {"broadcast(f32, count 6, root 0)", [](C c, S in, S) { return c.broadcast(in.first(kFew), 0); }},
      {"broadcast(f32, count 6, root 1)", [](C c, S in, S) { return c.broadcast(in.first(kFew), 1); }},
      {"reduce(f32, sum, count 6, root 0)", [](C c, S in, S) { return c.reduce(in.first(kFew), 0); }},
      {"reduce(f32, sum, count 6, root 1)", [](C c, S in, S) { return c.reduce(in.first(kFew), 1); }},
      {"gather(f32, count 2, root 1)", [](C c, S in, S out) { return c.gather(in.first(2), out.first(kFew), 1); }},
      {"scatter(f32, count 2, root 2)", [](C c, S in, S out) { return c.scatter(in.first(kFew), out.first(2), 2); }},
      {"all_gather_v(f32, counts with hash ",
       [](C c, S in, S out) {
         constexpr std::array<std::uint64_t, kRanks> counts{2, 2, 2};
         return c.all_gather_v(in.first(2), out.first(kFew), {counts});
       }},
      {"all_to_all_v(f32)",
       [](C c, S in, S out) {
         constexpr std::array<std::uint64_t, kRanks> counts{2, 2, 2};
         return c.all_to_all_v(in.first(kFew), out.first(kFew), {counts}, {counts});
       }},
      {"barrier(", [](C c, S, S) { return c.barrier(); }},
  };
}

class Mismatch : public testing::TestWithParam<std::string> {
 protected:
  /// Step through the cases: 1 tests all of them, over inproc. Over other transports every fourth is enough, because
  /// transports differ only in how a rank learns of the mismatch.
  std::size_t every() const { return GetParam() == "inproc" && !test::kSanitized ? 1 : 4; }
  /// Processes, but for what only threads can use.
  void run(const Body& body) const {
    if (GetParam() == "inproc") {
      on_threads(kRanks, only("inproc"), body);
    } else {
      in_processes(kRanks, only(GetParam()), body);
    }
  }
};

/// The rank `odd` calls `first`, the others call `others`, on a communicator of their own.
void disagree(Communicator& parent, int odd, const Variant& first, const Variant& others) {
  std::vector<float> in(kMany), out(kMany);
  {
    Communicator c = parent.split(0);
    c.barrier().get();
    parent.barrier().get();  // all have left the call before
    const Variant& mine = c.rank() == odd ? first : others;
    Work work = mine.make(c, in, out);
    Status status = work.wait(Deadline::after(seconds(20)));
    // A rank may have had all it needed, and learns it in its next call.
    if (status.ok()) status = c.barrier().wait(Deadline::after(seconds(20)));
    const std::string label = std::string(first.shown) + " and " + others.shown + " on rank " +
                              std::to_string(c.rank()) + ": " + std::string(status.message());
    EXPECT_EQ(status.code(), Code::Mismatch) << label;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(fmt::format("rank {}: {}", odd, first.shown)),
                                                     HasSubstr(others.shown), HasSubstr("mismatch_test.cpp:")))
        << label;
  }
  // The parent goes on, and what comes after may have the same id.
  Communicator next = parent.split(0);
  for (int call = 0; call < 2; ++call) {
    std::array<double, 2> sum{1.0, 2.0};
    next.all_reduce(sum).get();
    EXPECT_EQ(sum[1], 2.0 * kRanks);
  }
}

TEST_P(Mismatch, ShowsBothCallsOnAllRanks_ForEveryPair) {
  run([this](World& world) {
    const std::vector<Variant> all = variants();
    for (std::size_t first = 0; first < all.size(); ++first) {
      for (std::size_t others = first % every(); others < all.size(); others += every()) {
        const int odd = static_cast<int>(first + others) % kRanks;
        if (first != others) disagree(world.communicator(), odd, all[first], all[others]);
      }
    }
  });
}

TEST_P(Mismatch, ShowsTheCallersLine_WhenARankSplits) {
  run([](World& world) {
    Communicator c = world.communicator().split(0);
    Status status;
    if (c.rank() == 0) {
      try {
        (void)c.split(0);
      } catch (const Error& e) {
        status = Status(e.code(), e.what());
      }
    } else {
      status = c.barrier().wait(Deadline::after(seconds(20)));
      if (status.ok()) status = c.barrier().wait(Deadline::after(seconds(20)));
    }
    EXPECT_EQ(status.code(), Code::Mismatch) << status.message();
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("barrier"), HasSubstr("all_reduce(u64"), HasSubstr("mismatch_test.cpp:"),
                      testing::Not(HasSubstr("communicator.cpp:"))));
  });
}

TEST_P(Mismatch, ShowsThatARankMadeNoCall_WhenItDestroyedTheCommunicator) {
  run([this](World& world) {
    const std::vector<Variant> all = variants();
    for (std::size_t i = 0; i < all.size(); i += every()) {
      const Variant& others = all[i];
      std::vector<float> in(kMany), out(kMany);
      {
        Communicator c = world.communicator().split(0);
        c.barrier().get();
        world.communicator().barrier().get();
        if (c.rank() > 0) {
          Status status = others.make(c, in, out).wait(Deadline::after(seconds(20)));
          if (status.ok()) status = c.barrier().wait(Deadline::after(seconds(20)));
          EXPECT_EQ(status.code(), Code::Mismatch) << others.shown << ": " << status.message();
          EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 0: no call: it destroyed the communicator"),
                                                           HasSubstr(others.shown), HasSubstr("mismatch_test.cpp:")))
              << others.shown;
        }
      }
      world.communicator().barrier().get();
    }
  });
}

/// Neither is wrong for sure: a message may still come. But nobody is left to guess.
TEST_P(Mismatch, SaysWhereEverybodyIs_WhenOneWaitsForAMessage) {
  run([](World& world) {
    {
      Communicator c = world.communicator().split(0);
      c.barrier().get();
      std::vector<float> data(4);
      Work work = c.rank() == 0 ? c.recv(data, 1) : c.barrier();
      const auto patience = milliseconds(c.rank() == 0 ? 400 : 1200);  // rank 0 looks first
      EXPECT_EQ(work.wait(Deadline::after(patience)).code(), Code::Pending);
      const std::string why = c.verdict();
      Communicator& all = world.communicator();
      if (c.rank() == 2) all.send(data, 1).get();
      if (c.rank() == 1) all.recv(data, 2).get();
      if (c.rank() == 0) {
        EXPECT_THAT(why,
                    AllOf(HasSubstr("recv from rank 1 at "), HasSubstr("rank 1 is late: it has been in barrier(")));
      } else {
        EXPECT_THAT(why,
                    AllOf(HasSubstr("barrier("), HasSubstr("rank 0 is late: it has been in recv from rank 1 at ")));
      }
      if (c.rank() == 1) c.send(data, 0).get();
      work.get();
      if (c.rank() == 0) c.barrier().get();
    }
    world.communicator().barrier().get();
  });
}

std::vector<std::string> transports() {
  std::vector<std::string> all{"inproc"};
  for (const char* t : transports_between_processes()) all.emplace_back(t);
#ifdef SINEW_TEST_OFI
  all.emplace_back("ofi");
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transports, Mismatch, testing::ValuesIn(transports()), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace sinew::test

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <support/worlds.hpp>

#include "small_engine.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using testing::HasSubstr;

void zeros(const InitialPart& part) {
  part.fill([](std::int64_t /*k*/) { return 0.0; });
}

// The engine has 2100 elements of f32. An all_reduce among four ranks sends 6 times the 8400 bytes.
TEST(Explain, ListsTheExchangesOfAJob_WithTheTimesOfItsWorld) {
  on_threads(4, only("inproc"), [](World& world) {
    Job job(world, {}, test::small_engine(), zeros);
    const std::string text = job.explain();
    const auto has = [&](const std::string& what) { require(text.find(what) != std::string::npos, text); };
    has("exchanges of data parallelism\ncp-dp: 3 exchanges, 50400B, ");
    has(" -> 1 exchange, 50400B, ");
    has("merged all_reduce over cp-dp of c.weight gradient and 2 others (50400B): 3 exchanges in one");
    has(" saved\n");
  });
}

TEST(Explain, ListsGathersThatStartEarly) {
  on_threads(2, only("inproc"), [](World& world) {
    Job job(world, {.zero = 3}, test::small_engine(), zeros);
    const std::string text = job.explain();
    require(text.find("moved all_gather over cp-dp of b.weight") != std::string::npos, text);
  });
}

TEST(Explain, NeedsNoWorld) {
  const std::string text = describe_exchanges(4, {}, test::small_engine());
  EXPECT_EQ(text,
            "exchanges of data parallelism\n"
            "cp-dp: 3 exchanges, 50400B -> 1 exchange, 50400B\n"
            "merged all_reduce over cp-dp of c.weight gradient and 2 others (50400B): 3 exchanges in one\n");
  const std::string timed = describe_exchanges(
      4, {}, test::small_engine(),
      [](const Factorisation& mesh, NodeKind, std::string_view axes, std::int64_t) { return 1e-3 * mesh.size(axes); });
  EXPECT_THAT(timed, HasSubstr("cp-dp: 3 exchanges, 50400B, 12.00 ms -> 1 exchange, 50400B, 4.00 ms\n"));
  EXPECT_THAT(timed, HasSubstr("3 exchanges in one, 8.00 ms saved\n"));
}

}  // namespace
}  // namespace sinew::parallel

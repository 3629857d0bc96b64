#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

#include "counted_groups.hpp"
#include "group_check.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

/// All sets of axes, in the order of the shape and against it: "a", "b", "a-b", ...
struct NamedSet {
  std::vector<std::string> names;
  std::string forwards, backwards;
};
std::vector<NamedSet> sets_of(const std::vector<Axis>& axes) {
  std::vector<NamedSet> sets;
  for (unsigned bits = 1; bits < 1U << axes.size(); ++bits) {
    NamedSet s;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if ((bits >> i & 1) != 0) s.names.push_back(axes[i].name);
    }
    s.forwards = fmt::format("{}", fmt::join(s.names, "-"));
    s.backwards = fmt::format("{}", fmt::join(std::vector(s.names.rbegin(), s.names.rend()), "-"));
    sets.push_back(std::move(s));
  }
  return sets;
}

class MeshOf : public testing::TestWithParam<std::vector<Axis>> {};

TEST_P(MeshOf, SumsOverExactlyTheRanksOfEveryGroup) {
  const Factorisation shape(GetParam());
  const std::vector<NamedSet> sets = sets_of(GetParam());
  std::vector<std::string> wanted;
  for (const NamedSet& s : sets) wanted.push_back(s.backwards);
  on_threads(shape.ranks(), only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), shape, wanted);
    for (const NamedSet& s : sets) {
      const std::vector<int> group = group_with(counted_groups(GetParam(), s.names), mesh.rank());
      Communicator& along = mesh.along(s.forwards);
      require_group(along, group, mesh.rank(), s.forwards);
      require(mesh.size(s.forwards) == along.size() && mesh.index(s.forwards) == along.rank(), s.forwards);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MeshOf,
                         testing::Values(std::vector<Axis>{{"dp", 1}}, std::vector<Axis>{{"dp", 7}},
                                         std::vector<Axis>{{"tp", 3}, {"dp", 2}},
                                         std::vector<Axis>{{"tp", 2}, {"dp", 3}},
                                         std::vector<Axis>{{"tp", 1}, {"dp", 5}, {"pp", 1}},
                                         std::vector<Axis>{{"tp", 2}, {"cp", 2}, {"pp", 2}},
                                         std::vector<Axis>{{"tp", 3}, {"cp", 1}, {"dp", 2}, {"pp", 2}}));

// The control of the check that the tests above and below rest on.
TEST(GroupCheck, Fails_WhenRanksOrTheirOrderAreOthers) {
  on_threads(4, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}));
    const int first = world.rank() / 2 * 2;
    for (const std::vector<int>& wrong : {std::vector{first + 1, first}, {first, (first + 2) % 4}, {first}}) {
      const auto check = [&] { require_group(mesh.along("tp"), wrong, world.rank(), "tp"); };
      EXPECT_THROW(check(), Error);
    }
    require_group(mesh.along("tp"), {first, first + 1}, world.rank(), "tp");
  });
}

TEST(Mesh, HasEveryAxisAlone_WhenNoGroupsAreNamed) {
  on_threads(6, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 3}, {"dp", 2}}));
    const int first = world.rank() - world.rank() % 3;
    require_group(mesh.along("tp"), {first, first + 1, first + 2}, world.rank(), "tp");
    require_group(mesh.along("dp"), {world.rank() % 3, world.rank() % 3 + 3}, world.rank(), "dp");
    const std::string said = complaint([&] { mesh.along("dp-tp"); });
    require(said ==
                "mesh of tp 3, dp 2: no group along 'dp-tp' has been made; there are dp, tp; the constructor makes "
                "those that its argument `groups` names",
            said);
    const std::string unknown = complaint([&] { mesh.along("pp"); });
    require(unknown == "factorisation: no axis 'pp': there are tp 3, dp 2", unknown);
  });
}

TEST(Mesh, TakesGroupsAsTheyAreWritten) {
  on_threads(4, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}), {"tp", "tp-dp"});
    require(mesh.along("dp-tp").size() == 4 && mesh.groups().size() == 2, "the groups that were named");
  });
}

TEST(Mesh, LetsGroupsBeCalledInAnyOrder) {
  on_threads(4, only("inproc"), [](World& world) {
    const std::vector<std::string> groups{"tp", "dp", "tp-dp"};
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}), groups);
    std::vector<int> tp(1000, 1), dp(1000, 10), both(1000, 100);
    Work works[3];
    const auto start = [&](int which) {
      if (which == 0) works[0] = mesh.along("tp").all_reduce(tp);
      if (which == 1) works[1] = mesh.along("dp").all_reduce(dp);
      if (which == 2) works[2] = mesh.along("dp-tp").all_reduce(both);
    };
    for (int k = 0; k < 3; ++k) start((k + world.rank()) % 3);
    for (Work& w : works) w.get();
    require(tp[999] == 2 && dp[999] == 20 && both[999] == 400, fmt::format("{} {} {}", tp[999], dp[999], both[999]));
  });
}

TEST(Mesh, SharesACommunicatorAmongGroupsOfOneRank_AndNoOthers) {
  on_threads(3, only("inproc"), [](World& world) {
    const std::vector<std::string> groups{"tp", "dp", "pp", "dp-tp", "tp-pp", "dp"};
    Mesh mesh(world.communicator(), Factorisation({{"tp", 1}, {"dp", 3}, {"pp", 1}}), groups);
    require(&mesh.along("tp") == &mesh.along("pp") && &mesh.along("tp") == &mesh.along("pp-tp"), "one rank each");
    require(&mesh.along("dp") != &mesh.along("tp-dp"), "the same ranks, but calls may come in any order");
  });
}

TEST(Mesh, StandsOnAPartOfTheWorld_AsASliceOfAnother) {
  on_threads(12, only("inproc"), [](World& world) {
    const std::vector<std::string> groups{"pp", "tp-pp"};
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 3}, {"pp", 2}}), groups);
    Mesh part(mesh.along("tp-pp"), mesh.shape().slice("tp-pp"));
    require_group(part.along("pp"), {world.rank() % 6, world.rank() % 6 + 6}, world.rank(), "pp of the part");
  });
}

TEST(Mesh, IsRefusedOnAllRanks_WhenItsShapeHasOtherRanks) {
  on_threads(6, only("inproc"), [](World& world) {
    require_complaint(world, "mesh: tp 2, dp 4 are 8 ranks; expected 6, those of the communicator", [&] {
      Mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 4}}));
    });
  });
}

TEST(Mesh, IsRefusedOnAllRanks_WhenAGroupIsUnknown) {
  on_threads(6, only("inproc"), [](World& world) {
    const std::vector<std::string> groups{"tp", "tp-xp"};
    require_complaint(world, "factorisation: no axis 'xp': there are tp 2, dp 3", [&] {
      Mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 3}}), groups);
    });
  });
}

TEST(Mesh, IsRefusedOnAllRanks_WhenTheyAskForDifferentOnes) {
  on_threads(6, only("inproc"), [](World& world) {
    const int tp = world.rank() < 4 ? 2 : 3;
    require_complaint(world,
                      "mesh: rank 0 has 'tp 2, dp 3; groups tp, dp', rank 4 'tp 3, dp 2; groups tp, dp'; expected the "
                      "same on all ranks",
                      [&] {
                        Mesh(world.communicator(), Factorisation({{"tp", tp}, {"dp", 6 / tp}}));
                      });
    const std::vector<std::string> groups{world.rank() == 5 ? "dp" : "tp"};
    require_complaint(world,
                      "mesh: rank 0 has 'tp 2, dp 3; groups tp', rank 5 'tp 2, dp 3; groups dp'; expected the same on "
                      "all ranks",
                      [&] {
                        Mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 3}}), groups);
                      });
  });
}

}  // namespace
}  // namespace sinew::parallel::test

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>

#include "counted_groups.hpp"
#include "group_check.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

/// A job, and its two arrangements written out by hand.
struct Job {
  int ranks;
  LayoutSizes sizes;
  std::vector<Axis> dense, expert;
};

void PrintTo(const Job& job, std::ostream* out) { *out << job.ranks << " ranks, order " << job.sizes.order; }

class JobMeshOf : public testing::TestWithParam<Job> {};

TEST_P(JobMeshOf, SumsOverExactlyTheRanksOfEveryGroup) {
  const Job& job = GetParam();
  on_threads(job.ranks, only("inproc"), [&](World& world) {
    JobMesh mesh(world.communicator(), job.sizes);
    for (const JobGroup& row : kJobGroups) {
      const bool dense = row.of == Arrangement::Dense;
      const auto groups = counted_groups(dense ? job.dense : job.expert, names_in(row.axes));
      Communicator& group = (dense ? mesh.dense() : mesh.expert()).along(row.axes);
      require_group(group, group_with(groups, world.rank()), world.rank(), std::string(row.axes));
    }
    const std::vector<int> pipeline = group_with(counted_groups(job.dense, {"pp"}), world.rank());
    std::vector<int> ends{pipeline.front()};
    if (pipeline.size() > 1) ends.push_back(pipeline.back());
    if (std::ranges::find(ends, world.rank()) != ends.end()) {
      require_group(mesh.embedding(), ends, world.rank(), "embedding");
    } else {
      require(mesh.embedding().size() == 0, "embedding of a rank between");
    }
    if (world.rank() == pipeline.front()) {
      require_group(mesh.position_embedding(), {world.rank()}, world.rank(), "position embedding");
    } else {
      require(mesh.position_embedding().size() == 0, "position embedding of a later stage");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, JobMeshOf,
    testing::Values(
        Job{1, {}, {{"tp", 1}, {"cp", 1}, {"dp", 1}, {"pp", 1}}, {{"etp", 1}, {"ep", 1}, {"edp", 1}, {"pp", 1}}},
        Job{5, {}, {{"tp", 1}, {"cp", 1}, {"dp", 5}, {"pp", 1}}, {{"etp", 1}, {"ep", 1}, {"edp", 5}, {"pp", 1}}},
        Job{6,
            {.tp = 3, .ep = 2},
            {{"tp", 3}, {"cp", 1}, {"dp", 2}, {"pp", 1}},
            {{"etp", 1}, {"ep", 2}, {"edp", 3}, {"pp", 1}}},
        Job{8,
            {.tp = 2, .cp = 2, .pp = 2, .ep = 2, .etp = 2, .order = "cp-dp-tp-ep-pp"},
            {{"cp", 2}, {"dp", 1}, {"tp", 2}, {"pp", 2}},
            {{"edp", 1}, {"etp", 2}, {"ep", 2}, {"pp", 2}}},
        Job{12,
            {.tp = 2, .pp = 3, .ep = 4},
            {{"tp", 2}, {"cp", 1}, {"dp", 2}, {"pp", 3}},
            {{"etp", 1}, {"ep", 4}, {"edp", 1}, {"pp", 3}}},
        Job{16,
            {.tp = 2, .cp = 2, .pp = 2, .ep = 2, .etp = 2},
            {{"tp", 2}, {"cp", 2}, {"dp", 2}, {"pp", 2}},
            {{"etp", 2}, {"ep", 2}, {"edp", 2}, {"pp", 2}}}));

TEST(JobMesh, HasACommunicatorForEachLevelOfContextParallelism) {
  on_threads(16, only("inproc"), [](World& world) {
    JobMesh mesh(world.communicator(), {.cp = 16, .cp_levels = {2, 2, 4}});
    const int r = world.rank();
    require_group(mesh.cp_level(0), {r / 2 * 2, r / 2 * 2 + 1}, r, "level 0");
    require_group(mesh.cp_level(1), {r / 4 * 4 + r % 2, r / 4 * 4 + r % 2 + 2}, r, "level 1");
    require_group(mesh.cp_level(2), {r % 4, r % 4 + 4, r % 4 + 8, r % 4 + 12}, r, "level 2");
    const std::string said = complaint([&] { mesh.cp_level(3); });
    require(said == "cp_level 3: expected 0..2", said);
  });
  on_threads(4, only("inproc"), [](World& world) {
    JobMesh mesh(world.communicator(), {.cp = 2});
    require(&mesh.cp_level(0) == &mesh.dense().along("cp"), "one level is cp itself");
  });
}

TEST(JobMesh, IsRefusedOnAllRanks_WithEveryRuleThatIsBroken) {
  on_threads(6, only("inproc"), [](World& world) {
    require_complaint(world,
                      "layout of 6 ranks breaks 2 rules:\n"
                      "  dense: 6 ranks are not a multiple of tp 4 * cp 1 * pp 1; expected tp 3 or 4 ranks or 8 ranks\n"
                      "  order_once: order 'tp-dp-dp' names dp more than once; expected order tp-dp",
                      [&] { JobMesh(world.communicator(), {.tp = 4, .order = "tp-dp-dp"}); });
  });
}

TEST(JobMesh, IsRefusedOnAllRanks_WhenTheyAskForDifferentSizes) {
  on_threads(4, only("inproc"), [](World& world) {
    // Rank 2 alone could not have made its layout.
    const LayoutSizes sizes{.tp = world.rank() == 2 ? 3 : 2};
    require_complaint(world,
                      "layout: rank 0 has 'tp 2, cp 1, dp 0, pp 1, ep 1, etp 1, order tp-cp-ep-dp-pp', rank "
                      "2 'tp 3, cp 1, dp 0, pp 1, ep 1, etp 1, order tp-cp-ep-dp-pp'; expected the same on "
                      "all ranks",
                      [&] { JobMesh(world.communicator(), sizes); });
  });
}

}  // namespace
}  // namespace sinew::parallel::test

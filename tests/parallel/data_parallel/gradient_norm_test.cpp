#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::Small;

void fill(DataParallel& data, std::int32_t parameter, float value) {
  const Buffer g = data.gradient(parameter);
  std::fill_n(reinterpret_cast<float*>(g.data), g.bytes / sizeof(float), value);
  data.gradient_ready(parameter);
}

TEST(GradientNorm, IsTheSameUnderEveryRow) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    on_threads(3, only("inproc"), [&](World& world) {
      Small small(
          world, row,
          {{.path = "a.weight", .elements = 40, .unit = "a"}, {.path = "b.weight", .elements = 11, .unit = "b"}});
      DataParallel& data = *small.data;
      for (const int u : {0, 1}) data.before_forward(u), data.after_forward(u);
      for (const int u : {1, 0}) {
        data.before_backward(u);
        fill(data, u, u == 0 ? 2.0F : 3.0F);
        data.after_backward(u);
      }
      const auto parts = data.finish_backward();
      const double norm = gradient_norm(data, parts);
      require(std::abs(norm - std::sqrt(40 * 4.0 + 11 * 9.0)) < 1e-12, std::string(row) + ": " + std::to_string(norm));
      data.updated();
    });
  }
}

/// Of the level that asks for it: elements of all sizes, in shards of any place and number, have one norm to the bit.
TEST(GradientNorm, HasTheSameBits_HoweverGradientsAreCut_WhereThatIsAskedFor) {
  std::vector<double> all;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
      on_threads(ranks, only("inproc"), [&](World& world) {
        DataParallelOptions sums{};
        sums.gradients = ReduceOp::Sum;
        Small small(world, row, {{.path = "a.weight", .elements = 1001, .unit = "a"}}, sums);
        DataParallel& data = *small.data;
        data.before_forward(0), data.after_forward(0), data.before_backward(0);
        const Buffer g = data.gradient(0);
        auto* x = reinterpret_cast<float*>(g.data);
        for (int i = 0; i < 1001; ++i)  // on one rank, as what sums of several are rounded to is not asked here
          x[i] = world.rank() == 0 ? static_cast<float>(std::sin(i) * std::exp(20 * std::sin(0.3 * i))) : 0.0F;
        data.gradient_ready(0);
        data.after_backward(0);
        const auto parts = data.finish_backward();
        const double norm = gradient_norm(data, parts, {.determinism = Determinism::LayoutInvariant});
        if (world.rank() == 0) all.push_back(norm);
        data.updated();
      });
    }
  }
  for (const double norm : all) EXPECT_EQ(norm, all.front());
}

/// Two tensor-parallel ranks, two of data: 'a' is cut along tp, 'b' is on all.
TEST(GradientNorm, CountsWhatOthersHoldOnce) {
  for (const char* row : {"ddp", "zero1"}) {
    on_threads(4, only("inproc"), [&](World& world) {
      const std::vector<std::string> groups{"tp", "dp", "tp-dp"};
      Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}), groups);
      const std::vector<DataParameter> list{{.path = "a", .elements = 5, .unit = "u", .spread = "tp"},
                                            {.path = "b", .elements = 7, .unit = "u"}};
      const std::vector<float> a(5), b(7);
      const std::vector<ConstBuffer> values{bytes_of(a), bytes_of(b)};
      DataParallel data(mesh, list, values, data_row(row, {"dp"}),
                        [&](std::size_t bytes) { return world.allocate(bytes); });
      fill(data, 1, 1.0F);
      fill(data, 0, mesh.index("tp") == 0 ? 3.0F : 4.0F);
      const auto parts = data.finish_backward();
      const double expected = std::sqrt(5 * 9.0 + 5 * 16.0 + 7);
      require(std::abs(gradient_norm(data, parts) - expected) < 1e-12, row);
      data.updated();
    });
  }
}

/// Two stages of two tensor-parallel ranks. What the first holds is cut along tp, what the second holds is on both:
/// neither has a parameter with the axes of the other's.
TEST(GradientNorm, AddsUpStagesWhoseParametersAreSpreadOtherwise) {
  on_threads(4, only("inproc"), [&](World& world) {
    const std::vector<std::string> groups{"dp", "pp", "tp-pp"};
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 1}, {"pp", 2}}), groups);
    const bool first = mesh.index("pp") == 0;
    const std::vector<DataParameter> list{
        {.path = "a", .elements = first ? 5 : 7, .unit = "u", .spread = first ? "tp-pp" : "pp"}};
    const std::vector<float> a(first ? 5 : 7);
    const std::vector<ConstBuffer> values{bytes_of(a)};
    DataParallel data(mesh, list, values, data_row("ddp", {"dp"}),
                      [&](std::size_t bytes) { return world.allocate(bytes); });
    fill(data, 0, first ? 3.0F : 2.0F);
    const auto parts = data.finish_backward();
    const double norm = gradient_norm(data, parts);
    require(std::abs(norm - std::sqrt(2 * 5 * 9.0 + 7 * 4.0)) < 1e-12, std::to_string(norm));
    data.updated();
  });
}

/// A mesh of a job has no group of a stage's axis with those that shard.
TEST(GradientNorm, NeedsNoGroupOfBothAxes) {
  on_threads(4, only("inproc"), [&](World& world) {
    LayoutSizes sizes;
    sizes.pp = 2;
    JobMesh job(world.communicator(), sizes);
    Mesh& mesh = job.dense();
    const std::vector<float> a(6);
    const std::vector<ConstBuffer> values{bytes_of(a)};
    DataParallel data(mesh, {{.path = "a", .elements = 6, .unit = "u", .spread = "pp"}}, values,
                      data_row("zero1", {"dp-cp"}), [&](std::size_t bytes) { return world.allocate(bytes); });
    fill(data, 0, mesh.index("pp") == 0 ? 1.0F : 2.0F);
    const auto parts = data.finish_backward();
    require(std::abs(gradient_norm(data, parts) - std::sqrt(6.0 + 24.0)) < 1e-12, "both stages");
    data.updated();
  });
}

/// On all ranks, also on those that have no such parameter: they would wait in the next call.
TEST(GradientNorm, NeedsAGroupForTheAxesOfEachParameter) {
  on_threads(3, only("inproc"), [&](World& world) {
    const std::string said = complaint(
        [&] { const Small small(world, "zero1", {{.path = "a", .elements = 1, .unit = "a", .spread = "nix"}}); });
    require(said.find("'a' is spread along 'nix'") != std::string::npos, said);
    world.communicator().barrier().get();
  });
}

TEST(ClipScale, BoundsTheNorm) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
  EXPECT_EQ(clip_scale(0, 1), 1);
  EXPECT_TRUE(std::isnan(clip_scale(std::numeric_limits<double>::quiet_NaN(), 1)));
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::infinity(), 1), 0);
}

/// Rank r has r tokens: the mean of the ranks' means is another number.
TEST(WeightedLoss, IsRightForUnequalNumbersOfTokens) {
  on_threads(4, only("inproc"), [](World& world) {
    const int r = world.rank();
    const WeightedLoss mine{.sum = 10.0 * r, .weight = static_cast<double>(r * r)};
    const WeightedLoss all = total(world.communicator(), mine);
    require(all.sum == 60 && all.weight == 14, "sums");
    require(std::abs(all.mean() - 60.0 / 14) < 1e-15 && std::abs(all.scale() - 1.0 / 14) < 1e-15, "mean");
  });
  EXPECT_EQ(WeightedLoss{}.mean(), 0);
  EXPECT_EQ(WeightedLoss{}.scale(), 0);
}

}  // namespace
}  // namespace sinew::parallel

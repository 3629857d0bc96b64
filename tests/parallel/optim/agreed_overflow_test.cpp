#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::Small;

constexpr std::int64_t kElements = 7;

/// Passes of parameters that are a unit each. Each gradient is 1 everywhere, and `change` may change it.
void pass(DataParallel& data, const std::function<void(std::int32_t parameter, std::span<float> gradient)>& change) {
  const auto units = static_cast<std::int32_t>(data.parameters().size());
  for (std::int32_t u = 0; u < units; ++u) data.before_forward(u), data.after_forward(u);
  for (std::int32_t u = units; u-- > 0;) {
    data.before_backward(u);
    const std::span<float> gradient = data.gradient<float>(u);
    for (float& g : gradient) g += 1;
    change(u, gradient);
    data.gradient_ready(u);
    data.after_backward(u);
  }
}

/// The axes along which ranks hold different elements of two parameters.
struct Spread {
  std::string copied, cut;
};

/// Plants an infinity or a NaN into each gradient of each rank in turn. All ranks must skip these steps, and no others.
void expect_agreement(World& world, Mesh& mesh, const std::string& row, const std::vector<std::string>& axes,
                      const Spread& spread) {
  const std::vector<float> whole(kElements, 1.0F);
  const std::vector<ConstBuffer> values(2, bytes_of(whole));
  DataParallel data(mesh,
                    {{.path = "copied", .elements = kElements, .unit = "copied", .spread = spread.copied},
                     {.path = "cut", .elements = kElements, .unit = "cut", .spread = spread.cut}},
                    values, data_row(row, axes), [&](std::size_t bytes) { return world.allocate(bytes); });
  for (const Determinism level : {Determinism::Fast, Determinism::LayoutInvariant}) {
    LossScaler scaler({.growth_interval = 1'000'000});
    const auto step = [&](int planted_rank, std::int32_t planted_parameter) {
      pass(data, [&](std::int32_t p, std::span<float> gradient) {
        if (world.rank() != planted_rank || p != planted_parameter) return;
        gradient.back() =
            planted_parameter == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      });
      const auto owned = data.finish_backward();
      const bool is_good = scaler.unscale(gradient_norm(data, owned, {.determinism = level})).has_value();
      require(is_good == (planted_rank < 0), fmt::format("{}: rank {} of {} with rank {}'s gradient {} planted", row,
                                                         world.rank(), world.size(), planted_rank, planted_parameter));
      data.abandon_step();
    };
    step(-1, 0);
    for (int rank = 0; rank < world.size(); ++rank) {
      for (const std::int32_t parameter : {0, 1}) step(rank, parameter);
    }
    step(-1, 0);
    require(scaler.state().skipped_steps == 2 * world.size(), "as many as were planted");
  }
}

TEST(AgreedOverflow, OnAllRanks_WhereLayersAreCut) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const std::vector<std::string>& groups :
         {std::vector<std::string>{"tp", "dp"}, {"dp", "tp-dp", "tp"}, {"dp", "tp-dp"}}) {
      if (row != std::string("ddp") && groups.back() == "tp-dp") continue;  // one row shows it
      on_threads(4, only("inproc"), [&](World& world) {
        Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}), groups);
        expect_agreement(world, mesh, row, {"dp"}, {"", groups.back() == "tp-dp" ? "" : "tp"});
      });
    }
  }
}

/// The copies of the first parameter are on the tensor-parallel ranks of one stage. No group has them and the ranks of
/// the other stage.
TEST(AgreedOverflow, OnAllRanks_OfStagesWhoseLayersAreCut) {
  for (const char* row : {"ddp", "zero1", "zero3"}) {
    on_threads(8, only("inproc"), [&](World& world) {
      JobMesh job(world.communicator(), {.tp = 2, .pp = 2});
      expect_agreement(world, job.dense(), row, {"dp-cp"}, {"pp", "tp-pp"});
    });
  }
}

TEST(AgreedOverflow, OnAllRanks_WithExperts) {
  for (const char* row : {"ddp", "zero2"}) {
    on_threads(8, only("inproc"), [&](World& world) {
      JobMesh job(world.communicator(), {.ep = 2, .etp = 2});
      expect_agreement(world, job.expert(), row, {"edp"}, {"ep", "etp-ep-pp"});
    });
  }
}

TEST(AgreedOverflow, OnAllRanks_WhereShardsHaveCopies) {
  on_threads(4, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"shard", 2}, {"copies", 2}}));
    expect_agreement(world, mesh, "hsdp", {"shard", "copies"}, {"", ""});
  });
}

/// Squares of f32 are added in f64, so that the largest finite gradients have a finite norm.
TEST(AgreedOverflow, IsNotSeenInLargeNumbers) {
  for (const Determinism level : {Determinism::Fast, Determinism::LayoutInvariant}) {
    on_threads(2, only("inproc"), [&](World& world) {
      DataParallelOptions options{};
      options.gradients = ReduceOp::Sum;
      Small small(world, "zero2", {{.path = "w", .elements = 1000, .unit = "w"}}, options);
      constexpr float kLargest = std::numeric_limits<float>::max();
      pass(*small.data, [&](std::int32_t, std::span<float> gradient) {
        std::ranges::fill(gradient, world.rank() == 0 ? kLargest : 0.0F);
      });
      const double norm = gradient_norm(*small.data, small.data->finish_backward(), {.determinism = level});
      require(std::abs(norm / (std::sqrt(1000.0) * double{kLargest}) - 1) < 1e-12, fmt::format("{}", norm));
      small.data->abandon_step();
    });
  }
}

/// 1e150 times 65536 is a double, and its square is none. Three steps later the square fits.
TEST(AgreedOverflow, IsSeenWhereSquaresOfF64DoNotFit_AndALowerScaleMendsIt) {
  for (const Determinism level : {Determinism::Fast, Determinism::LayoutInvariant}) {
    on_threads(2, only("inproc"), [&](World& world) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
      const std::vector<double> value(3);
      const std::vector<ConstBuffer> values{bytes_of(value)};
      DataParallel data(mesh, {{.path = "w", .dtype = DType::F64, .elements = 3, .unit = "w"}}, values,
                        data_row("ddp", {"dp"}), [&](std::size_t bytes) { return world.allocate(bytes); });
      LossScaler scaler;
      std::optional<double> unscale;
      double norm = 0;
      for (int step = 0; step < 4; ++step) {
        require(!unscale, "too early");
        data.gradient<double>(0)[1] += 1e150 * scaler.scale();
        data.gradient_ready(0);
        norm = gradient_norm(data, data.finish_backward(), {.determinism = level});
        unscale = scaler.unscale(norm);
        data.abandon_step();
      }
      require(unscale && std::abs(norm * *unscale / 1e150 - 1) < 1e-12, fmt::format("{}", norm));
      require(scaler.scale() == 8192 && scaler.state().skipped_steps == 3, "three were skipped");
    });
  }
}

}  // namespace
}  // namespace sinew::parallel

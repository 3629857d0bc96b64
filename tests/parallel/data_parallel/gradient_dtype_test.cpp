#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

#include "../support/mlp.hpp"
#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::Mlp;

constexpr int kBatch = 840;  // of all ranks together: a multiple of 1 to 8
constexpr int kSteps = 20;
constexpr float kRate = 0.05F;

using Values = std::vector<std::vector<float>>;
using Bits = std::vector<std::vector<std::uint16_t>>;

const Mlp<float>& model() {
  static const Mlp<float> of({7, 13, 5, 11, 3});  // nothing divides anything
  return of;
}

Bits rounded(const Values& values) {
  Bits bits;
  for (const auto& v : values) {
    bits.emplace_back();
    for (const float x : v) bits.back().push_back(to_bfloat16(x).bits);
  }
  return bits;
}

void widen(std::vector<float>& to, const std::uint16_t* from) {
  for (std::size_t k = 0; k < to.size(); ++k) to[k] = to_float(BFloat16{from[k]});
}

/// The loss of samples first..last of a step, where it has been added up to gradients of the mean over `count`.
double pass(int step, int first, int last, int count, const Mlp<float>::Hooks& hooks) {
  const auto in = static_cast<std::size_t>(model().inputs()), out = static_cast<std::size_t>(model().outputs());
  std::vector<float> x(static_cast<std::size_t>(last - first) * in),
      target(static_cast<std::size_t>(last - first) * out);
  for (int s = first; s < last; ++s) {
    const auto k = static_cast<std::size_t>(s - first);
    test::sample<float>(std::int64_t{step} * kBatch + s, std::span(x).subspan(k * in, in),
                        std::span(target).subspan(k * out, out));
  }
  return model().pass(x, target, 1.0F / static_cast<float>(count), hooks);
}

struct Trained {
  std::vector<double> losses;
  double first_norm = 0;  // of all gradients of the first step
};

/// One process, no library: masters in f32, values in bf16, gradients in f32.
Trained train_alone() {
  Values masters = model().initial();
  Bits bits = rounded(masters);
  for (std::size_t p = 0; p < masters.size(); ++p) widen(masters[p], bits[p].data());
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    Values values = masters, gradients;
    for (std::size_t p = 0; p < values.size(); ++p) {
      widen(values[p], bits[p].data());
      gradients.emplace_back(values[p].size());
    }
    result.losses.push_back(pass(step, 0, kBatch, kBatch,
                                 {.value = [&](int p) { return values[static_cast<std::size_t>(p)].data(); },
                                  .gradient = [&](int p) { return gradients[static_cast<std::size_t>(p)].data(); }}));
    double squares = 0;
    for (std::size_t p = 0; p < masters.size(); ++p) {
      for (std::size_t k = 0; k < masters[p].size(); ++k) {
        squares += double{gradients[p][k]} * double{gradients[p][k]};
        masters[p][k] -= kRate * gradients[p][k];
      }
    }
    if (step == 0) result.first_norm = std::sqrt(squares);
    bits = rounded(masters);
  }
  return result;
}

std::vector<std::string> axes_of(const std::string& row) {
  if (row == "hsdp") return {"shard", "copies"};
  return {"dp"};
}

Factorisation shape_of(const std::string& row, int ranks) {
  const int two = ranks % 2 == 0 ? 2 : 1;
  if (row == "hsdp") return Factorisation({{"shard", ranks / two}, {"copies", two}});
  return Factorisation({{"dp", ranks}});
}

struct Job {
  Job(World& world, const std::string& row, std::vector<DataParameter> parameters, const DataParallelOptions& options)
      : axes(axes_of(row)),
        mesh(world.communicator(), shape_of(row, world.size())),
        memory(rounded(model().initial())),
        data(
            mesh, std::move(parameters), values_of(memory), data_row(row, axes),
            [&](std::size_t bytes) { return world.allocate(bytes); }, options) {}

  static std::vector<ConstBuffer> values_of(const Bits& bits) {
    std::vector<ConstBuffer> values;
    for (const auto& v : bits) values.push_back(bytes_of(v));
    return values;
  }

  std::vector<std::string> axes;
  Mesh mesh;
  Bits memory;
  DataParallel data;
};

std::vector<DataParameter> narrow_parameters(DType gradient) {
  std::vector<DataParameter> parameters = model().parameters();
  for (DataParameter& p : parameters) {
    p.dtype = DType::BF16;
    p.gradient = gradient;
  }
  return parameters;
}

/// `narrow`: gradients in bf16, too.
Trained train_together(World& world, const std::string& row, bool narrow = false,
                       const DataParallelOptions& options = {}) {
  Job job(world, row, narrow_parameters(narrow ? DType::BF16 : DType::F32), options);
  DataParallel& data = job.data;
  Optimizer sgd(data.memory(), SgdOptions{.rate = kRate});
  Values values = model().initial(), gradients = values;
  const int mine = kBatch / world.size();
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    for (auto& g : gradients) std::ranges::fill(g, 0.0F);
    Mlp<float>::Hooks hooks{.value =
                                [&](int p) {
                                  auto& v = values[static_cast<std::size_t>(p)];
                                  widen(v, reinterpret_cast<const std::uint16_t*>(data.parameter(p).data));
                                  return v.data();
                                },
                            .gradient =
                                [&](int p) {
                                  return narrow ? gradients[static_cast<std::size_t>(p)].data()
                                                : reinterpret_cast<float*>(data.gradient(p).data);
                                },
                            .before_forward = [&](int u) { data.before_forward(u); },
                            .after_forward = [&](int u) { data.after_forward(u); },
                            .before_backward = [&](int u) { data.before_backward(u); },
                            .after_backward = [&](int u) { data.after_backward(u); },
                            .gradient_ready =
                                [&](int p) {
                                  if (narrow) {
                                    const auto& g = gradients[static_cast<std::size_t>(p)];
                                    auto* to = reinterpret_cast<std::uint16_t*>(data.gradient(p).data);
                                    for (std::size_t k = 0; k < g.size(); ++k) to[k] = to_bfloat16(g[k]).bits;
                                  }
                                  data.gradient_ready(p);
                                }};
    std::vector<double> losses{pass(step, world.rank() * mine, (world.rank() + 1) * mine, mine, hooks)};
    const std::vector<OwnedPart> owned = data.finish_backward();
    for (const OwnedPart& part : owned) {
      const auto count = static_cast<std::size_t>(part.last - part.first);
      require(part.dtype == DType::BF16 && part.value.bytes == 2 * count, "values of 16 bits");
      require(part.gradient.bytes == count * (narrow ? 2 : 4), "gradients of their own dtype");
    }
    const double norm = gradient_norm(data, owned);
    if (step == 0) result.first_norm = norm;
    sgd.update(owned);
    data.updated();
    world.communicator().all_reduce(losses, ReduceOp::Average).get();
    result.losses.push_back(losses[0]);
  }
  return result;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] / b[i] - 1));
  return worst;
}

class GradientDtype : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

/// Losses: where sums differ in their last bits, a value of bf16 may be the next one.
TEST_P(GradientDtype, OfF32_TrainsParametersOfBf16_AsOneProcessDoes) {
  const auto& [row, ranks] = GetParam();
  const Trained alone = train_alone();
  on_threads(ranks, only("inproc"), [&](World& world) {
    const Trained together = train_together(world, row);
    require(std::abs(together.first_norm / alone.first_norm - 1) < 1e-6, "gradients differ");
    require(distance(together.losses, alone.losses) < 1e-4, "losses differ");
  });
}

/// What the tolerance of the first must tell apart.
TEST_P(GradientDtype, OfBf16_IsAnotherNorm) {
  const auto& [row, ranks] = GetParam();
  const Trained alone = train_alone();
  on_threads(ranks, only("inproc"), [&](World& world) {
    const Trained together = train_together(world, row, true);
    require(std::abs(together.first_norm / alone.first_norm - 1) > 1e-6, "rounded gradients do not show");
    require(distance(together.losses, alone.losses) < 2e-2, "losses differ by more than 16 bits can make");
  });
}

INSTANTIATE_TEST_SUITE_P(DataParallel, GradientDtype,
                         ::testing::Combine(::testing::Values("ddp", "zero1", "zero2", "zero3", "hsdp"),
                                            ::testing::Values(1, 2, 3, 8)),
                         [](const auto& of) {
                           return std::get<0>(of.param) + "_" + std::to_string(std::get<1>(of.param)) + "_ranks";
                         });

TEST(GradientDtypes, TravelByACodec_WhereTheyAreF32) {
  const Trained alone = train_alone();
  on_threads(3, only("inproc"), [&](World& world) {
    DataParallelOptions options{};
    options.wire = {.codec = Codec::Bf16};
    require(distance(train_together(world, "zero2", false, options).losses, alone.losses) < 2e-2, "losses differ");
  });
}

/// P parameters of bf16 with gradients of f32 on N ranks, mixed-precision Adam: as ZeRO, with 4P of gradients.
TEST(GradientDtypes, CountInTheBytesOfEachRow) {
  on_threads(4, only("inproc"), [](World& world) {
    std::vector<DataParameter> list;
    double p = 0;
    for (int i = 0; i < 12; ++i) {
      const std::string unit = std::to_string(i);
      list.push_back({.path = std::string("blocks.") + unit,
                      .dtype = DType::BF16,
                      .elements = 10007 + 131 * i,
                      .unit = unit,
                      .gradient = DType::F32});
      p += static_cast<double>(list.back().elements);
    }
    for (const auto& [row, expected] : {std::pair{"ddp", 18 * p},
                                        {"zero1", 6 * p + 12 * p / 4},
                                        {"zero2", 2 * p + 16 * p / 4},
                                        {"zero3", 18 * p / 4}}) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 4}}));
      Bits memory;
      for (const DataParameter& each : list) memory.emplace_back(static_cast<std::size_t>(each.elements));
      DataParallel data(mesh, list, Job::values_of(memory), data_row(row, {"dp"}),
                        [&](std::size_t bytes) { return world.allocate(bytes); });
      Optimizer adam(data.memory(), AdamOptions{});
      for (int u = 0; u < 12; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = 12; u-- > 0;) {
        data.before_backward(u);
        (void)data.gradient(u);
        data.gradient_ready(u);
        data.after_backward(u);
      }
      adam.update(data.finish_backward());
      data.updated();
      double held = 0;
      for (const Purpose each : {Purpose::Parameter, Purpose::Gradient, Purpose::Optimizer})
        held += static_cast<double>(data.held().of(each));
      require(std::abs(held / expected - 1) < 0.02, std::string(row) + " holds " + std::to_string(held / p) + " P");
    }
  });
}

/// Bytes over rings: gradients 4P, parameters 2P.
TEST(GradientDtypes, CountInTheTraffic) {
  WorldOptions options = only("tcp");
  options.config.tune = {"all_reduce:0-1GiB:ring", "reduce_scatter:0-1GiB:ring", "all_gather:0-1GiB:ring"};
  options.count_sent = true;
  in_processes(4, options, [](World& world) {
    constexpr std::int64_t kBlocks = 6, kElements = 4096 * 3;
    constexpr std::uint64_t kBlock = kElements * 3 / 4;  // elements that a pass over a block sends
    std::vector<DataParameter> list;
    for (int i = 0; i < kBlocks; ++i) {
      const std::string unit = std::to_string(i);
      list.push_back({.path = std::string("blocks.") + unit,
                      .dtype = DType::BF16,
                      .elements = kElements,
                      .unit = unit,
                      .gradient = DType::F32});
    }
    const Bits memory(kBlocks, std::vector<std::uint16_t>(kElements));
    for (const auto& [row, expected] : {std::pair{"ddp", kBlocks * kBlock * 2 * 4},
                                        {"zero1", kBlocks * kBlock * (4 + 2)},
                                        {"zero2", kBlocks * kBlock * (4 + 2)},
                                        {"zero3", kBlocks * kBlock * 4 + (2 * kBlocks - 1) * kBlock * 2}}) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 4}}));
      DataParallelOptions how{};
      how.rebuild_buckets = false;
      DataParallel data(
          mesh, list, Job::values_of(memory), data_row(row, {"dp"}),
          [&](std::size_t bytes) { return world.allocate(bytes); }, how);
      const auto sent = [&] {
        const std::vector<std::uint64_t> all = world.sent_bytes();
        return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
      };
      const std::uint64_t before = sent();
      for (int u = 0; u < kBlocks; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = kBlocks; u-- > 0;) {
        data.before_backward(u);
        (void)data.gradient(u);
        data.gradient_ready(u);
        data.after_backward(u);
      }
      (void)data.finish_backward();
      data.updated();
      require(sent() - before == expected, std::string(row) + " sends " + std::to_string(sent() - before));
    }
  });
}

TEST(GradientDtypes, AreRefused_WhereTheyAreNoSumOfThatParameter) {
  on_threads(2, only("inproc"), [](World& world) {
    const auto refusal = [&](DType parameter, DType gradient) {
      const std::vector<float> memory(8);
      const std::vector<ConstBuffer> values{{bytes_of(memory).data, 8 * size_of(parameter)}};
      Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
      return complaint([&] {
        DataParallel(mesh, {{.path = "w", .dtype = parameter, .elements = 8, .unit = "w", .gradient = gradient}},
                     values, data_row("ddp", {"dp"}), [&](std::size_t bytes) { return world.allocate(bytes); });
      });
    };
    const std::string wide = refusal(DType::F32, DType::BF16);
    require(wide.find("the gradient of 'w' is of bf16, expected f32, as the parameter is") != std::string::npos, wide);
    const std::string other = refusal(DType::F16, DType::BF16);
    require(other.find("is of bf16, expected f16, as the parameter is, or f32") != std::string::npos, other);
  });
}

}  // namespace
}  // namespace sinew::parallel

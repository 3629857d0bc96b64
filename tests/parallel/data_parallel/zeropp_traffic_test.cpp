// Sharded data parallelism whose exchanges are quantised, as in ZeRO++. These are tests of its training, its bytes
// between hosts and the options that it refuses.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/memory/far_traffic.hpp>
#include <support/worlds.hpp>

#include "../support/mlp.hpp"
#include "../support/zeropp_way.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::everything;
using test::Way;

// --- training ---------------------------------------------------------------------------------------------------

/// The losses of a small network that ranks train together by gradient descent.
std::vector<double> losses_of(World& world, const Way& way, int steps) {
  constexpr int kBatch = 64;
  const test::Mlp<float> model({16, 40, 40, 8});
  Mesh mesh(world.communicator(), Factorisation({{"near", 2}, {"far", world.size() / 2}}), {"near", "far", "near-far"});
  const auto initial = model.initial();
  std::vector<ConstBuffer> values;
  for (const auto& v : initial)
    values.emplace_back(reinterpret_cast<const std::byte*>(v.data()), v.size() * sizeof(float));
  DataParallel data(
      mesh, model.parameters(), values, data_row("zero3", {"near-far"}),
      [&](std::size_t bytes) { return world.allocate(bytes); }, way.options());
  const test::Mlp<float>::Hooks hooks{
      .value = [&](int p) { return data.parameter<float>(p).data(); },
      .gradient = [&](int p) { return data.gradient<float>(p).data(); },
      .before_forward = [&](int u) { data.before_forward(u); },
      .after_forward = [&](int u) { data.after_forward(u); },
      .before_backward = [&](int u) { data.before_backward(u); },
      .after_backward = [&](int u) { data.after_backward(u); },
      .gradient_ready = [&](int p) { data.gradient_ready(p); },
  };
  const int mine = kBatch / world.size();
  std::vector<float> x(static_cast<std::size_t>(mine * model.inputs())), target(static_cast<std::size_t>(mine * 8));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    for (int s = 0; s < mine; ++s) {
      const auto k = static_cast<std::size_t>(s);
      test::sample<float>(world.rank() * mine + s, std::span(x).subspan(k * 16, 16),
                          std::span(target).subspan(k * 8, 8));
    }
    std::vector<double> loss{model.pass(x, target, 1.0F / static_cast<float>(mine), hooks)};
    world.communicator().all_reduce(loss, ReduceOp::Average).get();
    losses.push_back(loss[0]);
    for (const OwnedPart& part : data.finish_backward()) {
      auto* value = reinterpret_cast<float*>(part.value.data);
      const auto* g = reinterpret_cast<const float*>(part.gradient.data);
      for (std::int64_t k = 0; k < part.last - part.first; ++k) value[k] -= 0.02F * g[k];
    }
    data.updated();
  }
  return losses;
}

TEST(ZeroPp, TrainsAsFarAsPlainExchanges) {
  on_threads(4, only("inproc"), [](World& world) {
    const std::vector<double> plain = losses_of(world, {}, 300);
    require(plain.back() < 0.6 * plain.front(),
            "the network learns: " + std::to_string(plain.front()) + " to " + std::to_string(plain.back()));
    for (const Way& way : {Way{.weights = true}, {.near = true}, {.gradients = true}, everything()}) {
      const std::vector<double> found = losses_of(world, way, 300);
      require(std::abs(found.back() - plain.back()) < 0.02 * plain.front(),
              std::to_string(found.front()) + " to " + std::to_string(found.back()) + ", plain " +
                  std::to_string(plain.back()));
    }
  });
}

// --- bytes between hosts ----------------------------------------------------------------------------------------

struct Sent {
  std::uint64_t bytes = 0;
  std::int64_t predicted = 0;
};

/// Returns the bytes that all ranks send to other hosts in a step of twelve equal units.
Sent sent_between_hosts(World& world, int near, const Way& way) {
  constexpr std::int32_t kUnits = 12;
  std::vector<DataParameter> list;
  for (std::int32_t u = 0; u < kUnits; ++u)
    list.push_back({.path = std::to_string(u), .dtype = way.dtype, .elements = 300'007, .unit = std::to_string(u)});
  Mesh mesh(world.communicator(), Factorisation({{"near", near}, {"far", world.size() / near}}),
            {"near", "far", "near-far"});
  DataParallel data(
      mesh, list, [](const InitialPart& part) { part.fill([](std::int64_t) { return 1; }); },
      data_row("zero3", {"near-far"}), [&](std::size_t bytes) { return world.allocate(bytes); }, way.options());
  const auto sent = [&] {
    const std::vector<std::uint64_t> all = world.sent_bytes();
    std::uint64_t sum = 0;
    for (int r = 0; r < world.size(); ++r)
      sum += r / near == world.rank() / near ? 0 : all[static_cast<std::size_t>(r)];
    return sum;
  };
  const std::uint64_t before = sent();
  for (std::int32_t u = 0; u < kUnits; ++u) data.before_forward(u), data.after_forward(u);
  for (std::int32_t u = kUnits; u-- > 0;) {
    data.before_backward(u);
    (void)data.gradient(u);
    data.gradient_ready(u);
    data.after_backward(u);
  }
  (void)data.finish_backward();
  data.updated();
  std::vector<std::uint64_t> all{sent() - before};
  world.communicator().all_reduce(all).get();
  const FarTraffic each = far_traffic(list, data_row("zero3", {"near-far"}), way.options(), mesh.shape(), "near");
  return {all[0], each.total() * world.size()};
}

TEST(ZeroPp, SendsAFractionBetweenHosts) {
  for (const auto& [cluster, near] : {std::pair("xeon-2s:2+2", 2), {"xeon-2s:4+4", 4}, {"xeon-2s:2+2+2+2", 2}}) {
    for (const auto& [dtype, most] : {std::pair(DType::BF16, 0.27), {DType::F32, 0.14}}) {
      WorldOptions options;
      options.count_sent = true;
      run_virtual_ranks(make_virtual_world(virtual_cluster_from(cluster)), options, [&](World& world) {
        const auto share_of = [&](const Way& way) {
          const auto sent = [&](const Way& of) {
            const Sent found = sent_between_hosts(world, near, of);
            const auto predicted = static_cast<double>(found.predicted), bytes = static_cast<double>(found.bytes);
            require(std::abs(bytes / predicted - 1) < 1e-3,
                    std::to_string(bytes) + " bytes, of which " + std::to_string(predicted) + " were predicted");
            return bytes;
          };
          const double quantised = sent(way);
          return quantised / sent({.dtype = dtype});
        };
        const double weights = share_of({.weights = true, .dtype = dtype});
        const double near_copies = share_of({.near = true, .dtype = dtype});
        const double gradients = share_of({.gradients = true, .dtype = dtype});
        const double all = share_of(everything(dtype));
        if (world.rank() == 0)
          std::printf(
              "between hosts, %s, %s: %.4f of zero3, %.4f with int8 weights, %.4f near copies, %.4f int4 sums\n",
              cluster, std::string(name_of(dtype)).c_str(), all, weights, near_copies, gradients);
        require(all <= most, "share of zero3's bytes between hosts: " + std::to_string(all));
      });
    }
  }
}

// --- options that do not fit --------------------------------------------------------------------------------------

TEST(ZeroPp, SaysWhichOptionsDoNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    const auto said = [&](const char* row, const DataParallelOptions& options) {
      Mesh mesh(world.communicator(), Factorisation({{"near", 2}, {"far", 1}}), {"near", "far", "near-far"});
      return complaint([&] {
        DataParallel(
            mesh, {{.path = "a", .elements = 10, .unit = "a"}}, [](const InitialPart&) {}, data_row(row, {"near-far"}),
            [&](std::size_t bytes) { return world.allocate(bytes); }, options);
      });
    };
    const auto expect = [&](const std::string& text, const std::string& part) {
      require(text.find(part) != std::string::npos, text + "\n  lacks: " + part);
    };
    const auto with = [](const auto& change) {
      DataParallelOptions o{};
      change(o);
      return o;
    };
    using O = DataParallelOptions;
    const O int8 = with([](O& o) { o.weights = WeightWire::Int8; });
    const O int4 = with([](O& o) { o.wire.int4 = true; });
    for (const char* row : {"ddp", "zero1", "zero2"}) {
      expect(said(row, int8),
             std::string("weights int8: row '") + row + "' keeps whole parameters; expected one that shards them");
      expect(said(row, int4),
             std::string("gradients int4: row '") + row + "' keeps whole parameters; expected one that shards them");
    }
    const auto invariant = [&](O o) {
      o.determinism = Determinism::LayoutInvariant;
      o.gradients = ReduceOp::Sum;
      return o;
    };
    expect(said("zero3", invariant(int8)), "weights int8 and layout_invariant");
    expect(said("zero3", invariant(int4)), "gradients int4 and layout_invariant");
    expect(said("zero3", with([](O& o) { o.wire = {.codec = Codec::Bf16, .int4 = true}; })),
           "gradients int4 and codec bf16: expected one of them");
    expect(said("zero3", with([](O& o) { o.wire = {.error_feedback = true, .int4 = true}; })),
           "gradients int4 with error feedback: expected");
    expect(said("zero3", with([](O& o) { o.step.scatter_axes = "near"; })),
           "scatter_axes 'near' with gradients that are not int4; expected GradientWire::int4");
    for (const char* axes : {"dp", "near-far", "near-dp"}) {
      expect(said("zero3", with([&](O& o) { o.wire.int4 = true, o.step.scatter_axes = axes; })),
             std::string("scatter_axes '") + axes + "', expected some of the axes that shard parameters ('near-far')");
    }
  });
}

}  // namespace
}  // namespace sinew::parallel

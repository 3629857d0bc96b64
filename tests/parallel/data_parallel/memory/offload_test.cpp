#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/offload/file_memory.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

#include "../../support/small.hpp"
#include "support/fake_devices.hpp"
#include "support/on_device.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_devices;
using sinew::test::on_threads;
using sinew::test::OnDevice;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::Small;
using test::two_parameters;

constexpr int kUnits = 5, kSteps = 4;

struct Job {
  Job(World& world, const OnDevice& device, const std::string& way)
      : row(way.substr(0, way.find('_'))), where(device), mesh(world.communicator(), shape(world.size()), groups()) {
    DataParallelOptions options{};
    options.step.offload = Offload::ParametersAndOptimizer;
    options.device = {&device.runtime, device.stream};
    if (way.ends_with("_kept")) options.step.reshard = Reshard::AfterBackward;
    if (way.ends_with("_near")) options.step.reshard_axes = "near";
    std::vector<DataParameter> list;
    std::vector<ConstBuffer> initial;
    for (int u = 0; u < kUnits; ++u) {
      const std::string unit = std::to_string(u);
      list.push_back({.path = unit, .dtype = DType::F64, .elements = 37 + 5 * u, .unit = unit});
      values.emplace_back(static_cast<std::size_t>(list.back().elements), 1.0 + u);
    }
    for (const auto& v : values) initial.push_back(bytes_of(v));
    const std::vector<std::string> both{"near", "far"}, flat{"near-far"};
    data.emplace(
        mesh, list, initial, data_row(row, row == "hsdp" ? both : flat),
        [&world](std::size_t bytes) { return world.allocate(bytes); }, options);
  }

  static Factorisation shape(int ranks) {
    const int two = ranks % 2 == 0 ? 2 : 1;
    return Factorisation({{"near", two}, {"far", ranks / two}});
  }
  static const std::vector<std::string>& groups() {
    static const std::vector<std::string> all{"near", "far", "near-far"};
    return all;
  }

  std::vector<double> value(int u) {
    const Buffer b = data->parameter(u);
    require(b.place.kind == MemoryKind::Device, "gathered on the device");
    return sinew::test::read<double>(where, b);
  }

  /// What a kernel would do: the gradient is half of the value, and `more`.
  void backward(int u, double more) {
    std::vector<double> host = value(u);
    const Buffer gradient = data->gradient(u);
    require(gradient.place.kind == MemoryKind::Device, "the gradient is on the device");
    const std::vector<double> sum = sinew::test::read<double>(where, gradient);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = sum[i] + host[i] / 2 + more;
    where.runtime.copy_async(gradient, bytes_of(host), where.stream);
    (void)sinew::test::read<double>(where, gradient);  // `host` ends here
    data->gradient_ready(u);
  }

  void pass(double more) {
    for (int u = 0; u < kUnits; ++u) data->before_forward(u), data->after_forward(u);
    for (int u = kUnits; u-- > 0;) {
      data->before_backward(u);
      backward(u, more);
      data->after_backward(u);
    }
  }

  std::string row;
  OnDevice where;
  Mesh mesh;
  std::vector<std::vector<double>> values;
  std::optional<DataParallel> data;
};

class Offloads : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

/// The fake's memory faults where the host touches it.
TEST_P(Offloads, TrainOnADevice_AndUpdateOnTheHost) {
  const auto& [way, ranks] = GetParam();
  on_devices(ranks, "inproc", [&](World& world, const OnDevice& where) {
    Job job(world, where, way);
    DataParallel& data = *job.data;
    Optimizer sgd(data.memory(), SgdOptions{.rate = 0.5});
    for (int step = 0; step < kSteps; ++step) {
      if (step == 2) {  // two halves of what the others do at once
        const auto scope = data.no_sync();
        job.pass(world.rank() - 1.0);
        (void)data.finish_backward();
      }
      job.pass(world.rank());
      const std::vector<OwnedPart> owned = data.finish_backward();
      for (const OwnedPart& part : owned) {
        require(part.value.place.kind == MemoryKind::Host && part.gradient.place.kind == MemoryKind::Host,
                "the optimizer's parts are the host's");
      }
      sgd.update(owned);
      data.updated();
    }
    const double rank = (world.size() - 1) / 2.0;  // the mean
    const auto scope = data.forward_only();
    for (int u = 0; u < kUnits; ++u) {
      double expected = 1.0 + u;
      for (int step = 0; step < kSteps; ++step)
        expected -= 0.5 * (step == 2 ? expected + 2 * rank - 1 : expected / 2 + rank);
      data.before_forward(u);
      for (const double found : job.value(u))
        require(std::abs(found - expected) < 1e-9, std::to_string(found) + ", expected " + std::to_string(expected));
      data.after_forward(u);
    }
    data.finish_forward();
    for (const Purpose p : {Purpose::Parameter, Purpose::Gradient, Purpose::Underway})
      require(data.held().most_of(p) == data.planned().of(p), "held as planned");
  });
}

INSTANTIATE_TEST_SUITE_P(DataParallel, Offloads,
                         ::testing::Combine(::testing::Values("zero3", "zero3_kept", "zero3_near", "hsdp"),
                                            ::testing::Range(1, 5)),
                         [](const auto& of) {
                           return std::get<0>(of.param) + "_" + std::to_string(std::get<1>(of.param)) + "_ranks";
                         });

TEST(Offload, OfAStepThatIsGivenUp_LeavesNothingOfIt) {
  on_devices(2, "inproc", [](World& world, const OnDevice& where) {
    Job job(world, where, "zero3");
    DataParallel& data = *job.data;
    job.pass(50);
    data.abandon_step();
    job.pass(world.rank());
    for (const OwnedPart& part : data.finish_backward()) {
      const double found = reinterpret_cast<const double*>(part.gradient.data)[0];
      require(found == (1.0 + part.parameter) / 2 + 0.5, std::to_string(found));
    }
    data.updated();
  });
}

TEST(Offload, IsRefused_WhereThereIsNothingToOffload) {
  DataParallelOptions options{};
  options.step.offload = Offload::ParametersAndOptimizer;
  on_threads(2, only("inproc"), [&](World& world) {
    const std::string what = complaint([&] { Small(world, "zero3", two_parameters(), options); });
    require(what.find("offload: parameters are in host memory already; expected device memory") != std::string::npos,
            what);
    DataParallelOptions only_shards{};
    only_shards.shards = FileMemory(::testing::TempDir());
    const std::string shards = complaint([&] { Small(world, "zero3", two_parameters(), only_shards); });
    require(shards.find("memory for shards without offload") != std::string::npos, shards);
  });
  on_devices(2, "inproc", [&](World& world, const OnDevice& where) {
    DataParallelOptions mine = options;
    mine.device = {&where.runtime, where.stream};
    const std::string whole = complaint([&] { Small(world, "zero2", two_parameters(), mine); });
    require(whole.find("offload: row 'zero2' keeps whole parameters") != std::string::npos, whole);
  });
}

}  // namespace
}  // namespace sinew::parallel

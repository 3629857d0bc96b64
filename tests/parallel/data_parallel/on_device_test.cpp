#include "support/on_device.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/host_copies.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"
#include "fakes/fake_kernels.hpp"
#include "support/fake_devices.hpp"
#include "support/scratch_folder.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::inject_on;
using sinew::test::on_devices;
using sinew::test::on_nccl;
using sinew::test::on_threads;
using sinew::test::OnDevice;
using sinew::test::only;
using sinew::test::require;
using test::Small;
using test::two_parameters;

constexpr int kUnits = 5, kSteps = 4;

/// The training of a model whose gradients are known functions of its values, on the host or on a fake device, whose
/// memory faults where the host touches it.
class Training {
 public:
  /// where: null for the host.
  Training(World& world, const OnDevice* where, const std::string& row, DType dtype, DType gradient)
      : where_(where), mesh_(world.communicator(), shape(world.size()), {"near", "far", "near-far"}) {
    DataParallelOptions options{};
    if (where != nullptr) options.device = {&where->runtime, where->stream};
    std::vector<DataParameter> list;
    for (int u = 0; u < kUnits; ++u) {
      const std::string unit = std::to_string(u);
      DataParameter p{.path = unit, .dtype = dtype, .elements = 37 + 5 * u, .unit = unit};
      if (gradient != dtype) p.gradient = gradient;
      list.push_back(p);
    }
    const InitialValues initial = [](const InitialPart& part) {
      require(part.into.place.kind == MemoryKind::Host, "initial values are written on the host");
      for (std::int64_t i = part.first; i < part.last; ++i)
        store(part.into, part.parameter.dtype, i - part.first, 1.0 + part.number + 0.125 * static_cast<double>(i % 8));
    };
    const std::vector<std::string> both{"near", "far"}, flat{"near-far"};
    data_.emplace(
        mesh_, list, initial, data_row(row, row == "hsdp" ? both : flat),
        [&world](std::size_t bytes) { return world.allocate(bytes); }, options);
  }

  DataParallel& data() { return *data_; }

  std::vector<double> values(int u) { return numbers(data_->parameter(u), data_->parameters()[at(u)].dtype); }

  /// Does the work of kernels: the gradient of each element is half of its value, and `more`.
  void pass(double more) {
    for (int u = 0; u < kUnits; ++u) data_->before_forward(u), data_->after_forward(u);
    for (int u = kUnits; u-- > 0;) {
      data_->before_backward(u);
      const DType dtype = data_->parameters()[at(u)].gradient_dtype();
      const std::vector<double> value = values(u);
      const Buffer gradient = data_->gradient(u);
      std::vector<double> sum = numbers(gradient, dtype);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += value[i] / 2 + more;
      write(gradient, dtype, sum);
      data_->gradient_ready(u);
      data_->after_backward(u);
    }
  }

  /// All parameters after the training, from forward passes.
  std::vector<double> all_values() {
    std::vector<double> all;
    const auto scope = data_->forward_only();
    for (int u = 0; u < kUnits; ++u) {
      data_->before_forward(u);
      for (const double x : values(u)) all.push_back(x);
      data_->after_forward(u);
    }
    data_->finish_forward();
    return all;
  }

  std::vector<double> numbers(Buffer from, DType dtype) {
    std::vector<std::byte> host(from.bytes);
    if (where_ != nullptr) {
      require(from.place.kind == MemoryKind::Device, "it is on the device");
      host = sinew::test::read<std::byte>(*where_, from);
    } else {
      host.assign(from.data, from.data + from.bytes);
    }
    std::vector<double> numbers;
    for (std::size_t i = 0; i < host.size() / size_of(dtype); ++i)
      numbers.push_back(load({host.data(), host.size()}, dtype, static_cast<std::int64_t>(i)));
    return numbers;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static Factorisation shape(int ranks) {
    const int two = ranks % 2 == 0 ? 2 : 1;
    return Factorisation({{"near", two}, {"far", ranks / two}});
  }
  static double load(Buffer from, DType dtype, std::int64_t i) {
    const std::byte* const p = from.data + static_cast<std::size_t>(i) * size_of(dtype);
    if (dtype == DType::F64) return *reinterpret_cast<const double*>(p);
    if (dtype == DType::F32) return *reinterpret_cast<const float*>(p);
    return to_float(*reinterpret_cast<const BFloat16*>(p));
  }
  static void store(Buffer to, DType dtype, std::int64_t i, double x) {
    std::byte* const p = to.data + static_cast<std::size_t>(i) * size_of(dtype);
    if (dtype == DType::F64) *reinterpret_cast<double*>(p) = x;
    if (dtype == DType::F32) *reinterpret_cast<float*>(p) = static_cast<float>(x);
    if (dtype == DType::BF16) *reinterpret_cast<BFloat16*>(p) = to_bfloat16(static_cast<float>(x));
  }
  void write(Buffer to, DType dtype, const std::vector<double>& numbers) {
    std::vector<std::byte> host(to.bytes);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      store({host.data(), host.size()}, dtype, static_cast<std::int64_t>(i), numbers[i]);
    if (where_ == nullptr) {
      std::copy(host.begin(), host.end(), to.data);
    } else {
      where_->runtime.copy_async(to, Buffer{host.data(), host.size()}, where_->stream);
      drain(where_->runtime, where_->stream);  // `host` ends here
    }
  }

  const OnDevice* where_;
  Mesh mesh_;
  std::optional<DataParallel> data_;
};

struct Case {
  std::string row;
  int ranks = 1;
  DType dtype = DType::F64, gradient = DType::F64;
  bool adam = true;
};

/// Steps, the second of them with two passes, and all with clipped gradients. Returns the norms, then all values.
std::vector<double> train(World& world, const OnDevice* where, const Case& c) {
  Training job(world, where, c.row, c.dtype, c.gradient);
  DataParallel& data = job.data();
  Optimizer optimizer = c.adam ? Optimizer(data.memory(), AdamOptions{.rate = 0.05, .weight_decay = 0.1})
                               : Optimizer(data.memory(), SgdOptions{.rate = 0.2, .momentum = 0.9, .nesterov = true});
  std::vector<double> found;
  for (int step = 0; step < kSteps; ++step) {
    if (step == 1) {
      const auto scope = data.no_sync();
      job.pass(world.rank() - 1.0);
      (void)data.finish_backward();
    }
    job.pass(world.rank());
    const std::vector<OwnedPart> owned = data.finish_backward();
    for (const OwnedPart& part : owned) {
      const MemoryKind expected = where == nullptr ? MemoryKind::Host : MemoryKind::Device;
      require(part.value.place.kind == expected && part.gradient.place.kind == expected, "where parts are");
    }
    found.push_back(gradient_norm(data, owned));
    optimizer.update(owned, clip_scale(found.back(), 10));
    data.updated();
  }
  for (const double x : job.all_values()) found.push_back(x);
  for (const Purpose p : {Purpose::Parameter, Purpose::Gradient, Purpose::Underway})
    require(data.held().most_of(p) == data.planned().of(p), "held as planned");
  return found;
}

void require_near(const std::vector<double>& found, const std::vector<double>& expected, DType dtype) {
  require(found.size() == expected.size(), "as many numbers");
  const double allowed = dtype == DType::F64 ? 1e-12 : dtype == DType::F32 ? 1e-5 : 1e-2;
  for (std::size_t i = 0; i < found.size(); ++i)
    require(std::abs(found[i] - expected[i]) <= allowed * std::max(1.0, std::abs(expected[i])),
            std::to_string(i) + ": " + std::to_string(found[i]) + ", expected " + std::to_string(expected[i]));
}

/// The text of the Error that the call throws; "no error" where it throws none.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// The numbers of train() on the host, by rank.
std::map<int, std::vector<double>> trained_on_host(const Case& c) {
  std::mutex mutex;
  std::map<int, std::vector<double>> numbers;
  on_threads(c.ranks, only("inproc"), [&](World& world) {
    std::vector<double> found = train(world, nullptr, c);
    const std::scoped_lock lock(mutex);
    numbers[world.rank()] = std::move(found);
  });
  return numbers;
}

class OnDeviceRows : public ::testing::TestWithParam<Case> {};

TEST_P(OnDeviceRows, TrainAsOnTheHost) {
  const Case& c = GetParam();
  fake::add_parallel_kernels();
  const auto on_host = trained_on_host(c);
  on_devices(c.ranks, "inproc", [&](World& world, const OnDevice& where) {
    require_near(train(world, &where, c), on_host.at(world.rank()), c.dtype);
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const char* row : {"ddp", "zero1", "zero2", "zero3", "hsdp"}) {
    for (const int ranks : {1, 2, 3, 4, 8}) all.push_back({.row = row, .ranks = ranks});
    all.push_back({.row = row, .ranks = 2, .adam = false});
    all.push_back({.row = row, .ranks = 4, .dtype = DType::F32, .gradient = DType::F32});
    all.push_back({.row = row, .ranks = 2, .dtype = DType::BF16, .gradient = DType::F32});
    all.push_back({.row = row, .ranks = 2, .dtype = DType::BF16, .gradient = DType::BF16, .adam = false});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(DataParallel, OnDeviceRows, ::testing::ValuesIn(all_cases()), [](const auto& of) {
  const Case& c = of.param;
  return c.row + "_" + std::to_string(c.ranks) + "_ranks_" + std::string(name_of(c.dtype)) + "_" +
         std::string(name_of(c.gradient)) + (c.adam ? "_adam" : "_sgd");
});

/// NCCL's calls stay on the device's stream when the host goes on, unlike those of the rows above.
TEST_P(OnDeviceRows, TrainAsOnTheHost_WhenTheHostGoesAhead) {
  const Case& c = GetParam();
  fake::add_parallel_kernels();
  const auto on_host = trained_on_host(c);
  on_nccl(c.ranks, [&](World& world, const OnDevice& where) {
    require_near(train(world, &where, c), on_host.at(world.rank()), c.dtype);
  });
}

/// Lets an exchange of the second step fail on the device of rank 1.
void fail_in_the_second_step(
    const std::function<void(World&, Training&, Optimizer&, const OnDevice&, bool counted)>& then) {
  fake::add_parallel_kernels();
  on_nccl(2, [&](World& world, const OnDevice& where) {
    Communicator other = world.communicator().split(0, world.rank());
    Training job(world, &where, "zero2", DType::F32, DType::F32);
    Optimizer adam(job.data().memory(), AdamOptions{.rate = 0.05});
    job.pass(world.rank());
    adam.update(job.data().finish_backward());
    job.data().updated();
    require(job.data().keeps_state(), "the first step is sound");
    inject_on(1, kFakeNcclAsyncError, other);
    bool counted = false;
    try {
      job.pass(world.rank());
      adam.update(job.data().finish_backward());
      counted = true;
      job.data().updated();
    } catch (const Error&) {  // the host may find the failure at once
    }
    then(world, job, adam, where, counted);
  });
}

TEST(OnDevice, NothingIsCarriedOfAStepWhoseExchangeFailsLater) {
  fail_in_the_second_step([](World&, Training& job, Optimizer& adam, const OnDevice&, bool counted) {
    require(parts_to_carry(job.data(), adam).empty() == counted, "parts of the last step that is sound");
  });
}

TEST(OnDevice, NoCheckpointAndNoPassFollowAStepWhoseExchangeFailsLater) {
  fail_in_the_second_step([](World&, Training& job, Optimizer& adam, const OnDevice&, bool counted) {
    if (!counted) return;
    const std::string saving = error_of([&] { (void)parts_to_save(job.data(), adam); });
    require(saving.find("a planted asynchronous error") != std::string::npos, saving);
    const std::string passing = error_of([&] { (void)job.all_values(); });
    require(passing.find("a planted asynchronous error") != std::string::npos, passing);
  });
}

TEST(OnDevice, AnOverflowSkipsTheStep_OnAllRanks) {
  fake::add_parallel_kernels();
  on_devices(3, "inproc", [&](World& world, const OnDevice& where) {
    Training job(world, &where, "zero2", DType::F32, DType::F32);
    DataParallel& data = job.data();
    Optimizer sgd(data.memory(), SgdOptions{.rate = 0.5});
    LossScaler scaler({.initial = 8});
    const double infinite = std::numeric_limits<double>::infinity();
    job.pass(world.rank() == 1 ? infinite : 0.0);
    require(!scaler.unscale(gradient_norm(data, data.finish_backward())), "the step is skipped");
    require(scaler.scale() == 4, "the scale is lower");
    data.abandon_step();
    job.pass(0);
    const std::vector<OwnedPart> owned = data.finish_backward();
    const double norm = gradient_norm(data, owned);
    require(std::isfinite(norm) && norm > 0, "nothing of the step is left");
    sgd.update(owned);
    data.updated();
  });
}

TEST(OnDevice, ACheckpoint_GoesOnUnderAnotherRow) {
  fake::add_parallel_kernels();
  const sinew::test::ScratchFolder folder;
  on_devices(4, "inproc", [&](World& world, const OnDevice& where) {
    const ComputeDevice device{&where.runtime, where.stream};
    const auto step = [&](Training& job, Optimizer& adam) {
      job.pass(world.rank());
      adam.update(job.data().finish_backward());
      job.data().updated();
    };
    Training before(world, &where, "zero3", DType::BF16, DType::F32);
    Optimizer first(before.data().memory(), AdamOptions{.rate = 0.05});
    step(before, first);
    HostCopies saved(device, parts_to_save(before.data(), first));
    saved.bring_down();
    save_checkpoint(world.communicator(), folder / "", saved.parts(), {.step = 1, .optimizer_steps = 1});
    Training after(world, &where, "zero1", DType::BF16, DType::F32);
    Optimizer second(after.data().memory(), AdamOptions{.rate = 0.05});
    HostCopies loaded(device, parts_to_load(after.data(), second));
    const Loaded found = load_checkpoint(world.communicator(), step_folder(folder / "", 1), loaded.parts());
    loaded.send_up();
    second.restore_steps(found.metadata.optimizer_steps);
    step(before, first);
    step(after, second);
    require(before.all_values() == after.all_values(), "both go on alike");
  });
}

TEST(OnDevice, HostCopies_RefuseAPartOnADevice_WithoutADevice) {
  on_devices(1, "inproc", [&](World&, const OnDevice& where) {
    std::vector<float> numbers(5, 1.0F), more(3, 2.0F);
    const CheckpointItem item{"w", DType::F32, {5}}, other{"v", DType::F32, {3}};
    const Buffer first = sinew::test::write(where, numbers), second = sinew::test::write(where, more);
    const std::vector<CheckpointPart> parts{{item, whole_of(item), first}, {other, whole_of(other), second}};
    const std::string what = complaint([&] { HostCopies(ComputeDevice{}, parts); });
    require(what.find("host copies: 'w' (f32 [5]) is in memory of device 0, and no device was given") == 0, what);
    HostCopies copies({&where.runtime, where.stream}, parts);
    const std::ptrdiff_t apart = copies.parts()[1].buffer.data - copies.parts()[0].buffer.data;
    require(apart == 64, "parts lie in cache lines of their own");
    copies.bring_down();
    require(reinterpret_cast<const float*>(copies.parts()[1].buffer.data)[2] == 2.0F, "the values of the device");
    for (const Buffer b : {first, second}) where.runtime.release(b);
  });
}

TEST(OnDevice, RefusesWhatNoDeviceDoes) {
  on_devices(2, "inproc", [&](World& world, const OnDevice& where) {
    DataParallelOptions options{};
    options.device = {&where.runtime, where.stream};
    options.weights = WeightWire::Int8;
    const std::string weights = complaint([&] { Small(world, "zero3", two_parameters(), options); });
    require(weights.find("device: int8 weights; expected plain weights") != std::string::npos, weights);
    options.weights = WeightWire::Plain;
    options.device.stream.device = -1;
    const std::string stream = complaint([&] { Small(world, "zero3", two_parameters(), options); });
    require(stream.find("device: a stream of no device") != std::string::npos, stream);
  });
}

TEST(OnDevice, OutOfMemory_IsNamedByTheRankThatLacksIt) {
  fake::add_parallel_kernels();
  on_devices(2, "inproc", [&](World& world, const OnDevice& where) {
    DataParallelOptions options{};
    options.device = {&where.runtime, where.stream};
    if (world.rank() == 1) dynamic_cast<fake::Device&>(where.runtime).fail_next_allocation("out of memory");
    std::string what;
    try {
      Small job(world, "ddp", two_parameters(), options);
      world.communicator().barrier().get();  // rank 0 needs nothing of rank 1 before
      require(false, "no error");
    } catch (const Error& e) {
      what = e.what();
    }
    require(what.find("out of memory") != std::string::npos, what);
    if (world.rank() == 0) require(what.find("rank 1") != std::string::npos, what);
  });
}

TEST(OnDevice, OutOfMemoryInGradientNorm_IsNamedByTheRankThatLacksIt) {
  fake::add_parallel_kernels();
  on_devices(2, "inproc", [&](World& world, const OnDevice& where) {
    Training job(world, &where, "zero2", DType::F32, DType::F32);
    job.pass(world.rank());
    const std::vector<OwnedPart> owned = job.data().finish_backward();
    if (world.rank() == 1) dynamic_cast<fake::Device&>(where.runtime).fail_next_allocation("out of memory");
    const std::string what = error_of([&] { (void)gradient_norm(job.data(), owned); });
    require(what.find("out of memory") != std::string::npos, what);
    if (world.rank() == 0) require(what.find("rank 1") != std::string::npos, what);
  });
}

}  // namespace
}  // namespace sinew::parallel

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;

/// A training run: its engine, and what its ranks do with the scale.
struct Training {
  std::string row = "ddp";
  int ranks = 2;
  DType dtype = DType::F32, gradient = DType::F32;
  int passes = 1;  ///< of each step; all but the last one only add up
  GradientWire wire{};
  LossScalerOptions scaling{};
  bool scales_feedback = true;
};

// A step has the number of its sample, or is one of these.
constexpr int kOverflow = -1;   // one gradient of one rank is infinite
constexpr int kAbandoned = -2;  // given up before it begins

void put(DataParallel& data, std::int32_t parameter, std::size_t element, double value) {
  switch (data.parameters()[static_cast<std::size_t>(parameter)].gradient_dtype()) {
    case DType::F64: data.gradient<double>(parameter)[element] += value; break;
    case DType::BF16: {
      BFloat16& g = data.gradient<BFloat16>(parameter)[element];
      g = to_bfloat16(to_float(g) + static_cast<float>(value));
      break;
    }
    case DType::F16: {
      Half& g = data.gradient<Half>(parameter)[element];
      g = to_half(to_float(g) + static_cast<float>(value));
      break;
    }
    default: data.gradient<float>(parameter)[element] += static_cast<float>(value);
  }
}

/// Two units of 300 and 41 elements on one rank, with an optimizer and a scaler.
class Engine {
 public:
  Engine(World& world, const Training& run)
      : run_(run),
        rank_(world.rank()),
        mesh_(world.communicator(), run.row == "hsdp" ? Factorisation({{"shard", run.ranks / 2}, {"copies", 2}})
                                                      : Factorisation({{"dp", run.ranks}})),
        values_{std::vector<std::byte>(300 * size_of(run.dtype)), std::vector<std::byte>(41 * size_of(run.dtype))},
        views_{bytes_of(values_[0]), bytes_of(values_[1])},
        data_(mesh_,
              {{.path = "a", .dtype = run.dtype, .elements = 300, .unit = "a", .gradient = run.gradient},
               {.path = "b", .dtype = run.dtype, .elements = 41, .unit = "b", .gradient = run.gradient}},
              views_,
              data_row(run.row, run.row == "hsdp" ? std::vector<std::string>{"shard", "copies"}
                                                  : std::vector<std::string>{"dp"}),
              [&world](std::size_t bytes) { return world.allocate(bytes); }, {.wire = run.wire}),
        adam_(data_.memory(), AdamOptions{.rate = 0.01}),
        scaler_(run.scaling) {}

  void step(int sample) {
    if (sample == kAbandoned) return data_.abandon_step();
    for (int i = 0; i + 1 < run_.passes; ++i) {
      const auto scope = data_.no_sync();
      pass(sample, i);
      (void)data_.finish_backward();
    }
    pass(sample, run_.passes - 1);
    const auto owned = data_.finish_backward();
    const double norm = gradient_norm(data_, owned);
    const std::optional<double> unscale = scaler_.unscale(norm);
    require(unscale.has_value() == (sample != kOverflow), fmt::format("{}: a norm of {}", run_.row, norm));
    if (unscale) {
      adam_.update(owned, *unscale * clip_scale(norm * *unscale, 1.0));
      data_.updated();
    } else {
      data_.abandon_step();
    }
    if (run_.scales_feedback) data_.scale_feedback(scaler_.change());
  }

  /// The values and the optimizer's state that this rank owns.
  std::vector<std::byte> bytes() {
    std::vector<std::byte> all;
    const auto add = [&all](Buffer b) { all.insert(all.end(), b.data, b.data + b.bytes); };
    for (const OwnedPart& part : data_.owned_values()) add(part.value);
    for (const StatePart& part : adam_.state(data_.owned_values())) add(part.values);
    return all;
  }
  DataParallel& data() noexcept { return data_; }
  Optimizer& adam() noexcept { return adam_; }
  LossScaler& scaler() noexcept { return scaler_; }

 private:
  void pass(int sample, int number) {
    for (const int u : {0, 1}) data_.before_forward(u), data_.after_forward(u);
    for (const int u : {1, 0}) {
      data_.before_backward(u);
      const auto elements = static_cast<std::size_t>(data_.parameters()[static_cast<std::size_t>(u)].elements);
      for (std::size_t i = 0; i < elements; ++i)
        put(data_, u, i, scaler_.scale() * std::sin(0.7 * static_cast<double>(i) + 1.9 * sample + rank_ + number));
      if (sample == kOverflow && rank_ + 1 == run_.ranks && number == 0 && u == 0)
        put(data_, u, 3, std::numeric_limits<double>::infinity());
      data_.gradient_ready(u);
      data_.after_backward(u);
    }
  }

  Training run_;
  int rank_;
  Mesh mesh_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<ConstBuffer> views_;
  DataParallel data_;
  Optimizer adam_;
  LossScaler scaler_;
};

/// By rank, after these steps.
std::vector<std::vector<std::byte>> bytes_after(const Training& run, const std::vector<int>& samples) {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(run.ranks));
  on_threads(run.ranks, only("inproc"), [&](World& world) {
    Engine engine(world, run);
    std::int64_t good = 0, skipped = 0;
    for (const int sample : samples) {
      const std::vector<std::byte> before = sample == kOverflow && good > 0 ? engine.bytes() : std::vector<std::byte>{};
      engine.step(sample);
      good += sample >= 0 ? 1 : 0;
      skipped += sample == kOverflow ? 1 : 0;
      require(before.empty() || engine.bytes() == before, run.row + ": a skipped step changed something");
    }
    require(engine.adam().steps() == good, "the optimizer counts the steps that it made");
    require(engine.scaler().state().skipped_steps == skipped, "the scaler counts the others");
    all[static_cast<std::size_t>(world.rank())] = engine.bytes();
  });
  return all;
}

std::vector<Training> all_runs() {
  std::vector<Training> runs;
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    runs.push_back({.row = row, .ranks = 3});
    runs.push_back({.row = row, .dtype = DType::F64, .gradient = DType::F64, .passes = 2});
    runs.push_back({.row = row, .dtype = DType::BF16, .gradient = DType::F32});
    runs.push_back({.row = row, .dtype = DType::BF16, .gradient = DType::BF16});
  }
  runs.push_back({.row = "hsdp", .ranks = 4});
  runs.push_back({.row = "hsdp", .ranks = 4, .dtype = DType::BF16, .gradient = DType::F32, .passes = 2});
  return runs;
}

/// With skipped steps at the beginning, in the middle and one after the other, training ends with the bits of a
/// training in which they never were.
TEST(SkippedStep, LeavesNothing_UnderEveryRow) {
  for (const Training& run : all_runs()) {
    const auto expected = bytes_after(run, {0, 1, 2, 3});
    EXPECT_EQ(bytes_after(run, {kOverflow, 0, 1, kOverflow, kOverflow, 2, 3, kOverflow}), expected)
        << run.row << ", " << name_of(run.dtype) << " by " << name_of(run.gradient);
    EXPECT_NE(bytes_after(run, {0, 1, 3}), expected) << "steps must show";
  }
}

/// A power of two changes no bit.
TEST(SkippedStep, HasTheBitsOfAnotherScale) {
  for (Training run : all_runs()) {
    const auto expected = bytes_after(run, {0, 1, 2, 3});
    run.scaling = {.initial = 1, .is_fixed = true};
    EXPECT_EQ(bytes_after(run, {0, 1, 2, 3}), expected) << run.row;
    run.scaling = {.initial = 8, .growth_interval = 1};
    EXPECT_EQ(bytes_after(run, {0, 1, 2, 3}), expected) << run.row;
  }
}

std::vector<Training> runs_with_feedback() {
  std::vector<Training> runs;
  for (const Codec codec : {Codec::Bf16, Codec::Int8, Codec::F8E4M3}) {
    for (const char* row : {"ddp", "zero1", "zero2", "zero3"})
      runs.push_back({.row = row, .wire = {.codec = codec, .error_feedback = true}});
  }
  return runs;
}

/// A skipped step drops all errors that error feedback has kept, so that no infinity stays.
TEST(SkippedStep, LeavesNoErrorsOfACodec) {
  for (const Training& run : runs_with_feedback()) {
    EXPECT_EQ(bytes_after(run, {kOverflow, 0, 1, 2}), bytes_after(run, {0, 1, 2})) << run.row;
    EXPECT_EQ(bytes_after(run, {0, 1, kOverflow, 2, 3}), bytes_after(run, {0, 1, kAbandoned, 2, 3})) << run.row;
    EXPECT_NE(bytes_after(run, {0, 1, kAbandoned, 2, 3}), bytes_after(run, {0, 1, 2, 3})) << "errors must show";
  }
}

/// The errors are in units of the gradients that they are of.
TEST(SkippedStep, ErrorsOfACodecFollowTheScale) {
  const std::vector<int> samples{0, 1, 2, 3, 4};
  for (Training run : runs_with_feedback()) {
    run.scaling = {.initial = 8, .is_fixed = true};
    const auto expected = bytes_after(run, samples);
    run.scaling = {.initial = 8, .growth_interval = 1};
    EXPECT_EQ(bytes_after(run, samples), expected) << run.row << ", " << name_of(run.wire.codec);
    run.scales_feedback = false;
    EXPECT_NE(bytes_after(run, samples), expected) << run.row << ", " << name_of(run.wire.codec);
  }
}

TEST(SkippedStep, FeedbackIsScaledBetweenStepsOnly) {
  on_threads(2, only("inproc"), [](World& world) {
    Engine engine(world, {.wire = {.codec = Codec::Int8, .error_feedback = true}});
    for (const double factor : {0.0, -2.0, std::numeric_limits<double>::infinity()}) {
      const std::string said = complaint([&] { engine.data().scale_feedback(factor); });
      require(said.find("expected a finite number above 0") != std::string::npos, said);
    }
    engine.step(0);
    engine.data().gradient_ready(0);
    world.communicator().barrier().get();
    const std::string said = complaint([&] { engine.data().scale_feedback(2); });
    require(said.find("scale_feedback()") != std::string::npos, said);
  });
}

/// Gradients of f16: 2^-26 is less than half of the smallest one, and 3 * 65536 more than the largest. The scaler finds
/// a scale under which both arrive.
TEST(SkippedStep, FindsAScale_UnderWhichSmallAndLargeGradientsOfF16Arrive) {
  for (const char* row : {"ddp", "zero1", "zero3"}) {
    on_threads(2, only("inproc"), [&](World& world) {
      const auto moved = [&](const LossScalerOptions& scaling) {
        Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
        const std::vector<std::uint16_t> zeros(64);
        const std::vector<ConstBuffer> values{bytes_of(zeros)};
        DataParallel data(mesh, {{.path = "w", .dtype = DType::F16, .elements = 64, .unit = "w"}}, values,
                          data_row(row, {"dp"}), [&](std::size_t bytes) { return world.allocate(bytes); });
        Optimizer sgd(data.memory(), SgdOptions{.rate = 1});
        LossScaler scaler(scaling);
        for (int step = 0; step < 10; ++step) {
          data.before_forward(0), data.after_forward(0), data.before_backward(0);
          for (std::size_t i = 0; i < 64; ++i) put(data, 0, i, scaler.scale() * (i % 2 == 0 ? 3 : std::exp2(-26)));
          data.gradient_ready(0);
          data.after_backward(0);
          const auto owned = data.finish_backward();
          const auto unscale = scaler.unscale(gradient_norm(data, owned));
          if (!unscale) {
            data.abandon_step();
            continue;
          }
          sgd.update(owned, *unscale);
          data.updated();
        }
        require(scaling.is_fixed || scaler.state().skipped_steps > 0, "65536 is too much");
        for (const StatePart& part : sgd.state(data.owned_values())) {
          const std::span master(reinterpret_cast<const float*>(part.values.data), part.values.bytes / sizeof(float));
          const auto good = static_cast<double>(sgd.steps());
          for (std::size_t i = 0; i < master.size(); ++i) {
            const bool is_large = (static_cast<std::size_t>(part.first) + i) % 2 == 0;
            if (is_large) require(master[i] == -3 * good, fmt::format("{} for {} steps of 3", master[i], good));
            if (!is_large && master[i] == 0) return false;
          }
        }
        return true;
      };
      require(moved({}), "small gradients arrive");
      require(!moved({.initial = 1, .is_fixed = true}), "without a scale they are zero");
    });
  }
}

}  // namespace
}  // namespace sinew::parallel

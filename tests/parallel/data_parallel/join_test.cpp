#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/join.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

#include "../support/mlp.hpp"
#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;
using test::bytes_of;
using test::Mlp;

constexpr double kJoinRate = 0.05;
const std::vector<int> kJoinWidth{5, 17, 9, 3};

/// The number of batches of a rank. Some ranks have none.
int batches_of(int rank) { return (5 * rank + 3) % 6; }
int samples_in(int rank, int batch) { return 1 + (rank + batch) % 3; }

struct JoinData {
  std::vector<double> x, target;
};
JoinData batch_of(const Mlp<double>& model, int rank, int batch) {
  const auto in = static_cast<std::size_t>(model.inputs()), out = static_cast<std::size_t>(model.outputs());
  const auto count = static_cast<std::size_t>(samples_in(rank, batch));
  JoinData data{std::vector<double>(count * in), std::vector<double>(count * out)};
  for (std::size_t s = 0; s < count; ++s)
    test::sample<double>((rank * 10 + batch) * 3 + static_cast<std::int64_t>(s), std::span(data.x).subspan(s * in, in),
                         std::span(data.target).subspan(s * out, out));
  return data;
}

/// Mean losses of the steps, by one process without the library. A step uses one batch of each rank that has one left,
/// or two of them.
std::vector<double> losses_alone(int ranks, int batches_in_step) {
  const Mlp<double> model(kJoinWidth);
  std::vector<std::vector<double>> values = model.initial();
  std::vector<double> losses;
  for (int first = 0;; first += batches_in_step) {
    std::vector<std::vector<double>> gradients;
    for (const auto& v : values) gradients.emplace_back(v.size(), 0.0);
    const Mlp<double>::Hooks hooks{.value = [&](int p) { return values[static_cast<std::size_t>(p)].data(); },
                                   .gradient = [&](int p) { return gradients[static_cast<std::size_t>(p)].data(); }};
    double sum = 0, count = 0;
    for (int r = 0; r < ranks; ++r) {
      for (int b = first; b < std::min(first + batches_in_step, batches_of(r)); ++b) {
        const JoinData data = batch_of(model, r, b);
        sum += model.pass(data.x, data.target, 1, hooks);
        count += samples_in(r, b);
      }
    }
    if (count == 0) return losses;
    losses.push_back(sum / count);
    for (std::size_t p = 0; p < values.size(); ++p) {
      for (std::size_t i = 0; i < values[p].size(); ++i) values[p][i] -= kJoinRate * gradients[p][i] / count;
    }
  }
}

/// The ranks of one row, each with its own number of batches.
class UnevenTrainer {
 public:
  UnevenTrainer(World& world, const std::string& row, bool unused_are_zero)
      : world_(world),
        mesh_(world.communicator(), shape(row, world.size()), axes(row)),
        initial_(model_.initial()),
        values_(views(initial_)),
        data_(mesh_, model_.parameters(), values_, data_row(row, axes(row)),
              [&world](std::size_t bytes) { return world.allocate(bytes); },
              {.gradients = ReduceOp::Sum, .unused_are_zero = unused_are_zero}),
        sgd_(data_.memory(), SgdOptions{.rate = kJoinRate}),
        join_(data_) {}

  std::vector<double> losses(int batches_in_step) {
    std::vector<double> losses;
    while (join_.next(has_batch())) {
      WeightedLoss loss;
      for (int b = 0; b + 1 < batches_in_step; ++b) {
        const auto scope = data_.no_sync();
        loss += pass();
        require(data_.finish_backward().empty(), "gradients are only added up");
        (void)join_.next(has_batch());
      }
      loss += pass();
      const auto owned = data_.finish_backward();
      const WeightedLoss all = total(world_.communicator(), loss);
      sgd_.update(owned, all.scale());
      data_.updated();
      losses.push_back(all.mean());
    }
    require(join_.ranks_with_batch() == 0 && !has_batch(), "batches are left");
    return losses;
  }

  DataParallel& data() { return data_; }

 private:
  bool has_batch() const { return batch_ < batches_of(world_.rank()); }

  WeightedLoss pass() {
    if (!has_batch()) {
      shadow_pass(data_);
      return {};
    }
    const Mlp<double>::Hooks hooks{.value = [&](int p) { return data_.parameter<double>(p).data(); },
                                   .gradient = [&](int p) { return data_.gradient<double>(p).data(); },
                                   .before_forward = [&](int u) { data_.before_forward(u); },
                                   .after_forward = [&](int u) { data_.after_forward(u); },
                                   .before_backward = [&](int u) { data_.before_backward(u); },
                                   .after_backward = [&](int u) { data_.after_backward(u); },
                                   .gradient_ready = [&](int p) { data_.gradient_ready(p); }};
    const int batch = batch_++;
    const JoinData data = batch_of(model_, world_.rank(), batch);
    return {model_.pass(data.x, data.target, 1, hooks), static_cast<double>(samples_in(world_.rank(), batch))};
  }

  static Factorisation shape(const std::string& row, int ranks) {
    if (row != "hsdp") return Factorisation({{"dp", ranks}});
    const int two = ranks % 2 == 0 ? 2 : 1;
    return Factorisation({{"fsdp", ranks / two}, {"copies", two}});
  }
  static std::vector<std::string> axes(const std::string& row) {
    return row == "hsdp" ? std::vector<std::string>{"fsdp", "copies"} : std::vector<std::string>{"dp"};
  }
  static std::vector<ConstBuffer> views(const std::vector<std::vector<double>>& values) {
    std::vector<ConstBuffer> all;
    for (const auto& v : values) all.push_back(bytes_of(v));
    return all;
  }

  World& world_;
  Mlp<double> model_{kJoinWidth};
  Mesh mesh_;
  std::vector<std::vector<double>> initial_;
  std::vector<ConstBuffer> values_;
  DataParallel data_;
  Optimizer sgd_;
  Join join_;
  int batch_ = 0;
};

TEST(Join, TrainsAsOneProcessWithAllSamples_UnderEveryRow) {
  for (const int batches_in_step : {1, 2}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      const std::vector<double> expected = losses_alone(ranks, batches_in_step);
      ASSERT_GT(expected.size(), 1U);
      for (const std::string row : {"ddp", "zero1", "zero2", "zero3", "hsdp"}) {
        for (const bool unused_are_zero : {false, true}) {
          if (unused_are_zero && ranks != 3) continue;
          on_threads(ranks, only("inproc"), [&](World& world) {
            UnevenTrainer trainer(world, row, unused_are_zero);
            const std::vector<double> found = trainer.losses(batches_in_step);
            require(found.size() == expected.size(), fmt::format("{} steps under {}", found.size(), row));
            for (std::size_t s = 0; s < found.size(); ++s)
              require(
                  std::abs(found[s] / expected[s] - 1) < 1e-9,
                  fmt::format("step {} under {} with {} ranks: {}, expected {}", s, row, ranks, found[s], expected[s]));
          });
        }
      }
    }
  }
}

TEST(Join, MakesShadowPassesOfEvaluations) {
  for (const std::string row : {"ddp", "zero2", "zero3"}) {
    on_threads(3, only("inproc"), [&](World& world) {
      test::Small model(world, row, test::two_parameters(), {.gradients = ReduceOp::Sum}, 3);
      DataParallel& data = *model.data;
      Join join(data);
      const auto scope = data.forward_only();
      int passes = 0;
      while (join.next(passes < world.rank())) {
        if (passes++ < world.rank()) {
          for (const std::int32_t unit : {0, 1}) {
            data.before_forward(unit);
            require(data.parameter<float>(unit)[0] == 3, "gathered");
            data.after_forward(unit);
          }
        } else {
          shadow_pass(data);
        }
        data.finish_forward();
      }
      require(passes == 2, "as many passes as the rank with the most");
    });
  }
}

TEST(Join, AllowsABatchAfterAStepWithoutOne) {
  on_threads(2, only("inproc"), [&](World& world) {
    test::Small model(world, "zero3", test::two_parameters(), {.gradients = ReduceOp::Sum});
    Optimizer sgd(model.data->memory(), SgdOptions{.rate = 1});
    Join join(*model.data);
    for (int step = 0; step < 4; ++step) {
      const bool has_batch = step % 2 == world.rank();
      require(join.next(has_batch) && join.ranks_with_batch() == 1, "one rank has a batch");
      if (has_batch) {
        test::whole_step(*model.data, 0.25F);
      } else {
        shadow_pass(*model.data);
      }
      sgd.update(model.data->finish_backward());
      model.data->updated();
    }
    const auto scope = model.data->forward_only();
    shadow_pass(*model.data);
    model.data->finish_forward();
    for (const OwnedPart& part : model.data->owned_values()) {
      if (part.first == 0) require(reinterpret_cast<const float*>(part.value.data)[0] == 0, "four updates by 0.25");
    }
  });
}

TEST(Join, RefusesTheFirstUnevenBatch_OnAllRanks) {
  for (const std::string row : {"zero1", "hsdp"}) {
    on_threads(4, only("inproc"), [&](World& world) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 2}, {"more", 2}}));
      const std::vector<float> value(5, 1);
      const std::vector<ConstBuffer> values{bytes_of(value)};
      const bool two_axes = row == "hsdp";
      DataParallel data(mesh, {{.path = "w", .elements = 5, .unit = "w"}}, values,
                        two_axes ? data_row(row, {"dp", "more"}) : data_row(row, {"dp"}),
                        [&](std::size_t bytes) { return world.allocate(bytes); }, {.gradients = ReduceOp::Sum});
      Join join(data, UnevenInputs::Refuse);
      require(join.next(true), "all have one");
      const std::string said = complaint([&] { (void)join.next(mesh.index("dp") == 0); });
      require_part(said, two_axes ? "Join: at batch 2, 2 of 4 ranks along dp and more have no batch, first rank "
                                  : "Join: at batch 2, 1 of 2 ranks along dp have no batch, first rank ");
      require(!join.next(false), "none have one");
    });
  }
}

TEST(Join, RefusesMeansOverRanks_AndPipelines) {
  on_threads(2, only("inproc"), [&](World& world) {
    test::Small means(world, "ddp", test::two_parameters());
    require_part(complaint([&] { Join join(*means.data); }),
                 "expected DataParallelOptions::gradients of ReduceOp::Sum");
    test::Small sums(world, "ddp", test::two_parameters(), {.gradients = ReduceOp::Sum});
    Join join(*sums.data);
    const auto evaluation = sums.data->protocol().join_as_pipeline([] {}, true, 4);
    require(join.next(true), "a pipeline of evaluations only");
    const auto training = sums.data->protocol().join_as_pipeline([] {}, false, 4);
    require_part(complaint([&] { (void)join.next(true); }), "as many steps on all ranks, with 4 microbatches in each");
  });
}

}  // namespace
}  // namespace sinew::parallel

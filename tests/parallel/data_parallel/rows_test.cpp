#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <support/worlds.hpp>

#include "../support/mlp.hpp"
#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::Mlp;

constexpr int kBatch = 360;  // of all ranks: three micro-batches divide it for 1, 2, 3, 5 and 8 ranks
constexpr double kRate = 0.05;

/// What training leaves: the losses, and the gradients of the first step, each parameter's whole.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<double>> first_gradients;
};

template <class T>
struct Data {
  std::vector<T> x, target;
};

/// Samples first..last of step `step`.
template <class T>
Data<T> samples(const Mlp<T>& model, int step, int first, int last) {
  Data<T> d;
  const auto in = static_cast<std::size_t>(model.inputs());
  const auto out = static_cast<std::size_t>(model.outputs());
  d.x.resize(static_cast<std::size_t>(last - first) * in);
  d.target.resize(static_cast<std::size_t>(last - first) * out);
  for (int s = first; s < last; ++s) {
    const auto k = static_cast<std::size_t>(s - first);
    test::sample<T>(std::int64_t{step} * kBatch + s, std::span(d.x).subspan(k * in, in),
                    std::span(d.target).subspan(k * out, out));
  }
  return d;
}

/// One process, no library.
template <class T>
Trained train_alone(const Mlp<T>& model, int steps) {
  auto values = model.initial();
  Trained result;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<T>> gradients;
    for (const auto& v : values) gradients.emplace_back(v.size(), T{0});
    const Data<T> d = samples(model, step, 0, kBatch);
    typename Mlp<T>::Hooks hooks{.value = [&](int p) { return values[static_cast<std::size_t>(p)].data(); },
                                 .gradient = [&](int p) { return gradients[static_cast<std::size_t>(p)].data(); }};
    result.losses.push_back(model.pass(d.x, d.target, T{1} / kBatch, hooks));
    if (step == 0) {
      for (const auto& g : gradients) result.first_gradients.emplace_back(g.begin(), g.end());
    }
    for (std::size_t p = 0; p < values.size(); ++p) {
      for (std::size_t k = 0; k < values[p].size(); ++k) values[p][k] -= static_cast<T>(kRate) * gradients[p][k];
    }
  }
  return result;
}

struct Way {
  std::string row = "ddp";
  int micro_batches = 1;
  DataParallelOptions options{};
  bool skips_a_sum = false;  // the negative control: of the first parameter each rank takes its own gradient
};

/// "zero3_kept": what was gathered for the forward pass stays for the backward one; "zero3_near": between two ranks;
/// "zero3_outer": the first and the last layer are one unit, around all others.
Way of_row(const std::string& name, Way way = {}) {
  way.row = name.substr(0, name.find('_'));
  if (name.ends_with("_kept")) way.options.step.reshard = Reshard::AfterBackward;
  if (name.ends_with("_near")) way.options.step.reshard_axes = "near";
  if (name.ends_with("_outer")) way.options.step.outer_unit = "ends";
  return way;
}

template <class T>
Trained train_together(World& world, const Mlp<T>& model, int steps, const Way& way) {
  const bool hsdp = way.row == "hsdp", near = !way.options.step.reshard_axes.empty();
  const std::vector<std::string> axes = hsdp   ? std::vector<std::string>{"fsdp", "copies"}
                                        : near ? std::vector<std::string>{"near-far"}
                                               : std::vector<std::string>{"dp"};
  const int n = world.size();
  const int two = n % 2 == 0 ? 2 : 1;
  Factorisation shape(hsdp   ? std::vector<Axis>{{"fsdp", n / two}, {"copies", two}}
                      : near ? std::vector<Axis>{{"near", two}, {"far", n / two}}
                             : std::vector<Axis>{{"dp", n}});
  const std::vector<std::string> groups = near ? std::vector<std::string>{"near", "near-far"} : axes;
  Mesh mesh(world.communicator(), shape, groups);
  const auto initial = model.initial();
  std::vector<ConstBuffer> values;
  for (const auto& v : initial) values.push_back(bytes_of(v));
  const bool outer = !way.options.step.outer_unit.empty();
  const int last = model.layers() - 1;
  std::vector<DataParameter> parameters = model.parameters();
  for (int p = 0; outer && p < std::ssize(parameters); ++p) {
    if (p / 2 == 0 || p / 2 == last) parameters[static_cast<std::size_t>(p)].unit = "ends";
  }
  DataParallel data(
      mesh, parameters, values, data_row(way.row, axes), [&](std::size_t bytes) { return world.allocate(bytes); },
      way.options);
  std::vector<T> own;  // of parameter 0, before it is summed
  typename Mlp<T>::Hooks hooks{.value = [&](int p) { return reinterpret_cast<T*>(data.parameter(p).data); },
                               .gradient = [&](int p) { return reinterpret_cast<T*>(data.gradient(p).data); },
                               .before_forward =
                                   [&](int u) {
                                     if (!outer || u != last) data.before_forward(u);
                                   },
                               .after_forward =
                                   [&](int u) {
                                     if (!outer || u != 0) data.after_forward(outer && u == last ? 0 : u);
                                   },
                               .before_backward =
                                   [&](int u) {
                                     if (!outer || u != 0) data.before_backward(outer && u == last ? 0 : u);
                                   },
                               .after_backward =
                                   [&](int u) {
                                     if (!outer || u != last) data.after_backward(u);
                                   },
                               .gradient_ready =
                                   [&](int p) {
                                     if (p == 0) {
                                       const auto* g = reinterpret_cast<const T*>(data.gradient(p).data);
                                       own.assign(g, g + initial[0].size());
                                     }
                                     data.gradient_ready(p);
                                   }};
  Trained result;
  const int mine = kBatch / n;
  const int part = mine / way.micro_batches;
  for (int step = 0; step < steps; ++step) {
    double loss = 0;
    std::vector<OwnedPart> owned;
    for (int m = 0; m < way.micro_batches; ++m) {
      const int first = world.rank() * mine + m * part;
      const Data<T> d = samples(model, step, first, first + part);
      const auto pass = [&] { loss += model.pass(d.x, d.target, T{1} / static_cast<T>(mine), hooks); };
      if (m + 1 < way.micro_batches) {
        const auto scope = data.no_sync();
        pass();
        require(data.finish_backward().empty(), "gradients summed within no_sync");
      } else {
        pass();
        owned = data.finish_backward();
      }
    }
    for (OwnedPart& o : owned) {
      if (way.skips_a_sum && o.parameter == 0) std::memcpy(o.gradient.data, own.data() + o.first, o.gradient.bytes);
    }
    std::vector<double> losses{loss};
    world.communicator().all_reduce(losses, ReduceOp::Average).get();
    result.losses.push_back(losses[0]);
    if (step == 0) {
      for (const auto& v : initial) result.first_gradients.emplace_back(v.size(), 0.0);
      for (const OwnedPart& part_of : owned) {
        const T* g = reinterpret_cast<const T*>(part_of.gradient.data);
        for (std::int64_t k = part_of.first; k < part_of.last; ++k)
          result.first_gradients[static_cast<std::size_t>(part_of.parameter)][static_cast<std::size_t>(k)] =
              static_cast<double>(g[k - part_of.first]);
      }
      for (auto& g : result.first_gradients) {
        if (way.row == "ddp") continue;
        mesh.along(axes[0]).all_reduce(g).get();  // every element is on one rank, zero elsewhere
      }
    }
    for (OwnedPart& o : owned) {
      T* v = reinterpret_cast<T*>(o.value.data);
      const T* g = reinterpret_cast<const T*>(o.gradient.data);
      for (std::int64_t k = 0; k < o.last - o.first; ++k) v[k] -= static_cast<T>(kRate) * g[k];
    }
    data.updated();
  }
  return result;
}

double distance(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  double off = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      off += (a[i][k] - b[i][k]) * (a[i][k] - b[i][k]);
      norm += b[i][k] * b[i][k];
    }
  }
  return std::sqrt(off / norm);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] / b[i] - 1));
  return worst;
}

const std::vector<int> kWidth{7, 13, 5, 11, 3};  // nothing divides anything

class Rows : public ::testing::TestWithParam<std::tuple<std::string, int>> {};
class RowsOfSeveral : public Rows {};  // one rank has nothing to sum
class RowsOfProcesses : public Rows {};

TEST_P(Rows, TrainAsOneProcessDoes) {
  const auto& [row, ranks] = GetParam();
  const Mlp<double> model(kWidth);
  const Trained alone = train_alone(model, 50);
  on_threads(ranks, only("inproc"), [&](World& world) {
    const Trained together = train_together(world, model, 50, of_row(row));
    require(distance(together.first_gradients, alone.first_gradients) < 1e-12, "gradients differ");
    require(distance(together.losses, alone.losses) < 1e-9, "losses differ");
  });
}

TEST_P(Rows, AddUpMicroBatches) {
  const auto& [row, ranks] = GetParam();
  const Mlp<double> model(kWidth);
  const Trained alone = train_alone(model, 10);
  on_threads(ranks, only("inproc"), [&](World& world) {
    const Trained together = train_together(world, model, 10, of_row(row, {.micro_batches = 3}));
    require(distance(together.first_gradients, alone.first_gradients) < 1e-12, "gradients differ");
    require(distance(together.losses, alone.losses) < 1e-9, "losses differ");
  });
}

TEST_P(Rows, ComeCloseInSinglePrecision) {
  const auto& [row, ranks] = GetParam();
  const Trained alone = train_alone(Mlp<double>(kWidth), 1);
  on_threads(ranks, only("inproc"), [&](World& world) {
    const Trained together = train_together(world, Mlp<float>(kWidth), 1, of_row(row));
    require(distance(together.first_gradients, alone.first_gradients) < 1e-5, "gradients differ");
  });
}

TEST_P(RowsOfSeveral, FailBothWhenOneSumIsSkipped) {
  const auto& [row, ranks] = GetParam();
  const Mlp<double> model(kWidth);
  const Trained alone = train_alone(model, 50);
  on_threads(ranks, only("inproc"), [&](World& world) {
    const Trained together = train_together(world, model, 50, of_row(row, {.skips_a_sum = true}));
    require(distance(together.first_gradients, alone.first_gradients) > 1e-6, "the gradients do not show it");
    require(distance(together.losses, alone.losses) > 1e-8, "the losses do not show it");
  });
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param)) + "_ranks";
}

const auto kRows =
    ::testing::Values("ddp", "zero1", "zero2", "zero3", "zero3_kept", "zero3_near", "zero3_outer", "hsdp", "hsdp_kept");
INSTANTIATE_TEST_SUITE_P(DataParallel, Rows, ::testing::Combine(kRows, ::testing::Values(1, 2, 3, 5, 8)), name_of_case);
INSTANTIATE_TEST_SUITE_P(DataParallel, RowsOfSeveral, ::testing::Combine(kRows, ::testing::Values(2, 3, 8)),
                         name_of_case);

/// With a progress thread in each, in memory that they share, and over sockets.
TEST_P(RowsOfProcesses, TrainAsOneDoes) {
  const auto& [row, ranks] = GetParam();
  const Mlp<double> model(kWidth);
  const Trained alone = train_alone(model, 10);
  for (const char* transport : {"shm", "tcp"}) {
    WorldOptions options = only(transport);
    options.threads = Threads::Multiple;
    in_processes(ranks, options, [&](World& world) {
      const Trained together = train_together(world, model, 10, of_row(row));
      require(distance(together.first_gradients, alone.first_gradients) < 1e-12, "gradients differ");
      require(distance(together.losses, alone.losses) < 1e-9, "losses differ");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(DataParallel, RowsOfProcesses, ::testing::Combine(kRows, ::testing::Values(2, 3)),
                         name_of_case);

/// hsdp sums in two stages: these keep to the one tree of sums where the ranks that shard are a power of two, or all.
TEST(DataParallel, GivesTheSameBitsUnderEveryRow_WhenReproducible) {
  const Mlp<double> model(kWidth);
  for (const int ranks : {2, 3, 4, 6, 8}) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      std::vector<double> losses;
      for (const char* row : {"ddp", "zero1", "zero2", "zero3", "hsdp"}) {
        if (ranks == 6 && std::string(row) == "hsdp") continue;
        DataParallelOptions options{};
        options.determinism = Determinism::Reproducible;
        const Trained t = train_together(world, model, 20, of_row(row, {.options = options}));
        if (losses.empty()) losses = t.losses;
        require(std::memcmp(losses.data(), t.losses.data(), losses.size() * sizeof(double)) == 0,
                std::string(row) + " on " + std::to_string(ranks) + " ranks: other bits");
      }
    });
  }
}

}  // namespace
}  // namespace sinew::parallel

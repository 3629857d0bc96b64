// Sharded data parallelism whose exchanges are quantised, as in ZeRO++. These are tests of its values and sums.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <support/worlds.hpp>

#include "../support/elements.hpp"
#include "../support/zeropp_way.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::everything;
using test::put;
using test::rounding_of;
using test::value_of;
using test::Way;

/// Parameters of lengths that nothing divides. Block `u` is unit `u`.
std::vector<DataParameter> uneven_parameters(const Way& way) {
  std::vector<DataParameter> list;
  for (const auto& [unit, elements] :
       {std::pair("0", 1), {"0", 4099}, {"1", 37}, {"1", 1009}, {"2", 5003}, {"3", 70}}) {
    list.push_back({.path = std::string(unit) + "." + std::to_string(list.size()),
                    .dtype = way.dtype,
                    .elements = elements,
                    .unit = unit,
                    .gradient = way.gradient});
  }
  return complete_parameters(std::move(list));
}

double initial_value(std::int32_t parameter, std::int64_t k) {
  return std::sin(0.37 * static_cast<double>(k % 4093) + parameter) * 0.5;
}
/// At most 1.
double gradient_value(int rank, std::int32_t parameter, std::int64_t k) {
  return std::sin(1.3 * static_cast<double>(k % 4093) + 2.1 * rank + parameter);
}

/// DataParallel over hosts of `near` ranks.
struct OnHosts {
  OnHosts(World& world, int near, const Way& way, const std::string& row = "zero3")
      : gradient_dtype(way.gradient.value_or(way.dtype)),
        mesh(world.communicator(), Factorisation({{"near", near}, {"far", world.size() / near}}),
             {"near", "far", "near-far"}) {
    const std::vector<std::string> axes =
        row == "hsdp" ? std::vector<std::string>{"near", "far"} : std::vector<std::string>{"near-far"};
    data.emplace(
        mesh, uneven_parameters(way),
        [](const InitialPart& part) { part.fill([&](std::int64_t k) { return initial_value(part.number, k); }); },
        data_row(row, axes), [&world](std::size_t bytes) { return world.allocate(bytes); }, way.options());
  }

  template <class Look>
  void forward(const Look& look, std::int32_t units = 4) {
    for (std::int32_t u = 0; u < units; ++u) {
      data->before_forward(u);
      look_at(u, look);
      data->after_forward(u);
    }
  }
  template <class Look, class Value>
  void backward(const Look& look, const Value& gradient, std::int32_t units = 4) {
    for (std::int32_t u = 4; u-- > 4 - units;) {
      data->before_backward(u);
      look_at(u, look);
      for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) {
        const DataParameter& parameter = data->parameters()[static_cast<std::size_t>(p)];
        if (parameter.unit != std::to_string(u)) continue;
        const Buffer to = data->gradient(p);
        for (std::int64_t k = 0; k < parameter.elements; ++k)
          put(gradient_dtype, to.data + static_cast<std::size_t>(k) * size_of(gradient_dtype), gradient(p, k));
        data->gradient_ready(p);
      }
      data->after_backward(u);
    }
  }

  DType gradient_dtype;
  Mesh mesh;
  std::optional<DataParallel> data;

 private:
  template <class Look>
  void look_at(std::int32_t unit, const Look& look) {
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) {
      if (data->parameters()[static_cast<std::size_t>(p)].unit == std::to_string(unit)) look(p, data->parameter(p));
    }
  }
};

void nothing(std::int32_t /*parameter*/, Buffer /*values*/) {}

std::vector<std::byte> bytes_of(Buffer b) { return {b.data, b.data + b.bytes}; }

struct Hosts {
  int ranks, near;
  DType dtype;
};

std::vector<Hosts> all_hosts() {
  std::vector<Hosts> all;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (int near = 1; near <= ranks; ++near) {
      for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
        if (ranks % near == 0) all.push_back({ranks, near, dtype});
      }
    }
  }
  return all;
}

class ZeroPpOnHosts : public ::testing::TestWithParam<Hosts> {
 protected:
  int ranks() const { return GetParam().ranks; }
  int near() const { return GetParam().near; }
  DType dtype() const { return GetParam().dtype; }
};

/// Every rank computes with the same bits, in both passes, and the shards keep theirs.
TEST_P(ZeroPpOnHosts, GathersEqualBitsOnAllRanks_AndRoundsNoShard) {
  for (const Way& way :
       {Way{.weights = true, .dtype = dtype()}, {.near = true, .dtype = dtype()}, everything(dtype())}) {
    on_threads(ranks(), only("inproc"), [&](World& world) {
      OnHosts job(world, near(), way);
      std::vector<std::vector<std::byte>> shards;
      for (const OwnedPart& part : job.data->owned_values()) shards.push_back(bytes_of(part.value));
      std::vector<std::vector<std::byte>> seen(job.data->parameters().size());
      double farthest = 0;
      job.forward([&](std::int32_t p, Buffer values) {
        auto& mine = seen[static_cast<std::size_t>(p)];
        mine = bytes_of(values);
        std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(world.size()));
        world.communicator().all_gather(mine, all).get();
        for (std::size_t r = 0; r < static_cast<std::size_t>(world.size()); ++r)
          require(std::memcmp(all.data() + r * mine.size(), mine.data(), mine.size()) == 0, "ranks have other bits");
        for (std::size_t k = 0; k < mine.size() / size_of(dtype()); ++k) {
          const double exact = initial_value(p, static_cast<std::int64_t>(k));
          const double off = std::abs(value_of(dtype(), mine.data() + k * size_of(dtype())) - exact);
          farthest = std::max(farthest, off - 2 * std::abs(exact) * rounding_of(dtype()));
        }
      });
      require(farthest <= 0.5 / 253 + 1e-7, "a weight is off by " + std::to_string(farthest));
      const bool rounds = way.weights && world.size() > 1;
      require((farthest > 0.5 / 300) == rounds, "weights are rounded: " + std::to_string(farthest));
      job.backward(
          [&](std::int32_t p, Buffer values) {
            require(bytes_of(values) == seen[static_cast<std::size_t>(p)], "other bits in the backward pass");
          },
          [](std::int32_t, std::int64_t) { return 0.0; });
      (void)job.data->finish_backward();
      job.data->updated();
      std::vector<std::vector<std::byte>> after;
      for (const OwnedPart& part : job.data->owned_values()) after.push_back(bytes_of(part.value));
      require(after == shards, "a shard was rounded");
    });
  }
}

/// Sums of gradients of at most 1: each coding is off by at most a share of the block's largest.
TEST_P(ZeroPpOnHosts, SumsGradientsWithinTheBound) {
  for (const bool in_two_stages : {false, true}) {
    const Way way{.gradients = true, .in_two_stages = in_two_stages, .dtype = dtype()};
    on_threads(ranks(), only("inproc"), [&](World& world) {
      OnHosts job(world, near(), way);
      for (int step = 0; step < 2; ++step) {
        const auto gradient = [&](int rank, std::int32_t p, std::int64_t k) {
          return gradient_value(rank + step, p, k);
        };
        job.forward(nothing);
        job.backward(nothing, [&](std::int32_t p, std::int64_t k) { return gradient(world.rank(), p, k); });
        double farthest = 0;
        std::int64_t elements = 0;
        for (const OwnedPart& part : job.data->finish_backward()) {
          for (std::int64_t k = part.first; k < part.last; ++k, ++elements) {
            double exact = 0;
            for (int r = 0; r < world.size(); ++r) exact += gradient(r, part.parameter, k) / world.size();
            const double found =
                value_of(dtype(), part.gradient.data + static_cast<std::size_t>(k - part.first) * size_of(dtype()));
            farthest = std::max(farthest, std::abs(found - exact));
          }
        }
        job.data->updated();
        const bool twice = in_two_stages && near() > 1 && near() < ranks();
        const double once = ranks() == 1 ? 0 : 1 / 13.8;
        const double bound = (twice ? once + (1 + once) * once : once) + 3 * rounding_of(dtype());
        require(farthest <= bound, "a gradient is off by " + std::to_string(farthest));
        std::vector<std::int64_t> all{elements};
        world.communicator().all_reduce(all).get();
        require(all[0] == 1 + 4099 + 37 + 1009 + 5003 + 70, "each element has one owner");
        std::vector<double> most{farthest};
        world.communicator().all_reduce(most, ReduceOp::Max).get();
        require(ranks() == 1 || most[0] > 0.01, "gradients were rounded");
      }
    });
  }
}

/// Loss scaling skips steps by that.
TEST_P(ZeroPpOnHosts, ShowsANumberThatIsNotFinite_InItsBlockAlone) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    on_threads(ranks(), only("inproc"), [&](World& world) {
      OnHosts job(world, near(), everything(dtype()));
      job.forward(nothing);
      job.backward(nothing, [&](std::int32_t p, std::int64_t k) {
        return world.rank() == world.size() - 1 && p == 1 && k == 2048 ? bad : 0.25;
      });
      std::int64_t spoilt = 0;
      bool shows = false;
      const std::vector<OwnedPart> owned = job.data->finish_backward();
      for (const OwnedPart& part : owned) {
        for (std::int64_t k = part.first; k < part.last; ++k) {
          const bool finite = std::isfinite(
              value_of(dtype(), part.gradient.data + static_cast<std::size_t>(k - part.first) * size_of(dtype())));
          spoilt += finite ? 0 : 1;
          shows = shows || (part.parameter == 1 && k == 2048 && !finite);
        }
      }
      const double norm = gradient_norm(*job.data, owned);
      require(!std::isfinite(norm), "all ranks see it in the norm");
      job.data->updated();
      std::vector<std::int64_t> all{spoilt, shows ? 1 : 0};
      world.communicator().all_reduce(all).get();
      require(all[1] == 1, "the element itself is not finite");
      require(all[0] <= 64, std::to_string(all[0]) + " elements are not finite, expected one block of 64 at most");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(DataParallel, ZeroPpOnHosts, ::testing::ValuesIn(all_hosts()),
                         [](const ::testing::TestParamInfo<Hosts>& of) {
                           return std::to_string(of.param.ranks) + "_ranks_" + std::to_string(of.param.near) +
                                  "_near_" + std::string(name_of(of.param.dtype));
                         });

/// A step of eight ranks, whose gradients are summed in f32: the means are off by less than the bound of their codings.
void require_means(OnHosts& job, const World& world, double bound) {
  job.forward(nothing);
  job.backward(nothing, [&](std::int32_t p, std::int64_t k) { return gradient_value(world.rank(), p, k); });
  for (const OwnedPart& part : job.data->finish_backward()) {
    for (std::int64_t k = part.first; k < part.last; ++k) {
      double exact = 0;
      for (int r = 0; r < 8; ++r) exact += gradient_value(r, part.parameter, k) / 8;
      const float found = reinterpret_cast<const float*>(part.gradient.data)[k - part.first];
      require(std::abs(static_cast<double>(found) - exact) < bound, "within the bound of the codings");
    }
  }
  job.data->updated();
}

/// The copies of hsdp sum what its shards have summed.
TEST(ZeroPp, SumsOverTheCopiesOfHsdp) {
  Way way{.weights = true, .gradients = true, .in_two_stages = false};
  on_threads(8, only("inproc"), [&](World& world) {
    OnHosts job(world, 4, way, "hsdp");
    require_means(job, world, 1 / 13.8);  // one coding
  });
}

/// Parameters of 16 bits whose gradients are added up and summed in f32.
TEST(ZeroPp, SumsGradientsOfAnotherDType) {
  Way way = everything(DType::BF16);
  way.gradient = DType::F32;
  on_threads(8, only("inproc"), [&](World& world) {
    OnHosts job(world, 4, way);
    require_means(job, world, 2.1 / 13.8);  // two codings
  });
}

/// A step may be given up after any call of a unit. The next one is as if it had not been.
TEST(ZeroPp, GivesStepsUp_WhereverTheyAre) {
  for (const auto& [ranks, near] : {std::pair(4, 2), {3, 1}, {2, 2}}) {
    on_threads(ranks, only("inproc"), [near = near](World& world) {
      OnHosts job(world, near, everything());
      // Seven times a scale of bf16 is exact in blocks of equal numbers.
      const auto sound_step = [&] {
        job.forward(nothing);
        job.backward(nothing, [&](std::int32_t, std::int64_t) { return 7.0 * (1 + world.rank()); });
        for (const OwnedPart& part : job.data->finish_backward()) {
          for (std::int64_t k = 0; k < part.last - part.first; ++k) {
            const float found = reinterpret_cast<const float*>(part.gradient.data)[k];
            require(std::abs(found - 3.5F * static_cast<float>(world.size() + 1)) < 1e-4F, std::to_string(found));
          }
        }
        job.data->updated();
      };
      for (std::int32_t units = 0; units <= 8; ++units) {
        job.forward(nothing, std::min(units, 4));
        if (units > 4)
          job.backward(
              nothing, [](std::int32_t, std::int64_t) { return 1e6; }, units - 4);
        job.data->abandon_step();
        require(job.data->held().of(Purpose::Underway) == 0, "nothing of it is left");
        sound_step();
      }
    });
  }
}

/// Micro-batches add up before anything is rounded.
TEST(ZeroPp, AddsUpMicroBatches) {
  on_threads(4, only("inproc"), [&](World& world) {
    OnHosts job(world, 2, everything());
    {
      const auto scope = job.data->no_sync();
      job.forward(nothing);
      job.backward(nothing, [](std::int32_t, std::int64_t) { return 3.0; });
      (void)job.data->finish_backward();
    }
    job.forward(nothing);
    // The engine of this test writes gradients instead of adding, so the last pass writes the sum of both.
    job.backward(nothing, [](std::int32_t, std::int64_t) { return 7.0; });
    for (const OwnedPart& part : job.data->finish_backward()) {
      for (std::int64_t k = 0; k < part.last - part.first; ++k)
        require(reinterpret_cast<const float*>(part.gradient.data)[k] == 7.0F, "a block of equal numbers is exact");
    }
    job.data->updated();
  });
}

/// A progress thread in each process, in memory that they share and over sockets.
TEST(ZeroPp, SumsBetweenProcesses) {
  for (const char* transport : {"shm", "tcp"}) {
    WorldOptions options = only(transport);
    options.threads = Threads::Multiple;
    in_processes(4, options, [](World& world) {
      OnHosts job(world, 2, everything(DType::BF16));
      for (int step = 0; step < 5; ++step) {
        job.forward(nothing);
        job.backward(nothing, [&](std::int32_t p, std::int64_t k) { return gradient_value(world.rank(), p, k); });
        for (const OwnedPart& part : job.data->finish_backward()) {
          for (std::int64_t k = part.first; k < part.last; ++k) {
            double exact = 0;
            for (int r = 0; r < 4; ++r) exact += gradient_value(r, part.parameter, k) / 4;
            const double found =
                value_of(DType::BF16, part.gradient.data + static_cast<std::size_t>(k - part.first) * 2);
            require(std::abs(found - exact) < 2.1 / 13.8 + 3.0 / 256, "within the bound of two codings");
          }
        }
        job.data->updated();
      }
    });
  }
}

/// Ranks must agree before anything is made.
TEST(ZeroPp, SaysThatRanksWantOtherWires) {
  on_threads(2, only("inproc"), [](World& world) {
    const Way way{.weights = world.rank() == 0};
    const std::string said = complaint([&] { OnHosts(world, 2, way); });
    require(said.find("weights") != std::string::npos, said);
  });
}

}  // namespace
}  // namespace sinew::parallel

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
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
using test::Small;
using test::two_parameters;

TEST(DataParallel, NamesAParameterWhoseValuesDiffer_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    const float value = world.rank() == 2 ? 1.5F : 1.0F;
    const std::string what = complaint([&] { Small(world, "ddp", two_parameters(), {}, value); });
    require(
        what.find("parameter 'a.weight': the values of rank 2 along 'dp' are not those of rank 0") != std::string::npos,
        what);
  });
}

TEST(DataParallel, NamesAParameterWhoseShapeDiffers_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    std::vector<DataParameter> list = two_parameters();
    if (world.rank() == 1) list[1].elements = 7;
    const std::string what = complaint([&] { Small(world, "zero3", list); });
    require(what.find("parameter 1") != std::string::npos && what.find("b.weight f32 7") != std::string::npos, what);
  });
}

/// Element k of parameter p starts as 100 p + k.
TEST(DataParallel, AsksForInitialValuesOfWhatARankHolds) {
  for (const char* row : {"ddp", "zero1", "zero3"}) {
    on_threads(3, only("inproc"), [row](World& world) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", world.size()}}));
      std::int64_t asked = 0;
      const InitialValues initial = [&](const InitialPart& part) {
        require(part.into.bytes == static_cast<std::size_t>(part.last - part.first) * sizeof(float),
                "a buffer of another length");
        asked += part.last - part.first;
        auto* value = reinterpret_cast<float*>(part.into.data);
        for (std::int64_t k = part.first; k < part.last; ++k)
          value[k - part.first] = static_cast<float>(100 * part.number + k);
      };
      const std::vector<DataParameter> list{{.path = "a", .elements = 50, .unit = "u"},
                                            {.path = "b", .elements = 7, .unit = "u"}};
      DataParallel data(mesh, list, initial, data_row(row, {"dp"}),
                        [&](std::size_t bytes) { return world.allocate(bytes); });
      if (std::string(row) == "zero3") {
        std::vector<std::int64_t> all{asked};
        require(asked < 57, "a rank asks for more than its shard");
        world.communicator().all_reduce(all).get();
        require(all[0] == 57, "not every element was asked for once");
      } else {
        require(asked == 57, "every rank holds all");
      }
      const auto scope = data.forward_only();
      data.before_forward(0);
      for (std::int32_t p = 0; p < 2; ++p) {
        const auto* value = reinterpret_cast<const float*>(data.parameter(p).data);
        for (int k = 0; k < list[static_cast<std::size_t>(p)].elements; ++k)
          require(value[k] == static_cast<float>(100 * p + k), "an element of another place");
      }
      data.after_forward(0);
      data.finish_forward();
    });
  }
}

/// Ranks 0 and 1 share no group with rank 3 along the sharded axis, and must not wait for it along the other.
TEST(DataParallel, StopsOnAllRanksOfTwoAxes_WhereOneDiffers) {
  on_threads(4, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"shard", 2}, {"copies", 2}}));
    const auto said = [&](std::size_t elements, float value) {
      const std::vector<float> memory(elements, value);
      const std::vector<ConstBuffer> values{bytes_of(memory)};
      return complaint([&] {
        DataParallel(mesh, {{.path = "w", .elements = 64, .unit = "w"}}, values, data_row("hsdp", {"shard", "copies"}),
                     [&](std::size_t bytes) { return world.allocate(bytes); });
      });
    };
    const bool odd = world.rank() == 3;
    const std::string of_value = said(64, odd ? 2 : 1);
    const char* expected = world.rank() == 0 ? "rank 3 has refused it" : "parameter 'w': the values of rank 3 (1 in ";
    require(of_value.find(expected) != std::string::npos, of_value);
    const std::string of_length = said(odd ? 63 : 64, 1);
    expected = odd ? "'w' has a value of 252 bytes, expected 256" : "rank 3 has refused it";
    require(of_length.find(expected) != std::string::npos, of_length);
  });
}

TEST(DataParallel, RefusesToCombineByAnythingButASum) {
  on_threads(2, only("inproc"), [](World& world) {
    DataParallelOptions options{};
    options.gradients = ReduceOp::Max;
    const std::string what = complaint([&] { Small(world, "ddp", two_parameters(), options); });
    require(what.find("gradients combine by max, expected avg or sum") != std::string::npos, what);
  });
}

TEST(DataParallel, NamesAParameterThatIsNotGathered) {
  on_threads(2, only("inproc"), [](World& world) {
    Small small(world, "zero3", two_parameters());
    const std::string early = complaint([&] { (void)small.data->parameter(1); });
    require(early.find("parameter 'b.weight': only this rank's part of it is here; expected before_forward") !=
                std::string::npos,
            early);
    small.data->before_forward(0);
    require(small.data->parameter(0).bytes == 5 * sizeof(float), "gathered");
    world.communicator().barrier().get();  // a refused call ends the step, and the other rank may be gathering
    const std::string again = complaint([&] { small.data->before_forward(0); });
    require(
        again.find("before_forward('a') was called, but DataParallel::after_forward('a') is due: it was called in this "
                   "pass already") != std::string::npos,
        again);
  });
}

/// As when an engine's exception unwinds the stack: the sums that have started must not find their memory gone.
TEST(DataParallel, MayEndInTheMiddleOfAStep) {
  for (const char* row : {"ddp", "zero2", "zero3"}) {
    on_threads(3, only("inproc"), [&](World& world) {
      DataParallelOptions options{};
      options.step.buckets = NoBuckets{};
      {
        Small small(world, row,
                    {{.path = "w", .elements = 1 << 20, .unit = "w"}, {.path = "v", .elements = 7, .unit = "v"}},
                    options);
        for (int u = 0; u < 2; ++u) small.data->before_forward(u), small.data->after_forward(u);
        small.data->before_backward(1);
        (void)small.data->gradient(1);
        small.data->gradient_ready(1);
        small.data->after_backward(1);
      }
      world.communicator().barrier().get();
    });
  }
}

TEST(DataParallel, NamesAGradientThatIsReportedTwice) {
  on_threads(2, only("inproc"), [](World& world) {
    Small small(world, "ddp", two_parameters());
    small.data->gradient_ready(1);
    const std::string what = complaint([&] { small.data->gradient_ready(1); });
    require(
        what.find("gradient_ready('b.weight') was called, but DataParallel::gradient_ready('a.weight') is due: this "
                  "gradient was reported 1 of 1 times already") != std::string::npos,
        what);
  });
}

TEST(DataParallel, NamesAGradientThatIsNeverReported) {
  on_threads(2, only("inproc"), [](World& world) {
    Small small(world, "zero1", two_parameters());
    small.data->gradient_ready(1);
    const std::string what = complaint([&] { (void)small.data->finish_backward(); });
    require(what.find("gradients that were not reported: 'a.weight'") != std::string::npos, what);
  });
}

TEST(DataParallel, TakesUnusedParametersAsZeroIfToldTo) {
  on_threads(2, only("inproc"), [](World& world) {
    DataParallelOptions options{};
    options.unused_are_zero = true;
    Small small(world, "zero2", two_parameters(), options);
    auto* g = reinterpret_cast<float*>(small.data->gradient(1).data);
    std::fill_n(g, 6, static_cast<float>(1 + world.rank()));
    small.data->gradient_ready(1);
    for (const OwnedPart& part : small.data->finish_backward()) {
      for (std::int64_t k = 0; k < part.last - part.first; ++k)
        require(reinterpret_cast<const float*>(part.gradient.data)[k] == (part.parameter == 1 ? 1.5F : 0.0F),
                "gradient");
    }
    small.data->updated();
  });
}

/// Of every unit, as a unit's exchange comes before those that the next one needs.
TEST(DataParallel, TakesUnusedParametersAsZero_WhereUnitsAreGathered) {
  on_threads(2, only("inproc"), [](World& world) {
    DataParallelOptions options{};
    options.unused_are_zero = true;
    const std::vector<DataParameter> list{{.path = "a.used", .elements = 5, .unit = "a"},
                                          {.path = "b.unused", .elements = 3, .unit = "b"},
                                          {.path = "c.used", .elements = 5, .unit = "c"},
                                          {.path = "c.unused", .elements = 7, .unit = "c"}};
    Small small(world, "zero3", list, options);
    DataParallel& data = *small.data;
    for (int step = 0; step < 2; ++step) {
      for (int u = 0; u < 3; ++u) data.before_forward(u), data.after_forward(u);
      for (int u = 3; u-- > 0;) {
        data.before_backward(u);
        if (u != 1) {
          reinterpret_cast<float*>(data.gradient(u).data)[0] = 1.0F;
          data.gradient_ready(u);
        }
        data.after_backward(u);
      }
      for (const OwnedPart& part : data.finish_backward()) {
        const bool used = part.parameter % 2 == 0 && part.first == 0;
        require(reinterpret_cast<const float*>(part.gradient.data)[0] == (used ? 1.0F : 0.0F), "gradient");
      }
      data.updated();
    }
  });
}

TEST(DataParallel, WaitsForBothUsesOfAParameter) {
  on_threads(2, only("inproc"), [](World& world) {
    std::vector<DataParameter> list = two_parameters();
    list[0].uses = 2;
    Small small(world, "ddp", list);
    for (int use = 0; use < 2; ++use) {
      auto* g = reinterpret_cast<float*>(small.data->gradient(0).data);
      for (int k = 0; k < 5; ++k) g[k] += 2;
      small.data->gradient_ready(0);
      if (use == 0) small.data->gradient_ready(1);
    }
    const auto owned = small.data->finish_backward();
    require(reinterpret_cast<const float*>(owned[0].gradient.data)[4] == 4.0F, "both contributions");
    small.data->updated();
  });
}

TEST(DataParallel, RebuildsBucketsInTheOrderThatRankZeroSaw) {
  on_threads(3, only("inproc"), [](World& world) {
    DataParallelOptions options{};
    options.step.buckets = NoBuckets{};
    Small small(world, "ddp", two_parameters(), options);
    const auto first_summed = [&] {
      const auto& nodes = small.data->graph().nodes;
      return std::ranges::find(nodes, NodeKind::AllReduce, &Node::kind)->tensors.front() - 2;
    };
    require(first_summed() == 1, "last parameter first");
    for (int step = 0; step < 3; ++step) {
      for (const int p : world.rank() == 1 ? std::vector{1, 0} : std::vector{0, 1}) {
        auto* g = reinterpret_cast<float*>(small.data->gradient(p).data);
        require(g[0] == 0, "gradients start from zero");
        g[0] = static_cast<float>(world.rank());
        small.data->gradient_ready(p);
      }
      for (const OwnedPart& part : small.data->finish_backward())
        require(reinterpret_cast<const float*>(part.gradient.data)[0] == 1.0F, "average");
      small.data->updated();
      require(first_summed() == 0, "the order of rank 0");
    }
  });
}

TEST(DataParallel, RefusesAxesThatOverlap_AndGroupsThatAreNotThere) {
  on_threads(4, only("inproc"), [](World& world) {
    const std::vector<std::string> groups{"s", "r", "s-r"};
    Mesh mesh(world.communicator(), Factorisation({{"s", 2}, {"r", 2}}), groups);
    Mesh without(world.communicator(), Factorisation({{"s", 2}, {"r", 2}}));
    const std::vector<float> memory(8);
    const std::vector<ConstBuffer> values{bytes_of(memory)};
    const auto refusal = [&](Mesh& of, const DataRow& row) {
      return complaint([&] {
        DataParallel(of, {{.path = "a", .elements = 8, .unit = "a"}}, values, row,
                     [&](std::size_t bytes) { return world.allocate(bytes); });
      });
    };
    const std::string twice = refusal(mesh, data_row("hsdp", {"s", "s-r"}));
    require(twice.find("names axis s twice") != std::string::npos, twice);
    const std::string missing = refusal(without, {"ddp", {{"s"}, {"r"}}});
    require(missing.find("s-r") != std::string::npos, missing);
  });
}

TEST(DataParallel, NamesRowsThatDiffer_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    const std::string what = complaint([&] { Small(world, world.rank() == 1 ? "zero1" : "zero3", two_parameters()); });
    require(what.find("rank 0 has 'zero3 dp:") != std::string::npos, what);
    require(what.find("rank 1 'zero1 dp:") != std::string::npos, what);
  });
}

TEST(DataParallel, RefusesNumbersThatAreNotThere) {
  for (const char* row : {"ddp", "zero3"}) {
    on_threads(1, only("inproc"), [&](World& world) {
      Small small(world, row, two_parameters());
      DataParallel& data = *small.data;
      for (const int number : {-1, 2, 100000}) {
        for (const auto& call : {std::function<void()>([&] { data.before_forward(number); }),
                                 std::function<void()>([&] { data.after_forward(number); }),
                                 std::function<void()>([&] { data.before_backward(number); }),
                                 std::function<void()>([&] { data.after_backward(number); }),
                                 std::function<void()>([&] { data.gradient_ready(number); }),
                                 std::function<void()>([&] { (void)data.parameter(number); }),
                                 std::function<void()>([&] { (void)data.gradient(number); })}) {
          require(complaint(call).find("expected one of the 2 that there are") != std::string::npos, "refused");
        }
      }
    });
  }
}

/// Bytes between steps of mixed-precision Adam, P parameters in bf16 on N ranks, against Rajbhandari et al.
TEST(DataParallel, HoldsWhatTheRowSays) {
  on_threads(4, only("inproc"), [](World& world) {
    std::vector<DataParameter> list;
    double p = 0;
    for (int i = 0; i < 12; ++i) {
      const std::string unit = std::to_string(i);
      list.push_back(
          {.path = std::string("blocks.") + unit, .dtype = DType::BF16, .elements = 10007 + 131 * i, .unit = unit});
      p += static_cast<double>(list.back().elements);
    }
    constexpr double kN = 4;
    for (const auto& [row, expected] : {std::pair{"ddp", 16 * p},
                                        {"zero1", 4 * p + 12 * p / kN},
                                        {"zero2", 2 * p + 14 * p / kN},
                                        {"zero3", 16 * p / kN}}) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 4}}));
      std::vector<std::vector<std::uint16_t>> memory;
      std::vector<ConstBuffer> values;
      for (const DataParameter& each : list) memory.emplace_back(static_cast<std::size_t>(each.elements));
      for (const auto& v : memory) values.push_back(bytes_of(v));
      DataParallel data(mesh, list, values, data_row(row, {"dp"}),
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
      require(data.held().of(Purpose::Underway) == 0, std::string(row) + ": something is under way between steps");
    }
  });
}

}  // namespace
}  // namespace sinew::parallel

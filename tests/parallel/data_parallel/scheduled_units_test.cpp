// Data parallelism whose calls on units come in the order of a schedule, in the hands of an engine that may be wrong.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using enum UnitActionKind;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;

constexpr int kElements = 37;
constexpr std::int32_t kA = 0, kB = 1;  // units, and their only parameters

std::vector<DataParameter> two_units() {
  std::vector<DataParameter> list;
  for (const char* unit : {"a", "b"})
    list.push_back({.path = std::string(unit) + ".w", .dtype = DType::F64, .elements = kElements, .unit = unit});
  return list;
}

/// Two passes of both units, whose gradients are reduced once, or after each pass.
UnitOrder two_passes(bool again) {
  std::vector<UnitAction> training;
  for (int pass = 0; pass < 2; ++pass) {
    for (const char* unit : {"b", "a"}) {
      training.insert(training.end(), {{Unshard, unit}, {Use, unit}});
      if (again || pass == 0) training.push_back({AddGradients, unit});
      if (again || pass == 1) training.push_back({Reduce, unit});
      training.push_back({Reshard, unit});
    }
  }
  return {training, {{Unshard, "a"}, {Use, "a"}, {Reshard, "a"}, {Unshard, "b"}, {Use, "b"}, {Reshard, "b"}}};
}

class Engine {
 public:
  Engine(World& world, const std::string& row, const UnitOrder& order, ReduceOp sums = ReduceOp::Sum)
      : mesh_(world.communicator(), shape(world, row), groups(row)),
        rank_(world.rank()),
        data_(
            mesh_, two_units(),
            [](const InitialPart& part) { part.fill([&](std::int64_t k) { return part.number * 100.0 + double(k); }); },
            data_row(row, row == "hsdp" ? std::vector<std::string>{"near", "far"} : std::vector<std::string>{"dp"}),
            [&world](std::size_t bytes) { return world.allocate(bytes); }, options(order, sums)),
        sgd_(data_.memory(), SgdOptions{.rate = 1}) {}

  /// Takes an order. Each pass adds the value of each parameter, times the rank plus one, to its gradient.
  void pass(const std::vector<UnitAction>& order) {
    for (const UnitAction& action : order) {
      const std::int32_t unit = data_.unit(action.unit);
      if (action.kind == Unshard) data_.unshard(unit);
      if (action.kind == Use) add(unit);
      if (action.kind == Reduce) data_.reduce(unit);
      if (action.kind == Reshard) data_.reshard(unit);
    }
  }
  void add(std::int32_t unit) {
    const std::span<const double> value = data_.parameter<double>(unit);
    const std::span<double> gradient = data_.gradient<double>(unit);
    for (int k = 0; k < kElements; ++k) gradient[std::size_t(k)] += value[std::size_t(k)] * (rank_ + 1);
  }
  void update(double scale = 1) {
    sgd_.update(data_.finish_backward(), scale);
    data_.updated();
  }
  /// All values are the initial ones times a factor.
  void require_values(double factor, const std::string& what) {
    for (const OwnedPart& part : data_.owned_values()) {
      const auto* values = reinterpret_cast<const double*>(part.value.data);
      for (std::int64_t k = part.first; k < part.last; ++k) {
        const double expected = factor * (part.parameter * 100.0 + double(k)), found = values[k - part.first];
        require(std::abs(found - expected) <= 1e-12 * std::abs(expected),
                what + ": " + std::to_string(found) + " instead of " + std::to_string(expected));
      }
    }
  }
  DataParallel& data() { return data_; }

 private:
  static Factorisation shape(World& world, const std::string& row) {
    if (row != "hsdp") return Factorisation({{"dp", world.size()}});
    return Factorisation({{"near", 2}, {"far", world.size() / 2}});
  }
  static std::vector<std::string> groups(const std::string& row) {
    return row == "hsdp" ? std::vector<std::string>{"near", "far"} : std::vector<std::string>{"dp"};
  }
  static DataParallelOptions options(const UnitOrder& order, ReduceOp sums) {
    DataParallelOptions options{.gradients = sums};
    options.step.order = order;
    return options;
  }

  Mesh mesh_;
  int rank_;
  DataParallel data_;
  Optimizer sgd_;
};

TEST(ScheduledUnits, SumGradientsOnceOrAgain) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3", "hsdp"}) {
    for (const bool again : {false, true}) {
      if (again && (row == std::string("ddp") || row == std::string("zero1"))) continue;
      for (const int ranks : {2, 4}) {
        on_threads(ranks, only("inproc"), [&](World& world) {
          const std::string what = std::string(row) + (again ? " again" : " once");
          const UnitOrder order = two_passes(again);
          Engine engine(world, row, order);
          const double sum = 2.0 * ranks * (ranks + 1) / 2;  // of both passes of all ranks
          for (int step = 0; step < 3; ++step) {
            engine.pass(order.training);
            engine.update(0.5 / sum);
            engine.require_values(std::pow(0.5, step + 1), what);
          }
          const HeldBytes& held = engine.data().held();
          require(held.most_of(Purpose::Underway) == engine.data().planned().of(Purpose::Underway), what + ": memory");
          require(held.of(Purpose::Underway) == 0, what + ": memory is left over");
        });
      }
    }
  }
}

TEST(ScheduledUnits, AverageEachSumThatIsAdded) {
  on_threads(2, only("inproc"), [](World& world) {
    const UnitOrder order = two_passes(true);
    Engine engine(world, "zero3", order, ReduceOp::Average);
    engine.pass(order.training);
    engine.update(0.25);  // the average of both ranks is 1.5 in each pass
    engine.require_values(1 - 0.25 * 3, "average");
  });
}

TEST(ScheduledUnits, AddUpWithinNoSync_AndEvaluate) {
  for (const bool again : {false, true}) {
    on_threads(2, only("inproc"), [&](World& world) {
      const UnitOrder order = two_passes(again);
      Engine engine(world, "zero3", order);
      {
        const auto scope = engine.data().no_sync();
        engine.pass(order.training);
        require(engine.data().finish_backward().empty(), "parts within no_sync()");
      }
      engine.pass(order.training);
      engine.update(1.0 / 24);  // 3 of both ranks, in four passes
      engine.require_values(0.5, "no_sync");
      const auto scope = engine.data().forward_only();
      for (const std::int32_t unit : {kA, kB}) {
        engine.data().unshard(unit);
        require(engine.data().parameter<double>(unit)[3] == 0.5 * (unit * 100 + 3), "evaluation");
        engine.data().reshard(unit);
      }
      engine.data().finish_forward();
    });
  }
}

TEST(ScheduledUnits, GoOnAfterAStepThatWasGivenUp) {
  for (const char* row : {"ddp", "zero2", "zero3", "hsdp"}) {
    on_threads(4, only("inproc"), [&](World& world) {
      const UnitOrder order = two_passes(false);
      Engine engine(world, row, order);
      engine.pass({{Unshard, "b"}, {Use, "b"}, {AddGradients, "b"}});
      engine.data().abandon_step();
      engine.pass(order.training);
      engine.data().abandon_step();
      engine.require_values(1, "two steps that were given up");
      engine.pass(order.training);
      engine.update(0.5 / 20);
      engine.require_values(0.5, "a step after them");
    });
  }
}

TEST(ScheduledUnits, MakeTheCallsOfTheScheduleByThemselves) {
  on_threads(2, only("inproc"), [](World& world) {
    for (const bool again : {false, true}) {
      const UnitOrder order = two_passes(again);
      Engine engine(world, "zero3", order);
      for (int pass = 0; pass < 2; ++pass) {
        for (const std::int32_t unit : {kB, kA}) {
          engine.data().begin_use(unit);
          engine.data().begin_use(unit);  // nothing is left to do
          engine.add(unit);
        }
      }
      engine.data().end_use(kA);
      engine.data().end_use(kB);
      engine.update(0.5 / 6);
      engine.require_values(0.5, "calls by themselves");
    }
  });
}

/// As for gradients of weights that do not depend on the weights.
TEST(ScheduledUnits, HoldNoMoreThanPlanned_WhereAGatheredUnitIsNotRead) {
  on_threads(4, only("inproc"), [](World& world) {
    const UnitOrder order = two_passes(false);
    Engine engine(world, "zero3", order);
    for (int step = 0; step < 5; ++step) {
      std::size_t most = 0;
      for (const UnitAction& action : order.training) {
        if (action.kind != Use) engine.pass({action});
        most = std::max(most, engine.data().held().of(Purpose::Underway));
      }
      require(most <= engine.data().planned().of(Purpose::Underway), "more is held than planned");
      engine.update();
    }
    engine.require_values(1, "no gradients");
  });
}

/// Requires the text of a call that is not due, on the rank that makes it. Other ranks learn of it.
void require_refused(const std::function<void(Engine&)>& call, const std::string& text, const char* row = "zero3") {
  on_threads(2, only("inproc"), [&](World& world) {
    Engine engine(world, row, two_passes(false));
    std::string said;
    try {
      call(engine);
    } catch (const Error& e) {
      said = e.what();
    }
    require_part(said, text);
  });
}

TEST(ScheduledUnits, SayWhichCallIsDue) {
  require_refused(
      [](Engine& e) { e.data().unshard(kA); },
      "DataParallel::unshard('a') was called, but DataParallel::unshard('b') is due: the calls on units come "
      "in the order of the schedule");
  require_refused([](Engine& e) { e.data().unshard(kB), e.data().reduce(kB); }, "DataParallel::reshard('b') is due");
  require_refused([](Engine& e) { e.data().before_forward(kB); }, "a schedule decides the calls on units");
  require_refused([](Engine& e) { e.data().before_backward(kB); }, "a schedule decides the calls on units");
  require_refused([](Engine& e) { e.data().gradient_ready(kB); },
                  "gradients of a unit are complete when it is reduced");
  require_refused([](Engine& e) { (void)e.data().finish_backward(); }, "calls of the schedule were left out");
  require_refused([](Engine& e) { (void)e.data().parameter(kB); }, "expected unshard of 'b' first");
  require_refused([](Engine& e) { e.data().unshard(7); }, "unit 7: expected one of the 2 that there are");
  require_refused(
      [](Engine& e) { e.data().begin_use(kA); },
      "DataParallel::begin_use('a') was called, but DataParallel::unshard('b') is due: the schedule does not "
      "use this unit next");
  require_refused(
      [](Engine& e) {
        e.pass(two_passes(false).training);
        (void)e.data().gradient(kB);
      },
      "gradient of 'b.w': 'b' was reduced for the last time in this step");
  require_refused(
      [](Engine& e) {
        const auto scope = e.data().forward_only();
        e.data().reduce(kA);
      },
      "within forward_only() there is no backward pass");
}

TEST(ScheduledUnits, AreNotDueWithoutASchedule) {
  require_refused([](Engine& e) { e.data().unshard(kA); }, "DataParallel::unshard('a')", "ddp");
  on_threads(1, only("inproc"), [](World& world) {
    Engine engine(world, "ddp", {});
    EXPECT_THAT(sinew::test::complaint([&] { engine.data().unshard(kA); }),
                ::testing::HasSubstr("no schedule decides the calls on units of this step"));
  });
}

TEST(ScheduledUnits, RefuseOptionsThatSeveralSumsDoNotGoWith) {
  on_threads(2, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
    DataParallelOptions options{.gradients = ReduceOp::Sum, .determinism = Determinism::LayoutInvariant};
    options.step.order = two_passes(true);
    const std::string said = sinew::test::complaint([&] {
      DataParallel(
          mesh, two_units(), [](const InitialPart&) {}, data_row("zero3", {"dp"}),
          [&world](std::size_t bytes) { return world.allocate(bytes); }, options);
    });
    require_part(said, "several Reduces of a unit in a step of layout-invariant sums, expected one Reduce");
  });
}

/// Ranks whose schedules differ would wait for each other's exchanges.
TEST(ScheduledUnits, RefuseOrdersThatDifferBetweenRanks) {
  on_threads(2, only("inproc"), [](World& world) {
    UnitOrder order = two_passes(false);
    if (world.rank() == 1)
      std::swap(order.evaluation[0], order.evaluation[3]), std::swap(order.evaluation[1], order.evaluation[4]),
          std::swap(order.evaluation[2], order.evaluation[5]);
    require_part(sinew::test::complaint([&] { Engine engine(world, "zero3", order); }), "order");
  });
}

}  // namespace
}  // namespace sinew::parallel

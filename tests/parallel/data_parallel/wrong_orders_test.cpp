// Every call of a training step twice, left out, or before its time: on all ranks and on one of them, under every row.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"
#include "../support/told.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::bytes_of;
using test::tells_of_refusal;
using test::two_parameters;
using Clock = std::chrono::steady_clock;

constexpr auto kSoon = std::chrono::seconds(1);
constexpr int kFirst = 200, kSecond = 300;  // elements: every rank owns some
const std::string kForward = "bf0 af0 bf1 af1 ", kBackward = "bb1 g1 ab1 bb0 g0 ab0 ", kPasses = kForward + kBackward;
const std::string kStep = kPasses + "fin norm upd updated save ";

std::vector<DataParameter> parameters_of_all() {
  return {{.path = "a.weight", .elements = kFirst, .unit = "a"},
          {.path = "b.weight", .elements = kSecond, .unit = "b"}};
}

/// A hang is a failure soon.
WorldOptions within_seconds() {
  WorldOptions options = only("inproc");
  options.config.timeout = std::chrono::seconds(10);
  return options;
}

/// A rank's calls, one by one, by short names: "bf0" is before_forward of unit 0, "g1" gradient_ready of parameter 1.
class StepCalls {
 public:
  StepCalls(World& world, const std::string& row)
      : mesh_(world.communicator(), row == "hsdp" ? Factorisation({{"shard", 2}, {"copies", world.size() / 2}})
                                                  : Factorisation({{"dp", world.size()}})),
        data_(
            mesh_, parameters_of_all(), std::vector<ConstBuffer>{bytes_of(first_), bytes_of(second_)},
            row == "hsdp" ? data_row(row, {"shard", "copies"}) : data_row(row, {"dp"}),
            [&world](std::size_t bytes) { return world.allocate(bytes); }, options()),
        adam_(data_.memory(), AdamOptions{}) {}

  void make(const std::string& list) {
    std::istringstream words(list);
    for (std::string word; words >> word;) make_one(word);
  }
  /// Without the scopes that a list has left open.
  void abandon() {
    scope_.reset();
    data_.abandon_step();
  }
  /// The first of the gradients of this rank's parts, of a step where each rank adds 1.
  void require_sound_step() {
    make(kPasses + "fin");
    for (const OwnedPart& part : owned_) {
      if (part.first > 0) continue;
      require(reinterpret_cast<const float*>(part.gradient.data)[0] == 1.0F, "something of an earlier step is left");
    }
    make("norm upd updated save");
  }

 private:
  static DataParallelOptions options() {
    DataParallelOptions options{};
    options.step.buckets = NoBuckets{};
    return options;
  }

  void make_one(const std::string& word) {
    const std::string name = word.substr(0, word.find_first_of("01"));
    const std::int32_t number = word.ends_with('1') ? 1 : 0;
    if (name == "bf") return data_.before_forward(number);
    if (name == "af") return data_.after_forward(number);
    if (name == "bb") return data_.before_backward(number);
    if (name == "ab") return data_.after_backward(number);
    if (name == "g") {
      if (!data_.protocol().is_summed()) reinterpret_cast<float*>(data_.gradient(number).data)[0] = 1.0F;
      return data_.gradient_ready(number);
    }
    if (name == "fin") {
      before_ = std::move(owned_);
      owned_ = data_.finish_backward();
      return;
    }
    if (name == "norm") return static_cast<void>(gradient_norm(data_, owned_));
    if (name == "norm-of-values") return static_cast<void>(gradient_norm(data_, data_.owned_values()));
    if (name == "upd") return adam_.update(owned_);
    if (name == "upd-of-values") return adam_.update(data_.owned_values());
    if (name == "upd-of-before") return adam_.update(before_);
    if (name == "restore") return adam_.restore_steps(3);
    if (name == "updated") return data_.updated();
    if (name == "save") return static_cast<void>(parts_to_save(data_, adam_));
    if (name == "load") return static_cast<void>(parts_to_load(data_, adam_));
    if (name == "abandon") return data_.abandon_step();
    if (name == "finish-forward") return data_.finish_forward();
    if (name == "no-sync") return static_cast<void>(scope_.emplace(data_.no_sync()));
    if (name == "forward-only") return static_cast<void>(scope_.emplace(data_.forward_only()));
    if (name == "end-of-scope") return scope_.reset();
    throw Error(Code::System, "no call is named " + word);
  }

  std::vector<float> first_ = std::vector<float>(kFirst, 1.0F), second_ = std::vector<float>(kSecond, 1.0F);
  Mesh mesh_;
  DataParallel data_;
  Optimizer adam_;
  std::vector<OwnedPart> owned_, before_;
  std::optional<DataParallel::Scope> scope_;
};

enum class WhichRows : std::uint8_t { All, Gathered, Whole };

struct WrongOrder {
  std::string calls;  ///< the last one is refused
  std::string made, due;
  WhichRows rows = WhichRows::All;
};

std::string data_call_named(const std::string& call) { return "DataParallel::" + call; }

std::vector<WrongOrder> wrong_orders() {
  const std::string finish = data_call_named("finish_backward()"), updated = data_call_named("updated()");
  const std::string update = "Optimizer::update()", f0 = data_call_named("before_forward('a')");
  const std::string f1 = data_call_named("before_forward('b')"), g0 = data_call_named("gradient_ready('a.weight')");
  const std::string g1 = data_call_named("gradient_ready('b.weight')"), b1 = data_call_named("before_backward('b')");
  const std::string given = update + " with what finish_backward() has returned in this step";
  return {
      // finish_backward
      {kPasses + "updated", updated, finish},
      {kPasses + "upd-of-values", update, finish},
      {kPasses + "bf0", f0, finish},
      {kPasses + "g1", g1, finish},
      {kPasses + "norm", "gradient_norm()", finish},
      {kPasses + "save", "parts_to_save()", finish},
      {kPasses + "fin fin", finish, update},
      {kPasses + "fin upd fin", finish, updated},
      {kStep + "fin", finish, f0, WhichRows::Gathered},
      {kStep + "fin", finish, g0, WhichRows::Whole},
      {kForward + "fin", finish, b1, WhichRows::Gathered},
      {"g1 fin", finish, g0, WhichRows::Whole},
      // update
      {kPasses + "fin updated", updated, update},
      {kStep + kPasses + "fin updated", updated, update},
      {kPasses + "fin upd upd", update, updated},
      {kPasses + "fin upd-of-values", update, given},
      {kStep + kPasses + "fin upd-of-before", update, given},
      {kPasses + "fin norm-of-values", "gradient_norm()",
       "gradient_norm() with what finish_backward() has returned in this step"},
      {kStep + "upd", update, f0, WhichRows::Gathered},
      {kStep + "upd", update, g0, WhichRows::Whole},
      {kPasses + "restore", "Optimizer::restore_steps()", finish},
      // updated
      {kPasses + "fin upd bf0", f0, updated},
      {kPasses + "fin upd g1", g1, updated},
      {kPasses + "fin upd save", "parts_to_save()", updated},
      {kPasses + "fin upd load", "parts_to_load()", updated},
      {"updated", updated, f0, WhichRows::Gathered},
      {"updated", updated, g0, WhichRows::Whole},
      {kStep + "updated", updated, f0, WhichRows::Gathered},
      {kStep + "updated", updated, g0, WhichRows::Whole},
      {kForward + "updated", updated, b1, WhichRows::Gathered},
      // units, where they are gathered
      {"bf0 bf0", f0, data_call_named("after_forward('a')"), WhichRows::Gathered},
      {"bf1", f1, f0, WhichRows::Gathered},
      {"af0", data_call_named("after_forward('a')"), f0, WhichRows::Gathered},
      {"bf0 af0 af0", data_call_named("after_forward('a')"), f1, WhichRows::Gathered},
      {"bf0 af0 bb0", data_call_named("before_backward('a')"), f1, WhichRows::Gathered},
      {"bf0 af0 bb1", b1, f1, WhichRows::Gathered},
      {kForward + "bf0", f0, b1, WhichRows::Gathered},
      {kForward + "bb0", data_call_named("before_backward('a')"), b1, WhichRows::Gathered},
      {kForward + "g1", g1, b1, WhichRows::Gathered},
      {kForward + "ab1", data_call_named("after_backward('b')"), b1, WhichRows::Gathered},
      {kForward + "bb1 ab1", data_call_named("after_backward('b')"), g1, WhichRows::Gathered},
      {kForward + "bb1 bb1", b1, g1, WhichRows::Gathered},
      {kForward + "bb1 g1 g1", g1, data_call_named("after_backward('b')"), WhichRows::Gathered},
      {kForward + "bb1 g1 ab1 ab1", data_call_named("after_backward('b')"), data_call_named("before_backward('a')"),
       WhichRows::Gathered},
      {kForward + "bb1 g1 ab1 g0", g0, data_call_named("before_backward('a')"), WhichRows::Gathered},
      // gradients, elsewhere
      {"g1 g1", g1, g0, WhichRows::Whole},
      {"g1 g0 g0", g0, finish, WhichRows::Whole},
      // other passes
      {"finish-forward", data_call_named("finish_forward()"), f0, WhichRows::Gathered},
      {"g1 finish-forward", data_call_named("finish_forward()"), g0, WhichRows::Whole},
      {"forward-only " + kForward + "bb1", b1, data_call_named("finish_forward()")},
      {"forward-only bf0 af0 finish-forward", data_call_named("finish_forward()"), f1, WhichRows::Gathered},
      {"forward-only fin", finish, f0, WhichRows::Gathered},
      {"forward-only g1", g1, data_call_named("finish_forward()"), WhichRows::Whole},
      {"forward-only updated", updated, f0, WhichRows::Gathered},
      {"bf0 no-sync", data_call_named("no_sync()"), data_call_named("after_forward('a')"), WhichRows::Gathered},
      {"g1 no-sync", data_call_named("no_sync()"), g0, WhichRows::Whole},
      {kPasses + "fin forward-only", data_call_named("forward_only()"), update},
      {"no-sync " + kPasses + "bf0", f0, finish},
      {"no-sync " + kPasses + "fin updated", updated, f0, WhichRows::Gathered},
      {"no-sync " + kPasses + "fin upd", update, g0, WhichRows::Whole},
      {"no-sync " + kPasses + "fin end-of-scope updated", updated, f0, WhichRows::Gathered},
      {"no-sync " + kPasses + "fin end-of-scope updated", updated, g0, WhichRows::Whole},
      {"no-sync " + kPasses + "fin end-of-scope save", "parts_to_save()", g0, WhichRows::Whole},
      {"no-sync g1 end-of-scope g0", g0, data_call_named("abandon_step()"), WhichRows::Whole},
      {"forward-only bf0 end-of-scope af0", data_call_named("after_forward('a')"), data_call_named("abandon_step()"),
       WhichRows::Gathered},
  };
}

/// How a rank's calls have ended, and when.
struct CallsEnding {
  Code code = Code::Ok;
  std::string text;
  Clock::time_point when = Clock::now();
};

CallsEnding ending_of(StepCalls& calls, const std::string& list) {
  try {
    calls.make(list);
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

struct OrderRow {
  const char* name;
  int ranks;
  bool gathers;
};
constexpr OrderRow kOrderRows[] = {
    {"ddp", 3, false}, {"zero1", 3, false}, {"zero2", 3, false}, {"zero3", 3, true}, {"hsdp", 4, true}};

bool is_of_rows(const OrderRow& row, WhichRows rows) {
  return rows == WhichRows::All || (rows == WhichRows::Gathered) == row.gathers;
}

/// What ranks have ended with, once all of them have.
class CallsEndings {
 public:
  explicit CallsEndings(int ranks) : all_(static_cast<std::size_t>(ranks)), ended_(ranks) {}
  const std::vector<CallsEnding>& with(int rank, CallsEnding mine) {
    all_[static_cast<std::size_t>(rank)] = std::move(mine);
    ended_.arrive_and_wait();
    return all_;
  }

 private:
  std::vector<CallsEnding> all_;
  std::latch ended_;
};

class WrongOrders : public ::testing::TestWithParam<OrderRow> {};

TEST_P(WrongOrders, AreRefusedOnAllRanks_AndGivenUp) {
  const OrderRow& row = GetParam();
  for (const WrongOrder& wrong : wrong_orders()) {
    if (!is_of_rows(row, wrong.rows)) continue;
    const std::string expected = wrong.made + " was called, but " + wrong.due + " is due: ";
    const auto begin = Clock::now();
    on_threads(row.ranks, within_seconds(), [&](World& world) {
      StepCalls calls(world, row.name);
      const CallsEnding end = ending_of(calls, wrong.calls);
      const std::string which = std::string(row.name) + ", " + wrong.calls + ": " + end.text;
      // Another rank may have been refused before this one was that far.
      require(end.code == Code::InvalidArgument
                  ? end.text.starts_with(expected)
                  : end.code == Code::Aborted && end.text.find(expected) != std::string::npos,
              which);
      if (end.code == Code::InvalidArgument)
        require(ending_of(calls, "bf0").text == end.text, which + ": a later call says something else");
      calls.abandon();
      calls.require_sound_step();
    });
    EXPECT_LT(Clock::now() - begin, 10 * kSoon) << wrong.calls;
  }
}

/// The rank that is wrong lives on: the others learn of it all the same, and all of them can go on together.
TEST_P(WrongOrders, AreRefusedOnOneRank_AndEndTheStepOnTheOthers) {
  const OrderRow& row = GetParam();
  int odd = 0;
  auto longest = Clock::duration::zero();
  for (const WrongOrder& wrong : wrong_orders()) {
    if (!is_of_rows(row, wrong.rows)) continue;
    odd = (odd + 1) % row.ranks;
    const std::string expected = wrong.made + " was called, but " + wrong.due + " is due: ";
    const bool steps_first = wrong.calls.starts_with(kStep);
    CallsEndings endings(row.ranks);
    on_threads(row.ranks, within_seconds(), [&](World& world) {
      StepCalls calls(world, row.name);
      const bool is_odd = world.rank() == odd;
      CallsEnding mine = ending_of(calls, is_odd ? wrong.calls : kStep + kStep + (steps_first ? kStep : ""));
      mine.when = Clock::now();
      const std::vector<CallsEnding>& all = endings.with(world.rank(), std::move(mine));
      const CallsEnding& end = all[static_cast<std::size_t>(world.rank())];
      const std::string which =
          std::string(row.name) + ", rank " + std::to_string(odd) + " " + wrong.calls + ": " + end.text;
      if (is_odd) {
        require(end.code == Code::InvalidArgument && end.text.starts_with(expected), which);
        for (const CallsEnding& each : all) longest = std::max(longest, each.when - end.when);
      } else {
        require(end.code == Code::Aborted && tells_of_refusal(end.text, odd, expected), which);
      }
      calls.abandon();
      calls.require_sound_step();
    });
  }
  EXPECT_LT(longest, kSoon) << std::chrono::duration<double>(longest).count() << " s";
}

/// What one rank leaves out whole no rank can see in its own calls: the next exchange finds it.
TEST_P(WrongOrders, AreFoundByTheNextExchange_WhereOneRankLeavesOutACallOfAll) {
  const OrderRow& row = GetParam();
  for (const char* left_out : {"save", "abandon"}) {
    const std::string others = left_out == std::string("save") ? kStep + kStep : kForward + "abandon " + kStep;
    const std::string odd = left_out == std::string("save") ? kPasses + "fin norm upd updated " + kStep : kStep + kStep;
    on_threads(row.ranks, within_seconds(), [&](World& world) {
      StepCalls calls(world, row.name);
      const auto begin = Clock::now();
      const CallsEnding end = ending_of(calls, world.rank() == 1 ? odd : others);
      require(end.code == Code::Mismatch || end.code == Code::PeerLost || end.code == Code::Aborted ||
                  end.code == Code::InvalidArgument,
              std::string(row.name) + ", " + left_out + ": " + end.text);
      require(end.text.find("rank ") != std::string::npos, end.text);
      require(end.when - begin < 5 * kSoon, "it took the timeout");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(DataParallelStep, WrongOrders, ::testing::ValuesIn(kOrderRows),
                         [](const auto& row) { return std::string(row.param.name); });

/// Ranks that share layers with the one that is refused wait in the mesh: they learn of it when its stack unwinds.
TEST(StepProtocol, TellsTheRanksOfTheMesh_WhereARefusedCallUnwindsTheStack) {
  std::vector<std::string> said(4);
  on_threads(4, within_seconds(), [&](World& world) {
    const std::vector<float> memory(4, 1.0F);
    const std::vector<ConstBuffer> values{bytes_of(memory)};
    try {
      Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}));
      DataParallel data(mesh, {{.path = "w", .elements = 4, .unit = "w"}}, values, data_row("zero1", {"dp"}),
                        [&world](std::size_t bytes) { return world.allocate(bytes); });
      for (int step = 0; step < 2; ++step) {
        static_cast<void>(data.gradient(0));
        data.gradient_ready(0);
        if (world.rank() != 1) static_cast<void>(data.finish_backward());
        data.updated();
        std::vector<float> activations(8, 1.0F);
        mesh.along("tp").all_reduce(activations).get();
      }
    } catch (const Error& e) {
      said[static_cast<std::size_t>(world.rank())] = e.what();
    }
    world.communicator().barrier().get();
  });
  const std::string expected = "DataParallel::updated() was called, but DataParallel::finish_backward() is due: ";
  EXPECT_TRUE(said[1].starts_with(expected)) << said[1];
  for (const std::string& text : {said[0], said[2], said[3]}) EXPECT_TRUE(tells_of_refusal(text, 1, expected)) << text;
}

/// One that never had parts does not keep a step from its end where another one has updated them.
TEST(StepProtocol, WaitsForOptimizersThatLive) {
  on_threads(1, only("inproc"), [](World& world) {
    test::Small small(world, "ddp", two_parameters());
    DataParallel& data = *small.data;
    std::optional<Optimizer> first, second;
    first.emplace(data.memory(), SgdOptions{});
    second.emplace(data.memory(), SgdOptions{});
    const auto step = [&](bool with_first) {
      test::whole_step(data, 1.0F);
      const std::vector<OwnedPart> owned = data.finish_backward();
      if (with_first) first->update(owned);
      data.updated();
    };
    step(true);
    const std::string said = sinew::test::complaint([&] { step(false); });
    require(said.find("Optimizer::update() is due") != std::string::npos, said);
    data.abandon_step();
    first.reset();
    second.reset();
    step(false);
  });
}

}  // namespace
}  // namespace sinew::parallel

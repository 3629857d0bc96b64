// What an all_reduce of 8 bytes over shared memory costs beyond the bare exchange of two flag lines: each part by
// itself, and the whole call in turns with the bare exchange, in the same two processes.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/base/table.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <sinew/core/work.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"
#include "two_ranks.hpp"

namespace {

using namespace sinew;
using bench::median;
using Steady = std::chrono::steady_clock;

constexpr std::uint64_t kCalls = 20'000;
constexpr int kBatches = 31;
constexpr double kThreadsBudget = 40;  // ns
/// What follows a fence waits for the pipeline to fill again, so a few pieces share one; without any, hundreds would
/// overlap.
constexpr std::uint64_t kPiecesPerFence = 4;

/// The compiler knows nothing of what comes out of here, and cannot leave out what goes in.
template <class T>
T& hidden(T& value) {
  static T* volatile at;
  at = &value;
  return *at;
}
void keep(std::uint64_t value) { static_cast<void>(hidden(value)); }

template <class Piece>
double ns_of_loop(Piece&& piece) {
  const auto begin = Steady::now();
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    piece(i);
    if (i % kPiecesPerFence == 0) instruction_fence();
  }
  return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(kCalls);
}

/// Nanoseconds of one piece, less the empty loop.
template <class Piece>
double ns_of(Piece&& piece) {
  std::vector<double> with;
  std::vector<double> without;
  for (int b = 0; b < kBatches; ++b) {
    with.push_back(ns_of_loop(piece));
    without.push_back(ns_of_loop([](std::uint64_t i) { keep(i); }));
  }
  return median(with) - median(without);
}

CollectiveDesc described(std::uint64_t count) {
  return {.collective = Collective::AllReduce, .dtype = DType::F64, .count = count};
}

/// Eight signatures in turn.
double plan_lookup() {
  PlanCache cache;
  std::array<CollectiveDesc, 8> descs;
  std::array<Fingerprint, 8> fingerprints{};
  for (std::uint64_t k = 0; k < descs.size(); ++k) {
    descs[k] = described(k + 1);
    fingerprints[k] = fingerprint_of(descs[k]);
  }
  return ns_of([&](std::uint64_t i) {
    const CollectiveDesc& desc = hidden(descs)[i % descs.size()];
    const auto make = [&desc] {
      auto plan = std::make_unique<ReadyPlan>();
      plan->desc = desc;
      return plan;
    };
    keep(reinterpret_cast<std::uint64_t>(&cache.find(desc, hidden(fingerprints)[i % descs.size()], make)));
  });
}

double arguments_and_fingerprint() {
  struct Given {
    std::array<double, 1> data;
    DType dtype = DType::F64;
    ReduceOp op = ReduceOp::Sum;
    CallOptions options;
  } given;
  return ns_of([&](std::uint64_t) {
    Given& g = hidden(given);
    const Buffer buffer{reinterpret_cast<std::byte*>(g.data.data()), sizeof g.data};
    keep(fingerprint_of(arguments::all_reduce(buffer, buffer, g.dtype, g.op, g.options)));
  });
}

/// Both halves.
double record() {
  std::vector<std::byte> memory(RecordRing::bytes() + kCacheLine);
  void* aligned = memory.data();
  std::size_t space = memory.size();
  RecordRing ring(static_cast<std::byte*>(std::align(kCacheLine, RecordRing::bytes(), aligned, space)), 0);
  CallEntry entry{.communicator = 1, .fingerprint = 2, .history = 3, .sequence = 4};
  const CallOptions options;
  return ns_of([&](std::uint64_t) { hidden(ring).enter(hidden(entry), options.where).complete(Code::Ok); });
}

/// A place for the call, its end, the wait that finds it ended.
double work() {
  Engine engine(true);
  CallSlab calls(engine, std::chrono::seconds(1), false);
  const CallOptions options;
  return ns_of([&](std::uint64_t i) {
    PendingCall& op = hidden(calls).open([&](PendingCall& call) {
      call.owner = &engine;
      call.sequence = static_cast<std::uint32_t>(i);
      call.peer = -1;
      call.fingerprint = i;
      call.deadline = options.deadline;
      call.where = options.where;
      call.record = {};
    });
    Work handle(op);
    op.finish({});
    handle.get();
  });
}

/// One of the two processes.
class Rank {
 public:
  explicit Rank(bench::Side& side)
      : side_(side),
        world_(World::create(side.exchange(), options(Threads::Single))),
        of_threads_(World::create(side.exchange(), options(Threads::Multiple))) {}

  double bare() { return side_.bare(kCalls) * 1e9; }
  double whole() { return calls(world_, false); }
  /// The same in a World of Threads::Multiple. `at_once`: CallOptions::waits_at_once.
  double of_threads(bool at_once) { return calls(of_threads_, at_once); }
  std::string plan() { return world_.communicator().plan(described(1)).explain(); }

 private:
  double calls(World& world, bool at_once) {
    Communicator& all = world.communicator();
    std::array<double, 1> data{};
    const CallOptions options{.waits_at_once = at_once};
    side_.meet();
    const auto begin = Steady::now();
    for (std::uint64_t i = 0; i < kCalls; ++i) all.all_reduce(data, ReduceOp::Sum, options).get();
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(kCalls);
  }
  static WorldOptions options(Threads threads) {
    WorldOptions options;
    options.threads = threads;
    options.config.transports = {"shm"};
    options.config.tune = {"all_reduce:0-:shm@shm"};  // whatever else is predicted to be as fast
    return options;
  }

  bench::Side& side_;
  World world_;
  World of_threads_;
};

struct Ns {
  double bare, whole, threads, threads_async;
};

/// Medians of batches in turns, on rank 0 of two processes.
Ns measure(bool show_plan) {
  std::vector<double> bare;
  std::vector<double> whole;
  std::vector<double> threads;
  std::vector<double> threads_async;
  bench::in_two_processes([&](bench::Side& side) {
    Rank self(side);
    if (show_plan && side.rank() == 0) fmt::print("{}\n", self.plan());
    for (int b = -2; b < kBatches; ++b) {
      const Ns ns{self.bare(), self.whole(), self.of_threads(true), self.of_threads(false)};
      if (b < 0) continue;
      bare.push_back(ns.bare);
      whole.push_back(ns.whole);
      threads.push_back(ns.threads - ns.whole);
      threads_async.push_back(ns.threads_async - ns.whole);
    }
  });
  return {median(bare), median(whole), median(threads), median(threads_async)};
}

struct Part {
  const char* name;
  double budget;
  double ns;
};

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("Shows what an all_reduce of 8 bytes costs beyond the bare exchange of two flag lines.");
  std::string json;
  bool show_plan = false;
  command.option("--json", json, "file for one line of JSON");
  command.flag("--plan", show_plan, "show what runs, and why");
  command.parse(argc, argv);

  const Ns ns = measure(show_plan);
  const std::array<Part, 4> parts = {{{"plan lookup", 15, plan_lookup()},
                                      {"arguments, fingerprint", 10, arguments_and_fingerprint()},
                                      {"record", 15, record()},
                                      {"Work", 10, work()}}};
  Part sum{"sum of the parts", 0, 0};
  std::string list;
  Table table({{.name = "part of an 8-byte all_reduce"},
               {.name = "ns", .align = Align::Right},
               {.name = "budget", .align = Align::Right}});
  const auto line = [&](const char* what, double took, std::optional<double> budget = {}) {
    table.add({what, fmt::format("{:.1f}", took), budget ? fmt::format("{}", *budget) : ""});
  };
  for (const Part& p : parts) {
    line(p.name, p.ns, p.budget);
    sum.ns += p.ns;
    sum.budget += p.budget;
    list += (list.empty() ? "" : ",") + json_object({{"part", p.name}, {"ns", p.ns, 2}, {"budget", p.budget}});
  }
  const double beyond = ns.whole - ns.bare;
  line(sum.name, sum.ns, sum.budget);
  line("bare exchange of flag lines", ns.bare);
  line("whole call", ns.whole);
  line("whole call beyond the exchange", beyond);
  line("of that the transport's own", beyond - sum.ns);
  line("Threads::Multiple adds", ns.threads, kThreadsBudget);
  line("and if callers do not say they wait", ns.threads_async);
  fmt::print("{}", table.text());
  if (!json.empty())
    std::ofstream(json) << fmt::format(R"({{"parts":[{}],{})", list,
                                       json_object({{"sum", sum.ns, 2},
                                                    {"bare", ns.bare, 2},
                                                    {"whole", ns.whole, 2},
                                                    {"beyond", beyond, 2},
                                                    {"threads", ns.threads, 2},
                                                    {"threads_async", ns.threads_async, 2}})
                                           .substr(1))
                        << '\n';
}

// Measures how much time the C API adds to an all_reduce of 8 bytes over shared memory. Calls of the C API and of the
// C++ API alternate in the same two processes.
#include <sinew.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/table.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"
#include "two_ranks.hpp"

namespace {

using namespace sinew;
using bench::median;
using Steady = std::chrono::steady_clock;

constexpr std::uint64_t kCalls = 20'000;
constexpr int kBatches = 41;
constexpr double kBudget = 20;  // ns

void require(sinew_status status) {
  if (status == SINEW_OK) return;
  std::fprintf(stderr, "c_overhead: %s\n", sinew_last_error_message());
  std::exit(1);
}

/// The exchange of the two processes, for C.
sinew_status gather(void* context, const void* mine, std::size_t bytes, sinew_gathered* all) {
  const auto& exchange = *static_cast<const Exchange*>(context);
  const auto* first = static_cast<const std::byte*>(mine);
  const std::vector<Bytes> gathered = exchange.all_gather(Bytes(first, first + bytes));
  for (int r = 0; r < exchange.size; ++r) {
    const Bytes& theirs = gathered[static_cast<std::size_t>(r)];
    require(sinew_gathered_put(all, r, theirs.data(), theirs.size()));
  }
  return SINEW_OK;
}

constexpr std::array kSettings{"SINEW_TRANSPORTS=shm", "SINEW_TUNE=all_reduce:0-:shm@shm"};

template <class Call>
double ns_of(bench::Side& side, Call&& call) {
  side.meet();
  const auto begin = Steady::now();
  for (std::uint64_t i = 0; i < kCalls; ++i) call();
  return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(kCalls);
}

/// A World of the C++ API.
class CppWorld {
 public:
  CppWorld(bench::Side& side, Threads threads) : side_(side), world_(make(side, threads)) {}

  double waits() {
    Communicator& all = world_.communicator();
    const CallOptions options{.waits_at_once = true};
    std::array<double, 1> data{};
    return ns_of(side_, [&] { all.all_reduce(data, ReduceOp::Sum, options).get(); });
  }
  /// The same with a Work that is kept before it is waited for.
  double works() {
    Communicator& all = world_.communicator();
    std::array<double, 1> data{};
    return ns_of(side_, [&] {
      Work work = all.all_reduce(data);
      work.get();
    });
  }

 private:
  static World make(bench::Side& side, Threads threads) {
    WorldOptions options;
    options.threads = threads;
    for (const char* setting : kSettings) options.config.set(setting);
    return World::create(side.exchange(), options);
  }

  bench::Side& side_;
  World world_;
};

/// A World of the C API.
class CWorld {
 public:
  CWorld(bench::Side& side, Threads threads) : side_(side), exchange_(side.exchange()) {
    sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
    options.threads = threads == Threads::Single ? SINEW_THREADS_SINGLE : SINEW_THREADS_MULTIPLE;
    options.config = kSettings.data();
    options.config_count = kSettings.size();
    const sinew_exchange exchange{sizeof exchange, exchange_.rank, exchange_.size, gather, &exchange_};
    require(sinew_world_create(&exchange, &options, &world_));
    require(sinew_world_communicator(world_, &all_));
  }
  ~CWorld() { require(sinew_world_free(&world_)); }
  CWorld(const CWorld&) = delete;
  CWorld& operator=(const CWorld&) = delete;

  /// `options`: null, or those of a call that names its line.
  double waits(const sinew_call_options* options = nullptr) {
    std::array<double, 1> data{};
    return ns_of(side_, [&] {
      require(sinew_all_reduce(all_, data.data(), data.data(), 1, SINEW_F64, SINEW_SUM, options, nullptr));
    });
  }
  double works() {
    std::array<double, 1> data{};
    return ns_of(side_, [&] {
      sinew_work work;
      require(sinew_all_reduce(all_, data.data(), data.data(), 1, SINEW_F64, SINEW_SUM, nullptr, &work));
      require(sinew_wait(&work));
    });
  }

 private:
  bench::Side& side_;
  Exchange exchange_;
  sinew_world world_{};
  sinew_communicator all_{};
};

/// Two Worlds of each API. The memory of later Worlds of a process may be slower or faster than that of earlier ones.
/// So the C API has the two in the middle.
struct Worlds {
  Worlds(bench::Side& side, Threads threads)
      : first(side, threads), second(side, threads), third(side, threads), fourth(side, threads) {}
  CppWorld first;
  CWorld second;
  CWorld third;
  CppWorld fourth;

  /// Nanoseconds per call of the C++ API, and how many the C API adds.
  template <class OfCpp, class OfC>
  std::pair<double, double> compare(OfCpp&& of_cpp, OfC&& of_c) {
    const double a = of_cpp(first);
    const double b = of_c(second);
    const double c = of_c(third);
    const double d = of_cpp(fourth);
    return {(a + d) / 2, (b + c - a - d) / 2};
  }
};

struct Ns {
  double cpp, c, with_site, works, multiple;
};

/// Medians of batches in turns, on rank 0 of two processes.
Ns measure() {
  std::vector<double> cpp;
  std::vector<double> c;
  std::vector<double> with_site;
  std::vector<double> works;
  std::vector<double> multiple;
  bench::in_two_processes([&](bench::Side& side) {
    Worlds single(side, Threads::Single);
    Worlds of_threads(side, Threads::Multiple);
    const sinew_call_options here = SINEW_CALL_OPTIONS_INIT;
    const auto cpp_waits = [](CppWorld& world) { return world.waits(); };
    const auto c_waits = [](CWorld& world) { return world.waits(); };
    for (int b = -2; b < kBatches; ++b) {
      const auto [took, added] = single.compare(cpp_waits, c_waits);
      const auto named = single.compare(cpp_waits, [&](CWorld& world) { return world.waits(&here); });
      const auto kept =
          single.compare([](CppWorld& world) { return world.works(); }, [](CWorld& world) { return world.works(); });
      const auto threads = of_threads.compare(cpp_waits, c_waits);
      if (b < 0) continue;
      cpp.push_back(took);
      c.push_back(added);
      with_site.push_back(named.second);
      works.push_back(kept.second);
      multiple.push_back(threads.second);
    }
  });
  return {median(cpp), median(c), median(with_site), median(works), median(multiple)};
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("Shows what the C API adds to an all_reduce of 8 bytes.");
  std::string json;
  command.option("--json", json, "file for one line of JSON");
  command.parse(argc, argv);

  const Ns ns = measure();
  Table table({{.name = "all_reduce of 8 bytes"},
               {.name = "ns", .align = Align::Right},
               {.name = "budget", .align = Align::Right}});
  const auto line = [&](const char* what, double took, const std::string& budget = "") {
    table.add({what, fmt::format("{:.1f}", took), budget});
  };
  line("the C++ API", ns.cpp);
  line("the C API adds", ns.c, fmt::format("{}", kBudget));
  line("the same with the caller's line", ns.with_site);
  line("the same with a work", ns.works);
  line("the same with SINEW_THREADS_MULTIPLE", ns.multiple);
  fmt::print("{}", table.text());
  if (!json.empty()) {
    std::ofstream(json) << json_object({{"cpp", ns.cpp, 2},
                                        {"c", ns.c, 2},
                                        {"with_site", ns.with_site, 2},
                                        {"works", ns.works, 2},
                                        {"multiple", ns.multiple, 2},
                                        {"budget", kBudget}})
                        << '\n';
  }
}

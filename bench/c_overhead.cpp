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
constexpr int kBatches = 61;
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

/// One of the two processes, with a World of each API for each Threads.
class Rank {
 public:
  Rank(bench::Side& side, Threads threads) : side_(side), exchange_(side.exchange()), world_(make(threads)) {
    const std::array config{"SINEW_TRANSPORTS=shm", "SINEW_TUNE=all_reduce:0-:shm@shm"};
    sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
    options.threads = threads == Threads::Single ? SINEW_THREADS_SINGLE : SINEW_THREADS_MULTIPLE;
    options.config = config.data();
    options.config_count = config.size();
    const sinew_exchange exchange{sizeof exchange, exchange_.rank, exchange_.size, gather, &exchange_};
    require(sinew_world_create(&exchange, &options, &c_world_));
    require(sinew_world_communicator(c_world_, &c_all_));
  }
  ~Rank() { require(sinew_world_free(&c_world_)); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  double of_cpp() {
    Communicator& all = world_.communicator();
    const CallOptions options{.waits_at_once = true};
    std::array<double, 1> data{};
    return ns([&] { all.all_reduce(data, ReduceOp::Sum, options).get(); });
  }
  /// `options`: null, or those of a call that names its line.
  double of_c(const sinew_call_options* options) {
    std::array<double, 1> data{};
    return ns([&] {
      require(sinew_all_reduce(c_all_, data.data(), data.data(), 1, SINEW_F64, SINEW_SUM, options, nullptr));
    });
  }
  /// The same with a work that is waited for.
  double of_c_works() {
    std::array<double, 1> data{};
    return ns([&] {
      sinew_work work;
      require(sinew_all_reduce(c_all_, data.data(), data.data(), 1, SINEW_F64, SINEW_SUM, nullptr, &work));
      require(sinew_wait(&work));
    });
  }
  double of_cpp_works() {
    Communicator& all = world_.communicator();
    std::array<double, 1> data{};
    return ns([&] {
      Work work = all.all_reduce(data);
      work.get();
    });
  }

 private:
  template <class Call>
  double ns(Call&& call) {
    side_.meet();
    const auto begin = Steady::now();
    for (std::uint64_t i = 0; i < kCalls; ++i) call();
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(kCalls);
  }
  World make(Threads threads) {
    WorldOptions options;
    options.threads = threads;
    options.config.transports = {"shm"};
    options.config.tune = {"all_reduce:0-:shm@shm"};
    return World::create(exchange_, options);
  }

  bench::Side& side_;
  Exchange exchange_;
  World world_;
  sinew_world c_world_{};
  sinew_communicator c_all_{};
};

struct Ns {
  double cpp, c, with_site, works, multiple;
};

/// Medians of batches in turns, on rank 0 of two processes. All but `cpp` are differences of neighbouring batches.
Ns measure() {
  std::vector<double> cpp;
  std::vector<double> c;
  std::vector<double> with_site;
  std::vector<double> works;
  std::vector<double> multiple;
  bench::in_two_processes([&](bench::Side& side) {
    Rank single(side, Threads::Single);
    Rank of_threads(side, Threads::Multiple);
    const sinew_call_options here = SINEW_CALL_OPTIONS_INIT;
    for (int b = -2; b < kBatches; ++b) {
      const double before = single.of_cpp();
      const double plain = single.of_c(nullptr);
      const double between = single.of_cpp();
      const double named = single.of_c(&here);
      const double after = single.of_cpp();
      const double cpp_work = single.of_cpp_works();
      const double c_work = single.of_c_works();
      const double cpp_threads = of_threads.of_cpp();
      const double c_threads = of_threads.of_c(nullptr);
      if (b < 0) continue;
      cpp.push_back(between);
      c.push_back(plain - (before + between) / 2);
      with_site.push_back(named - (between + after) / 2);
      works.push_back(c_work - cpp_work);
      multiple.push_back(c_threads - cpp_threads);
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

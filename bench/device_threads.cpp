// All-reduce on device memory between ranks that are threads of this process, on one device: what the steps of cuda_ipc
// cost where no process waits for its turn on the device. One JSON object per line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/json_object.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "command_line.hpp"

namespace {

using namespace sinew;

constexpr int kRounds = 101;

void run_rank(const Exchange& exchange, std::size_t least, std::size_t most) {
  WorldOptions options;
  options.config.transports = {"shm", "cuda_ipc"};
  options.config.tune = {"all_reduce:0-:cuda_ipc"};
  World world = World::create(exchange, std::move(options));
  Communicator& all = world.communicator();
  cuda::Runtime runtime;
  const Place place{MemoryKind::Device, world.rank() % runtime.device_count()};
  for (std::size_t bytes = least; bytes <= most; bytes *= 8) {
    const Buffer in = runtime.allocate(bytes, place);
    const Buffer out = runtime.allocate(bytes, place);
    std::vector<double> us;
    for (int r = -5; r < kRounds; ++r) {
      all.barrier().get();
      const auto begin = std::chrono::steady_clock::now();
      all.all_reduce(in, out, DType::F32).get();
      if (r >= 0)
        us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(us);
    const Plan plan =
        all.plan({.collective = Collective::AllReduce, .dtype = DType::F32, .place = place, .count = bytes / 4});
    if (world.rank() == 0) {
      std::puts(json_object({{"what", "all_reduce"},
                             {"ranks", world.size()},
                             {"bytes", bytes},
                             {"us", us[us.size() / 2], 1},
                             {"predicted_us", plan.chosen().predicted * 1e6, 1}})
                    .c_str());
    }
    runtime.release(in);
    runtime.release(out);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("measures all_reduce on device memory between threads");
  int ranks = 2;
  std::string least = "8";
  std::string most = "64MiB";
  command.option("--ranks", ranks, "threads", {.least = 2, .most = 16});
  command.option("-b", least, "smallest size");
  command.option("-e", most, "largest size");
  command.parse(argc, argv);
  try {
    const std::size_t from = std::max<std::size_t>(parse_bytes(least), sizeof(float));
    const std::size_t to = parse_bytes(most);
    std::vector<std::jthread> threads;
    std::vector<std::string> failures(static_cast<std::size_t>(ranks));
    const auto exchanges = thread_exchanges(ranks, std::chrono::seconds(60));
    for (const Exchange& e : exchanges) {
      threads.emplace_back([&failures, &e, from, to] {
        try {
          run_rank(e, from, to);
        } catch (const std::exception& error) {
          failures[static_cast<std::size_t>(e.rank)] = error.what();
        }
      });
    }
    threads.clear();
    for (const std::string& f : failures) {
      if (f.empty()) continue;
      fmt::print(stderr, "device_threads: {}\n", f);
      return 1;
    }
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "device_threads: {}\n", e.what());
    return 2;
  }
}

// What a call of NCCL costs through sinew, beside NCCL itself: both in this process, on the same memory and stream, in
// turns. Start it by sinew-run, or alone. One JSON object per line.
//
// Ranks that share a device tell NCCL that each is on a host of its own. NCCL then sends through sockets, as it takes
// one rank for each device of a host: the work around the call is as on several devices, the rates are not.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/topology/format/json/json_object.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "command_line.hpp"

namespace {

using namespace sinew;

constexpr int kFloat = 7;  // ncclFloat32
constexpr int kSum = 0;    // ncclSum
struct UniqueId {
  char internal[128];
};

/// NCCL as a program without sinew uses it, with a blocking communicator.
class BareNccl {
 public:
  BareNccl(World& world, cuda::Runtime& runtime, int device) : runtime_(runtime), device_(device) {
    UniqueId id{};
    if (world.rank() == 0) check(find<int(UniqueId*)>("ncclGetUniqueId")(&id), "ncclGetUniqueId");
    world.communicator().broadcast(std::span(id.internal), 0).get();
    runtime_.make_current(device_);
    check(find<int(void**, int, UniqueId, int)>("ncclCommInitRank")(&comm_, world.size(), id, world.rank()),
          "ncclCommInitRank");
    all_reduce_ = find<AllReduce>("ncclAllReduce");
  }
  ~BareNccl() { find<int(void*)>("ncclCommDestroy")(comm_); }
  BareNccl(const BareNccl&) = delete;
  BareNccl& operator=(const BareNccl&) = delete;

  void all_reduce(Buffer data, StreamRef stream) {
    check(all_reduce_(data.data, data.data, data.bytes / sizeof(float), kFloat, kSum, comm_, stream.stream),
          "ncclAllReduce");
  }

 private:
  using AllReduce = int(const void*, void*, std::size_t, int, int, void*, void*);

  template <class F>
  F* find(const char* name) {
    static void* const kLibrary = ::dlopen("libnccl.so.2", RTLD_NOW);  // the one that sinew has loaded
    auto* function = kLibrary == nullptr ? nullptr : reinterpret_cast<F*>(::dlsym(kLibrary, name));
    if (function == nullptr) throw Error(Code::Unavailable, fmt::format("libnccl.so.2 with {}: not here", name));
    return function;
  }
  static void check(int result, const char* function) {
    if (result != 0) throw Error(Code::System, fmt::format("{}: error {}", function, result));
  }

  cuda::Runtime& runtime_;
  const int device_;
  void* comm_ = nullptr;
  AllReduce* all_reduce_ = nullptr;
};

double microseconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

/// What is timed: several calls in a row on the stream, and the wait for the end of the last one.
struct Ways {
  std::function<void()> bare;
  std::function<void()> sinew;
};

void measure(World& world, const char* what, std::size_t bytes, int calls, int rounds, const Ways& ways) {
  std::vector<double> bare;
  std::vector<double> ours;
  std::vector<double> ratios;
  for (int r = -3; r < rounds; ++r) {
    world.communicator().barrier().get();
    const double a = microseconds(ways.bare) / calls;
    world.communicator().barrier().get();
    const double b = microseconds(ways.sinew) / calls;
    if (r < 0) continue;
    bare.push_back(a);
    ours.push_back(b);
    ratios.push_back(b / a);
  }
  if (world.rank() != 0) return;
  std::puts(json_object({{"what", what},
                         {"ranks", world.size()},
                         {"bytes", bytes},
                         {"nccl_us", median(bare), 1},
                         {"sinew_us", median(ours), 1},
                         {"ratio", median(ratios), 3}})
                .c_str());
}

void run(std::size_t least, std::size_t most, int rounds) {
  cuda::Runtime runtime;
  WorldOptions options;
  const Launch launch = exchange_from_environment(options.config);
  const int device = launch.exchange.rank % runtime.device_count();
  if (launch.exchange.size > runtime.device_count())
    ::setenv("NCCL_HOSTID", fmt::format("host{}", launch.exchange.rank).c_str(), 1);
  options.config.transports = {"shm", "nccl"};
  options.device = device;
  options.secret = launch.secret;
  World world = World::create(launch.exchange, std::move(options));
  BareNccl bare(world, runtime, device);
  const StreamRef stream = runtime.make_stream(device);
  CallOptions after{.after = stream};
  for (std::size_t bytes = least; bytes <= most; bytes *= 8) {
    const Buffer data = runtime.allocate(bytes, {MemoryKind::Device, device});
    const auto sinew_call = [&] {
      Work work = world.communicator().all_reduce(data, data, DType::F32, ReduceOp::Sum, after);
      work.order(stream);
    };
    const auto times = [&](int calls, const std::function<void()>& call) {
      return [&runtime, stream, calls, call] {
        for (int i = 0; i < calls; ++i) call();
        drain(runtime, stream);
      };
    };
    const auto bare_call = [&] { bare.all_reduce(data, stream); };
    const int several = bytes >= std::size_t{64} << 20 ? 3 : 20;
    measure(world, "one all_reduce", bytes, 1, rounds, {times(1, bare_call), times(1, sinew_call)});
    measure(world, "all_reduces in a row", bytes, several, rounds,
            {times(several, bare_call), times(several, sinew_call)});
    runtime.release(data);
  }
  const auto about = world.communicator().plan({.collective = Collective::AllReduce,
                                                .dtype = DType::F32,
                                                .place = {MemoryKind::Device, device},
                                                .count = most / sizeof(float)});
  if (world.rank() == 0) fmt::print(stderr, "{}\n", about.explain());
  runtime.release(stream);
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("measures all_reduce by NCCL through sinew and without it");
  std::string least = "8";
  std::string most = "64MiB";
  int rounds = 51;
  command.option("-b", least, "smallest size");
  command.option("-e", most, "largest size");
  command.option("--rounds", rounds, "of which medians are taken", bench::kPositive);
  command.parse(argc, argv);
  try {
    run(std::max<std::size_t>(parse_bytes(least), sizeof(float)), parse_bytes(most), rounds);
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "device_nccl: {}\n", e.what());
    return 2;
  }
}

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/json_object.hpp>

// Latencies of a World of several hosts: of an all-reduce of 8 bytes beside one message between the first ranks of the
// first two hosts, while the others sleep; and of a barrier beside a long message between the same two. One line of
// JSON from rank 0. bench/scorecard/hosts_latency.sh judges.
namespace {

using namespace sinew;
using Timer = std::chrono::steady_clock;

constexpr int kTurns = 41;
constexpr int kCallsPerTurn = 20;
constexpr std::size_t kLongBytes = 64 << 20;

double seconds_since(Timer::time_point start) { return std::chrono::duration<double>(Timer::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// The first rank of the second host; the world has two at least.
int other_leader(World& world) {
  const auto hosts = world.cluster().groups_by_host();
  if (hosts.size() < 2) throw Error(Code::InvalidArgument, "all ranks are on one host: expected ranks on two hosts");
  return hosts[1].front();
}

/// One all-reduce of 8 bytes.
double all_reduce_time(Communicator& all) {
  std::vector<double> times;
  std::array<double, 1> value = {1};
  for (int t = 0; t < kTurns; ++t) {
    all.barrier().get();
    const auto start = Timer::now();
    for (int c = 0; c < kCallsPerTurn; ++c) all.all_reduce(value, ReduceOp::Max).get();
    times.push_back(seconds_since(start) / kCallsPerTurn);
  }
  return median(std::move(times));
}

/// One way of 8 bytes between rank 0 and `other`; the rest wait in a barrier.
double one_way_time(Communicator& all, int other) {
  std::vector<double> times;
  std::array<double, 1> value = {1};
  for (int t = 0; t < kTurns; ++t) {
    all.barrier().get();
    const auto start = Timer::now();
    for (int c = 0; c < kCallsPerTurn; ++c) {
      if (all.rank() == 0) {
        all.send(value, other).get();
        all.recv(value, other).get();
      } else if (all.rank() == other) {
        all.recv(value, 0).get();
        all.send(value, 0).get();
      }
    }
    times.push_back(seconds_since(start) / kCallsPerTurn / 2);
  }
  return median(std::move(times));
}

struct Barriers {
  double usual_s = 0;  ///< median
  double worst_s = 0;
  double all_s = 0;
};

/// Barriers of the two, one after the other; with a long message from one to the other meanwhile, until it is there.
Barriers barriers(Communicator& pair, Communicator& beside, bool loaded) {
  std::vector<std::byte> data(loaded ? kLongBytes : 0);
  std::vector<double> times;
  const auto first = Timer::now();
  Work message = loaded && pair.rank() == 0 ? beside.send(ConstBuffer(data.data(), data.size()), 1)
                 : loaded                   ? beside.recv(Buffer(data.data(), data.size()), 0)
                                            : pair.barrier();
  std::array<int, 1> over = {0};
  while (over[0] == 0) {
    const auto start = Timer::now();
    pair.barrier().get();
    times.push_back(seconds_since(start));
    over[0] = loaded ? static_cast<int>(message.done()) : static_cast<int>(times.size() >= kTurns);
    pair.all_reduce(over, ReduceOp::Min).get();
  }
  message.get();
  const double all = seconds_since(first);
  const double worst = *std::ranges::max_element(times);
  return {median(std::move(times)), worst, all};
}

}  // namespace

int main() try {
  World world = World::from_environment();
  Communicator& all = world.communicator();
  const int other = other_leader(world);
  const double all_reduce = all_reduce_time(all);
  const double one_way = one_way_time(all, other);
  const bool leads = all.rank() == 0 || all.rank() == other;
  Communicator pair = all.split(leads ? 0 : 1);
  Barriers alone, loaded;
  if (leads) {
    Communicator beside = pair.split(0);
    alone = barriers(pair, beside, false);
    loaded = barriers(pair, beside, true);
  }
  all.barrier().get();
  if (all.rank() == 0) {
    std::puts(json_object({{"all_reduce_us", all_reduce * 1e6, 3},
                           {"one_way_us", one_way * 1e6, 3},
                           {"barrier_ms", alone.usual_s * 1e3, 3},
                           {"worst_loaded_barrier_ms", loaded.worst_s * 1e3, 3},
                           {"load_bytes_per_s", kLongBytes / loaded.all_s, 0}})
                  .c_str());
  }
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "between_hosts: %s\n", e.what());
  return 1;
}

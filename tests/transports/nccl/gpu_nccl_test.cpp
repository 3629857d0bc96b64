// NCCL as NVIDIA ships it, on the devices that are here. Where ranks outnumber them, each says that it is on a host of
// its own (NCCL_HOSTID), and NCCL's sockets carry what its links would: the same calls, not the same speed.
#include <signal.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "support/asked_in_child.hpp"
#include "support/collective_case.hpp"
#include "support/log_guard.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using std::chrono::seconds;
using DeviceBody = std::function<void(World&, const OnDevice&)>;

enum class Hosts : std::uint8_t { One, EachItsOwn };

void rank_on_device(const Exchange& exchange, Hosts hosts, Duration timeout, const DeviceBody& body) {
  if (hosts == Hosts::EachItsOwn) ::setenv("NCCL_HOSTID", fmt::format("host{}", exchange.rank).c_str(), 1);
  WorldOptions options = only(hosts == Hosts::One ? "shm,cuda_ipc,nccl" : "shm,nccl");
  options.config.timeout = timeout;
  World world = World::create(exchange, std::move(options));
  cuda::Runtime mine;
  const OnDevice where{mine, mine.make_stream(world.rank() % mine.device_count())};
  body(world, where);
  mine.release(where.stream);
}

void in_processes_on_device(int ranks, Hosts hosts, const DeviceBody& body) {
  run_as_processes(ranks, [&](const Exchange& e) { rank_on_device(e, hosts, seconds(60), body); });
}

TransportStatus nccl_of(const World& world) {
  const std::vector<TransportStatus> all = world.transports();
  return *std::ranges::find(all, "nccl", &TransportStatus::name);
}

CollectiveDesc all_reduce_of(std::uint64_t count, DType dtype = DType::F32) {
  return {.collective = Collective::AllReduce, .dtype = dtype, .place = {MemoryKind::Device, 0}, .count = count};
}
void require_sum(Communicator& among, const OnDevice& where, Buffer to, std::size_t count) {
  std::vector<std::int32_t> data(count, among.rank() + 1);
  where.runtime.copy_async(to, Buffer{reinterpret_cast<std::byte*>(data.data()), to.bytes}, where.stream);
  among.all_reduce(to, to, DType::I32, ReduceOp::Sum, {.after = where.stream}).get();
  const int sum = among.size() * (among.size() + 1) / 2;
  require(read<std::int32_t>(where, to) == std::vector<std::int32_t>(count, sum), "the sum over all ranks");
}
void require_sum(Communicator& among, const OnDevice& where) {
  constexpr std::size_t kCount = 1000;
  const Buffer b = where.runtime.allocate(kCount * 4, {MemoryKind::Device, where.stream.device});
  require_sum(among, where, b, kCount);
  where.runtime.release(b);
}

class GpuNccl : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    static const std::string obstacle = asked_in_child([] {
      const std::vector<Exchange> alone = thread_exchanges(1, seconds(10));
      const TransportStatus nccl = nccl_of(World::create(alone.front()));
      return nccl.ok ? std::string() : nccl.reason;
    });
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    static const int devices = std::stoi(asked_in_child([] { return std::to_string(cuda::Runtime().device_count()); }));
    if (devices < GetParam()) shared_.emplace(log::Level::Warning, "they take turns");
  }

 private:
  std::optional<ExpectLog> shared_;
};

TEST_P(GpuNccl, EveryCollectiveIsRight) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    std::string wrong;
    const bool exact = std::has_single_bit(static_cast<unsigned>(world.size()));
    for (const CollectiveCase& c : pairwise_cases(world.size(), 1 << 20)) {
      // NCCL multiplies by 1/P, rounded to the type, before it adds (docs/pitfalls.md). The next test allows for that.
      if (reduces(c.collective) && c.op == ReduceOp::Average && !is_integer(c.dtype) && !exact) continue;
      if (run_case(world.communicator(), c, ++salt, &where) != 0) wrong += "\n  " + c.to_string();
    }
    require(wrong.empty(), wrong);
  });
}

/// The bound of the error: NCCL rounds 1/P, each of P products and each of P - 1 sums once.
template <class Float>
void require_average(Communicator& among, const OnDevice& where, DType dtype) {
  constexpr std::size_t kCount = 16384;
  const auto value = [](std::size_t i, int rank) { return static_cast<Float>((i % 1021) + 1 + 7 * (rank + 1)); };
  std::vector<Float> mine(kCount);
  for (std::size_t i = 0; i < kCount; ++i) mine[i] = value(i, among.rank());
  const Buffer data = write(where, mine);
  among.all_reduce(data, data, dtype, ReduceOp::Average, {.after = where.stream}).get();
  const std::vector<Float> found = read<Float>(where, data);
  const double bound = 2.0 * among.size() * std::numeric_limits<Float>::epsilon();
  for (std::size_t i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int r = 0; r < among.size(); ++r) sum += value(i, r);
    const double expected = sum / among.size();
    require(std::abs(found[i] - expected) <= bound * expected, fmt::format("{} at {}, not {}", found[i], i, expected));
  }
  where.runtime.release(data);
}

TEST_P(GpuNccl, AveragesOfFloats_AreRightButForRounding) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    require_average<float>(world.communicator(), where, DType::F32);
    require_average<double>(world.communicator(), where, DType::F64);
  });
}

TEST_P(GpuNccl, IsTaken_AndSaysHow) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice&) {
    const std::string large = world.communicator().plan(all_reduce_of(1 << 20)).explain();
    require_part(large, "takes  nccl over nccl");
    require_part(large, "ncclAllReduce of NCCL 2.");
  });
}

TEST_P(GpuNccl, OrdersStreams_WithoutWaitingOnTheHost) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    constexpr std::size_t kCount = 5000;
    std::vector<std::int32_t> values(kCount, 2);
    const Buffer data = write(where, values);
    Work w = world.communicator().all_reduce(data, data, DType::I32, ReduceOp::Sum, {.after = where.stream});
    w.order(where.stream);
    require(read<std::int32_t>(where, data) == std::vector<std::int32_t>(kCount, 2 * world.size()), "the sum");
    w.get();
    where.runtime.release(data);
  });
}

TEST_P(GpuNccl, KnowsItsMemory) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    const Memory memory = all.allocate(1 << 20);
    require(memory.known_as().find("NCCL 2.") != std::string::npos, memory.known_as());
    require_sum(all, where, memory.buffer(), memory.buffer().bytes / 4);
    require_sum(all, where);
  });
}

TEST_P(GpuNccl, Splits) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    Communicator again = world.communicator().split(0, -world.rank());
    require_sum(again, where);
    require_part(again.plan(all_reduce_of(1 << 20)).explain(), "ncclCommSplit");
    Communicator odd = world.communicator().split(world.rank() % 2);
    require_sum(odd, where);
    require_sum(again, where);
  });
}

TEST_P(GpuNccl, EndsWhatIsInFlight_WhenItIsAborted) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0);
    require_sum(part, where);
    world.communicator().barrier().get();  // what others have not seen the end of would be aborted, too
    part.abort("enough");
    const Buffer b = where.runtime.allocate(4096, {MemoryKind::Device, where.stream.device});
    const Status end = part.all_reduce(b, b, DType::F32).wait();
    require(end.code() == Code::Aborted, std::string(name_of(end.code())));
    require_sum(world.communicator(), where);
    where.runtime.release(b);
  });
}

TEST_P(GpuNccl, LeavesSharedDevicesToOthers_AndSaysWhy) {
  in_processes_on_device(GetParam(), Hosts::One, [](World& world, const OnDevice& where) {
    require_sum(world.communicator(), where);
    if (where.runtime.device_count() >= world.size()) return;
    const std::string plan = world.communicator().plan(all_reduce_of(1000)).explain();
    require_part(plan, "share the device");
    require_part(plan, "processes take turns on a device");
  });
}

/// NCCL itself would wait for ever.
TEST_P(GpuNccl, NamesARankThatDied) {
  const int last = GetParam() - 1;
  const auto ends = fork_ranks(GetParam(), [last](const Exchange& e) {
    rank_on_device(e, Hosts::EachItsOwn, seconds(20), [last](World& world, const OnDevice& where) {
      require_sum(world.communicator(), where);
      if (world.rank() == last) ::raise(SIGKILL);
      const Buffer b = where.runtime.allocate(1 << 20, {MemoryKind::Device, where.stream.device});
      const Status end = world.communicator().all_reduce(b, b, DType::F32).wait(Deadline::after(seconds(50)));
      require(end.code() == Code::PeerLost && end.rank() == last,
              fmt::format("{}: {}", name_of(end.code()), end.message()));
      where.runtime.release(b);
      World left = world.shrink();
      require_sum(left.communicator(), where);
    });
  });
  for (int r = 0; r < last; ++r) EXPECT_EQ(ends[static_cast<std::size_t>(r)], 0) << "rank " << r;
}

TEST_P(GpuNccl, EndsACallThatARankDoesNotMake) {
  in_processes_on_device(GetParam(), Hosts::EachItsOwn, [](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0);
    require_sum(part, where);
    if (world.rank() != 1) {
      const Buffer b = where.runtime.allocate(1 << 20, {MemoryKind::Device, where.stream.device});
      const Status end = part.all_reduce(b, b, DType::F32, ReduceOp::Sum, {.deadline = Deadline::after(seconds(2))})
                             .wait(Deadline::after(seconds(50)));
      require(!end.ok(), "it ended well");
      require_part(std::string(end.message()), "rank 1");
      where.runtime.release(b);
    }
    require_sum(world.communicator(), where);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuNccl, testing::Values(2, 3, 4));

}  // namespace
}  // namespace sinew::test

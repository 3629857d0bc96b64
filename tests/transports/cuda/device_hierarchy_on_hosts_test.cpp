// Hierarchical calls on the memory of CUDA devices. Hosts are host identities of this machine, joined by tcp.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "support/asked_in_child.hpp"
#include "support/collective_case.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using HostBody = std::function<void(World&, const OnDevice&)>;

/// Each rank of a host uses another device, as far as there are enough.
void rank_on_host(const Exchange& exchange, int per_host, Threads threads, const HostBody& body) {
  WorldOptions options = only("shm,tcp,cuda_ipc");
  options.threads = threads;
  options.config.host_id = fmt::format("host {}", exchange.rank / per_host);
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"})
    options.config.tune.push_back(std::string(collective) + ":0-:device_hierarchy@cuda_ipc");  // as tune writes rules
  World world = World::create(exchange, std::move(options));
  cuda::Runtime mine;
  const OnDevice where{mine, mine.make_stream(world.rank() % per_host % mine.device_count())};
  body(world, where);
  mine.release(where.stream);
}

class OnHosts : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string obstacle = asked_in_child([] {
      const Availability driver = cuda::available();
      return driver.ok ? cuda::kernels_available().reason : driver.reason;
    });
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }
  static void on_hosts(int hosts, int per_host, const HostBody& body, Threads threads = Threads::Single) {
    run_as_processes(hosts * per_host, [&](const Exchange& e) { rank_on_host(e, per_host, threads, body); });
  }
};

using DeviceHierarchyOfProcesses = OnHosts;

CollectiveDesc call_of(Collective collective, std::uint64_t count) {
  return {.collective = collective, .dtype = DType::F32, .place = {MemoryKind::Device, 0}, .count = count};
}

void run_all_cases(World& world, const OnDevice& where) {
  std::uint32_t salt = 0;
  for (const CollectiveCase& c : pairwise_cases(world.size(), 1 << 18)) {
    if (reduces(c.collective) && c.op == ReduceOp::Average && is_integer(c.dtype)) continue;  // the rule leaves nothing
    require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
  }
}

TEST_F(DeviceHierarchyOfProcesses, EveryCollectiveIsRight) {
  on_hosts(2, 2, run_all_cases);
  on_hosts(2, 3, run_all_cases);
  on_hosts(3, 2, run_all_cases);
}

TEST_F(DeviceHierarchyOfProcesses, LongCallsAreRight_WithThreads) {
  on_hosts(
      2, 2,
      [](World& world, const OnDevice& where) {
        std::uint32_t salt = 0;
        for (const Collective k : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                   Collective::AllToAll, Collective::Broadcast}) {
          const CollectiveCase c{
              .collective = k, .count = k == Collective::AllReduce ? 9'000'003U : 700'001U, .root = 1};
          require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
        }
      },
      Threads::Multiple);
}

TEST_F(DeviceHierarchyOfProcesses, IsTaken_AndSaysHow) {
  on_hosts(2, 2, [](World& world, const OnDevice&) {
    const std::string plan = world.communicator().plan(call_of(Collective::AllReduce, 1 << 20)).explain();
    require_part(plan, "takes  device_hierarchy over cuda_ipc");
    require_part(plan, "within each host");
    require_part(plan, "between the 2 hosts");
    const std::string averages = world.communicator().plan(call_of(Collective::Reduce, 1 << 20)).explain();
    require_part(averages, "device_hierarchy has no reduce");
  });
}

TEST_F(DeviceHierarchyOfProcesses, ServesSplits_OfSeveralHosts) {
  on_hosts(2, 4, [](World& world, const OnDevice& where) {
    Communicator half = world.communicator().split(world.rank() % 2, 0, {}, "half");
    Communicator host = world.communicator().split(world.rank() / 4, 0, {}, "host");
    require_part(half.plan(call_of(Collective::AllReduce, 1 << 20)).explain(), "takes  device_hierarchy");
    std::uint32_t salt = 0;
    for (const Collective k : {Collective::AllReduce, Collective::AllToAll, Collective::AllGather}) {
      const CollectiveCase c{.collective = k, .count = 30'001};
      require(run_case(half, c, ++salt, &where) == 0, "half: " + c.to_string());
      require(run_case(host, c, ++salt, &where) == 0, "host: " + c.to_string());
    }
  });
}

TEST_F(DeviceHierarchyOfProcesses, EndsMismatched_NamingTheRank) {
  on_hosts(2, 2, [](World& world, const OnDevice& where) {
    std::vector<float> values(50'000, 1);
    const Buffer data = write(where, values);
    const std::size_t bytes = world.rank() == 3 ? 100'000 : 200'000;
    Work w = world.communicator().all_reduce(data.part(0, bytes), data.part(0, bytes), DType::F32, ReduceOp::Sum,
                                             {.after = where.stream});
    const Status end = w.wait();
    require(end.code() == Code::Mismatch, fmt::format("{}: {}", name_of(end.code()), end.message()));
    require_part(std::string(end.message()), "all_reduce");
    where.runtime.release(data);
  });
}

/// The calls of the parts are equal then, and only the history of the group's calls tells them apart. Calls that were
/// made behind the failed one end, too.
TEST_F(DeviceHierarchyOfProcesses, EndsMismatched_WhereOnlyTheGroupsCallsDiffer) {
  on_hosts(2, 2, [](World& world, const OnDevice& where) {
    std::vector<float> values(50'000, 1);
    const Buffer data = write(where, values);
    std::vector<Work> works;
    const int root = world.rank() < 2 ? 1 : 0;
    works.push_back(world.communicator().broadcast(data, DType::F32, root, {.after = where.stream}));
    for (int i = 0; i < 2; ++i)
      works.push_back(world.communicator().all_reduce(data, data, DType::F32, ReduceOp::Sum, {.after = where.stream}));
    for (Work& w : works) {
      const Status end = w.wait();
      require(end.code() == Code::Mismatch, fmt::format("{}: {}", name_of(end.code()), end.message()));
    }
    where.runtime.release(data);
  });
}

TEST_F(DeviceHierarchyOfProcesses, LeavesOutHostsOfUnequalSize_AndKeepsHostCalls) {
  run_as_processes(5, [](const Exchange& e) {
    rank_on_host(e, 3, Threads::Single, [](World& world, const OnDevice&) {
      Communicator part = world.communicator().split(0);
      require_part(part.plan({.collective = Collective::AllReduce, .dtype = DType::F32, .count = 100}).explain(),
                   "takes");
      const std::string said = complaint([&] { static_cast<void>(part.plan(call_of(Collective::AllReduce, 1000))); });
      require_part(said, "its hosts have 2 to 3 of the ranks");
    });
  });
}

/// The others end by themselves, with the name of the one that has died.
TEST_F(DeviceHierarchyOfProcesses, EndsPeerLost_WhenARankIsKilled) {
  const std::vector<int> ends = fork_ranks(4, [](const Exchange& exchange) {
    rank_on_host(exchange, 2, Threads::Single, [](World& world, const OnDevice& where) {
      std::vector<float> values(3'000'000, 1);
      const Buffer data = write(where, values);
      Status end;
      for (int call = 0; call < 1000 && end.ok(); ++call) {
        if (world.rank() == 2 && call == 5) ::raise(SIGKILL);
        end = world.communicator().all_reduce(data, data, DType::F32, ReduceOp::Max, {.after = where.stream}).wait();
      }
      require(end.code() == Code::PeerLost, fmt::format("{}: {}", name_of(end.code()), end.message()));
      require_part(std::string(end.message()), "rank 2");
      where.runtime.release(data);
    });
  });
  for (std::size_t r = 0; r < ends.size(); ++r) {
    if (r == 2) {
      EXPECT_TRUE(WIFSIGNALED(ends[r]));
    } else {
      EXPECT_TRUE(WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == 0) << "rank " << r << ": " << ends[r];
    }
  }
}

TEST_F(DeviceHierarchyOfProcesses, EndsAborted_OnAllRanks) {
  on_hosts(2, 2, [](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0);
    std::vector<float> values(100'000, 1);
    const Buffer data = write(where, values);
    if (world.rank() == 3) {
      world.communicator().barrier().get();
      part.abort("enough");
    } else {
      Work w = part.all_reduce(data, data, DType::F32, ReduceOp::Sum, {.after = where.stream});
      world.communicator().barrier().get();
      const Status end = w.wait();
      require(end.code() == Code::Aborted, fmt::format("{}: {}", name_of(end.code()), end.message()));
      require_part(std::string(end.message()), "enough");
    }
    const CollectiveCase c{.count = 1000};
    require(run_case(world.communicator(), c, 1, &where) == 0, "the other communicator");
    where.runtime.release(data);
  });
}

}  // namespace
}  // namespace sinew::test

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "support/asked_in_child.hpp"
#include "support/collective_case.hpp"
#include "support/log_guard.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using DeviceBody = std::function<void(World&, const OnDevice&)>;

enum class Way : std::uint8_t { Selected, CudaIpc };

/// A rank of a world whose device memory goes through cuda_ipc where that has the collective, or as is selected.
void rank_on_device(const Exchange& exchange, Way way, const DeviceBody& body) {
  WorldOptions options = only("shm,cuda_ipc");
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"}) {
    if (way == Way::CudaIpc) options.config.tune.push_back(std::string(collective) + ":0-:cuda_ipc");
  }
  World world = World::create(exchange, std::move(options));
  cuda::Runtime mine;
  const OnDevice where{mine, mine.make_stream(world.rank() % mine.device_count())};
  body(world, where);
  mine.release(where.stream);
}

CollectiveDesc desc_of(Collective collective, std::uint64_t count) {
  return {.collective = collective, .dtype = DType::F32, .place = {MemoryKind::Device, 0}, .count = count};
}

struct Ranks {
  int count;
  void (*run)(int ranks, const RankBody& body);
};
void as_threads(int ranks, const RankBody& body) { run_as_threads(ranks, body); }

class CudaIpc : public testing::TestWithParam<Ranks> {
 protected:
  void SetUp() override {
    static const std::string obstacle = asked_in_child([] {
      const Availability driver = cuda::available();
      return driver.ok ? cuda::kernels_available().reason : driver.reason;
    });
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    static const int devices = std::stoi(asked_in_child([] { return std::to_string(cuda::Runtime().device_count()); }));
    shares_ = devices < GetParam().count;
    if (shares_) shared_.emplace(log::Level::Warning, "they take turns");
  }
  void on_devices(const DeviceBody& body, Way way = Way::CudaIpc) {
    GetParam().run(GetParam().count, [&](const Exchange& e) { rank_on_device(e, way, body); });
  }
  bool processes_take_turns() const { return shares_ && GetParam().run == run_as_processes; }

 private:
  bool shares_ = false;
  std::optional<ExpectLog> shared_;
};

TEST_P(CudaIpc, EveryCollectiveIsRight) {
  on_devices([](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : pairwise_cases(world.size(), 1 << 20)) {
      require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
    }
  });
}

/// Between threads and between processes, from the middle of an allocation, and again from memory that was freed.
TEST_P(CudaIpc, CarriesLongMessages) {
  on_devices([](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    constexpr std::size_t kCount = 1'000'003;
    const int to = (world.rank() + 1) % world.size();
    const int from = (world.rank() + world.size() - 1) % world.size();
    for (std::uint32_t turn = 0; turn < 3; ++turn) {
      std::vector<std::uint32_t> mine(kCount + 64, 100 * turn + static_cast<std::uint32_t>(world.rank()));
      std::vector<std::uint32_t> nothing(kCount);
      const Buffer out = write(where, mine);
      const Buffer in = write(where, nothing);
      all.sendrecv(out.part(256, 4 * kCount), to, in, from, 1, 1, {.after = where.stream}).get();
      const std::vector<std::uint32_t> expected(kCount, 100 * turn + static_cast<std::uint32_t>(from));
      require(read<std::uint32_t>(where, in) == expected, "the message");
      where.runtime.release(in);
      where.runtime.release(out);
    }
  });
}

TEST_P(CudaIpc, CutsLongBuffersIntoPieces) {
  on_devices([](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const Collective k : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                               Collective::AllToAll, Collective::Broadcast}) {
      const CollectiveCase c{.collective = k, .count = 4'300'003, .root = 1};
      require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
    }
  });
}

TEST_P(CudaIpc, IsTaken_AndSaysHow) {
  const auto body = [turns = processes_take_turns()](World& world, const OnDevice&) {
    const std::string small = world.communicator().plan(desc_of(Collective::AllReduce, 1000)).explain();
    require((small.find("takes  cuda_ipc over cuda_ipc") != std::string::npos) != turns, small);
    require((small.find("processes take turns on a device") != std::string::npos) == turns, small);
    require(small.find("one-shot, 1 fragment") != std::string::npos, small);
    const std::string large = world.communicator().plan(desc_of(Collective::AllReduce, 1 << 20)).explain();
    require(large.find(world.size() > 2 ? "two-shot" : "one-shot") != std::string::npos, large);
    require(large.find("staged over shm") != std::string::npos, large);
  };
  on_devices(body, Way::Selected);
}

TEST_P(CudaIpc, IsTaken_WhereARuleSaysSo) {
  on_devices([](World& world, const OnDevice&) {
    const std::string small = world.communicator().plan(desc_of(Collective::AllReduce, 1000)).explain();
    require(small.find("takes  cuda_ipc over cuda_ipc") != std::string::npos, small);
    CollectiveDesc on_host = desc_of(Collective::AllReduce, 1000);
    on_host.place = {};
    const std::string host = world.communicator().plan(on_host).explain();
    require(host.find("takes  shm over shm") != std::string::npos, host);
  });
}

TEST_P(CudaIpc, OrdersStreams_WithoutWaitingOnTheHost) {
  on_devices([](World& world, const OnDevice& where) {
    constexpr std::size_t kCount = 5000;
    const auto device = where.stream.device;
    const Buffer pinned = where.runtime.allocate(kCount * 4, {MemoryKind::PinnedHost, device});
    const Buffer data = where.runtime.allocate(kCount * 4, {MemoryKind::Device, device});
    auto* values = reinterpret_cast<std::int32_t*>(pinned.data);
    std::fill(values, values + kCount, 2);
    where.runtime.copy_async(data, pinned, where.stream);
    Work w = world.communicator().all_reduce(data, data, DType::I32, ReduceOp::Sum, {.after = where.stream});
    w.order(where.stream);
    where.runtime.copy_async(pinned, data, where.stream);
    drain(where.runtime, where.stream);
    require(values[0] == 2 * world.size() && values[kCount - 1] == 2 * world.size(), "the sum");
    w.get();
    where.runtime.release(data);
    where.runtime.release(pinned);
  });
}

/// Whoever has its result may end its World at once: the others still read what it gave.
TEST_P(CudaIpc, CompletesCalls_OfAWorldThatOthersHaveLeft) {
  const auto body = [](const Exchange& exchange) {
    rank_on_device(exchange, Way::CudaIpc, [](World& world, const OnDevice& where) {
      constexpr std::size_t kCount = 1000;
      Communicator& all = world.communicator();
      std::vector<std::int32_t> ones(kCount, 1);
      const Buffer data = write(where, ones);
      world.communicator().barrier().get();
      const bool late = world.rank() == world.size() - 1;
      // Others finish the call and end while it has given its part and makes no progress.
      if (!late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      Work w = all.all_reduce(data, data, DType::I32, ReduceOp::Sum, {.after = where.stream});
      const Deadline until = Deadline::after(std::chrono::milliseconds(20));
      while (late && !until.passed()) world.poll();
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      w.get();
      require(read<std::int32_t>(where, data) == std::vector<std::int32_t>(kCount, world.size()), "the sum");
      where.runtime.release(data);
    });
  };
  GetParam().run(GetParam().count, body);
}

TEST_P(CudaIpc, EndsBothCalls_WhenTheyDiffer) {
  on_devices([](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0, world.rank());
    const Buffer data = where.runtime.allocate(4096, {MemoryKind::Device, where.stream.device});
    const std::size_t bytes = world.rank() == 1 ? 2048 : 4096;
    Work w = part.all_reduce(data.part(0, bytes), data.part(0, bytes), DType::F32);
    const Status end = w.wait();
    require(end.code() == Code::Mismatch, std::string(name_of(end.code())) + ": " + std::string(end.message()));
    const std::string text(end.message());
    require(text.find("count 1024") != std::string::npos && text.find("count 512") != std::string::npos, text);
    where.runtime.release(data);
  });
}

std::string name_of_ranks(const testing::TestParamInfo<Ranks>& info) { return std::to_string(info.param.count); }

// In this order: a driver does not survive a fork, and threads start it in this process.
INSTANTIATE_TEST_SUITE_P(Processes, CudaIpc, testing::Values(Ranks{2, run_as_processes}, Ranks{3, run_as_processes}),
                         name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Threads, CudaIpc, testing::Values(Ranks{4, as_threads}), name_of_ranks);

}  // namespace
}  // namespace sinew::test

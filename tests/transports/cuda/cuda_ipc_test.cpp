#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "support/collective_case.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using DeviceBody = std::function<void(World&, const OnDevice&)>;

/// A rank of a world whose device memory goes through cuda_ipc.
void rank_on_device(const Exchange& exchange, const DeviceBody& body) {
  WorldOptions options = only("shm,cuda_ipc");
  World world = World::create(exchange, std::move(options));
  cuda::Runtime mine;
  const OnDevice where{mine, mine.make_stream(world.rank() % mine.device_count())};
  body(world, where);
  world.communicator().barrier().get();
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
    // Asked in a process of its own: a driver that was started here could not be used by ranks that fork off.
    const auto ends = fork_ranks(1, [](const Exchange&) {
      if (!cuda::available().ok || !cuda::kernels_available().ok) throw Error(Code::Unavailable, "");
    });
    if (ends.front() != 0) GTEST_SKIP() << "no CUDA driver, or no kernels in this build";
  }
  void on_devices(const DeviceBody& body) {
    GetParam().run(GetParam().count, [&](const Exchange& e) { rank_on_device(e, body); });
  }
};

TEST_P(CudaIpc, EveryCollectiveIsRight) {
  on_devices([](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : pairwise_cases(world.size(), 1 << 20)) {
      require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
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
  on_devices([](World& world, const OnDevice&) {
    const std::string small = world.communicator().plan(desc_of(Collective::AllReduce, 1000)).explain();
    require(small.find("takes  cuda_ipc over cuda_ipc") != std::string::npos, small);
    require(small.find("one-shot, 1 piece") != std::string::npos, small);
    const std::string large = world.communicator().plan(desc_of(Collective::AllReduce, 1 << 20)).explain();
    require(large.find(world.size() > 2 ? "two-shot" : "one-shot") != std::string::npos, large);
    require(large.find("staged over shm") != std::string::npos, large);
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
    const auto event = where.runtime.record(where.stream);
    while (!where.runtime.query(event)) std::this_thread::yield();
    where.runtime.release(event);
    require(values[0] == 2 * world.size() && values[kCount - 1] == 2 * world.size(), "the sum");
    w.get();
    where.runtime.release(data);
    where.runtime.release(pinned);
  });
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

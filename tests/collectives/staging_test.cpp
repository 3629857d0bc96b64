#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/runtime/engine.hpp>
#include <sinew/core/work.hpp>

#include "fakes/fake_device.hpp"
#include "fakes/fake_graph.hpp"
#include "support/collective_case.hpp"
#include "support/fake_devices.hpp"
#include "support/log_guard.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/sanitized.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

class Staging : public testing::TestWithParam<int> {};

TEST_P(Staging, EveryCollectiveIsRight_OnDeviceMemory) {
  on_devices(GetParam(), "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : pairwise_cases(all.size(), 1 << 20)) {
      require(run_case(all, c, ++salt, &where) == 0, c.to_string());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Staging, testing::Values(1, 2, 3, 4));

TEST(Staging, CutsLongBuffersIntoPieces_OverAnyTransport) {
  for (const char* transport : {"inproc", "tcp"}) {
    on_devices(3, transport, [](World& world, const OnDevice& where) {
      std::uint32_t salt = 0;
      for (const Collective k :
           {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll,
            Collective::Broadcast, Collective::Reduce, Collective::Gather, Collective::Scatter}) {
        for (const bool in_place : {false, true}) {
          // A sanitizer build runs each collective once: half of them in place.
          if (test::kSanitized && in_place == (static_cast<int>(k) % 2 == 0)) continue;
          const CollectiveCase c{.collective = k, .count = 1'700'003, .in_place = in_place, .root = 1};
          require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
        }
      }
    });
  }
}

TEST(Staging, SaysSoInThePlan) {
  on_devices(2, "shm", [](World& world, const OnDevice&) {
    const CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::F32, .place = {MemoryKind::Device, 0}, .count = 4 << 20};
    const std::string text = world.communicator().plan(desc).explain();
    require(text.find("takes  staged over shm") != std::string::npos, text);
    require(text.find("through pinned host memory, 8 x 2MiB: ") != std::string::npos, text);
    require(text.find("the buffers are device memory") != std::string::npos, text);
  });
}

/// Each byte that a rank gives is copied to the host once, and each byte that it takes is copied back once. The plan
/// says in how many pieces.
TEST(Staging, CopiesAsManyBytesAsPlanned) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    auto& device = dynamic_cast<fake::Device&>(where.runtime);
    for (const Collective collective :
         {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
      const std::uint64_t count = 700'000;
      const Blocks blocks = blocks_of(collective, 3);
      const CollectiveDesc desc{
          .collective = collective, .dtype = DType::F32, .place = {MemoryKind::Device, world.rank()}, .count = count};
      const std::uint64_t longer = std::max(blocks.in, blocks.out) * count * 4;
      const Plan plan = all.plan(desc);
      const std::uint64_t least = (longer - 1) / (2 << 20) + 1;  // pieces of 2 MiB
      require(plan.chosen().method.find(fmt::format("{} x ", least)) != std::string::npos, plan.chosen().method);
      std::vector<float> given(blocks.in * count, 1);
      std::vector<float> taken(blocks.out * count);
      const Buffer in = write(where, given);
      const Buffer out = write(where, taken);
      const fake::Device::Copied before = device.copied();
      all.run(plan, in, out, {.after = where.stream}).get();
      require(device.copied().to_host - before.to_host == in.bytes, "to the host");
      require(device.copied().from_host - before.from_host == out.bytes, "back to the device");
      where.runtime.release(in);
      where.runtime.release(out);
    }
  });
}

TEST(Staging, KeepsCallsInOrder_WhenHostCallsComeBetween) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    constexpr std::size_t kCount = 1'500'000;
    std::vector<std::int32_t> device_data(kCount, world.rank() + 1);
    std::vector<std::int32_t> host_data(1000, 10 * (world.rank() + 1));
    const Buffer on_device = write(where, device_data);
    std::vector<Work> works;
    for (int turn = 0; turn < 3; ++turn) {
      works.push_back(all.all_reduce(on_device, on_device, DType::I32, ReduceOp::Sum, {.after = where.stream}));
      works.push_back(all.all_reduce(host_data));
      works.push_back(all.barrier());
    }
    for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
    require(read<std::int32_t>(where, on_device) == std::vector<std::int32_t>(kCount, 6 * 3 * 3), "device data");
    require(host_data == std::vector<std::int32_t>(1000, 60 * 3 * 3), "host data");
    where.runtime.release(on_device);
  });
}

TEST(Staging, CarriesMessagesInOrder_BetweenAnyMemories) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    constexpr std::size_t kCount = 300'001;
    std::vector<std::uint32_t> counting(kCount);
    std::iota(counting.begin(), counting.end(), 0U);
    if (world.rank() == 0) {
      const Buffer device_data = write(where, counting);
      std::vector<std::uint32_t> second(8, 7);
      Work first = all.send(device_data, 1, 5, {.after = where.stream});
      Work after = all.send(second, 1, 5);
      first.get();
      after.get();
      where.runtime.release(device_data);
    } else {
      std::vector<std::uint32_t> host(kCount);
      std::vector<std::uint32_t> nothing(kCount, 1);
      const Buffer device_data = write(where, nothing);
      all.recv(host, 0, 5).get();
      require(host == counting, "what was sent from a device");
      // Longer than the message: the rest stays.
      all.recv(device_data, 0, 5, {.after = where.stream}).get();
      const auto got = read<std::uint32_t>(where, device_data);
      require(got[7] == 7 && got[8] == 1, "what was sent from the host");
      where.runtime.release(device_data);
    }
  });
}

TEST(Staging, WaitsForTheStream_ThatTheCallComesAfter) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    std::vector<std::int32_t> data(1000, 1);
    const Buffer b = write(where, data);
    auto open = std::make_shared<std::atomic<bool>>(false);
    fake::enqueue(where.stream.stream, [open] { return open->load(); });
    std::vector<std::int32_t> late(1000, 5);
    where.runtime.copy_async(b, Buffer{reinterpret_cast<std::byte*>(late.data()), 4000}, where.stream);
    Work w = world.communicator().all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
    require(w.wait(Deadline::after(std::chrono::milliseconds(20))).code() == Code::Pending, "it must not begin");
    open->store(true);
    w.get();
    require(read<std::int32_t>(where, b) == std::vector<std::int32_t>(1000, 10), "the late data");
    where.runtime.release(b);
  });
}

TEST(Staging, EndsTheCallOnAllRanks_WhenADeviceFails) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    std::vector<std::int32_t> data(1000, 1);
    const Buffer b = write(where, data);
    Work w = world.communicator().all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
    if (world.rank() == 1) static_cast<fake::Device&>(where.runtime).fail_next("an illegal address was met");
    const Status end = w.wait();
    require(end.code() == Code::System, std::string(name_of(end.code())));
    require(std::string(end.message()).find("an illegal address was met") != std::string::npos,
            std::string(end.message()));
    read<std::int32_t>(where, b);  // the stream has run out
    where.runtime.release(b);
  });
}

TEST(Staging, EndsTheCallOnAllRanks_WhenADeviceFailsBeforeItBegins) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    const Buffer b = where.runtime.allocate(4000, {MemoryKind::Device, where.stream.device});
    if (world.rank() == 1) static_cast<fake::Device&>(where.runtime).fail_next("out of pinned memory");
    const Status end = world.communicator().all_reduce(b, b, DType::I32).wait();
    require(end.code() == Code::System, std::string(name_of(end.code())));
    require(std::string(end.message()).find("out of pinned memory") != std::string::npos, std::string(end.message()));
    where.runtime.release(b);
  });
}

TEST(Staging, EndsAMessageOnce_WhenADeviceFails_AndCarriesTheNext) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    std::vector<std::int32_t> data(1000, 3);
    const Buffer b = write(where, data);
    if (world.rank() == 0) {
      all.send(b, 1, 1, {.after = where.stream}).get();
      static_cast<fake::Device&>(where.runtime).fail_next("an illegal address was met");
      const Status end = all.send(b, 1, 1, {.after = where.stream}).wait();
      require(end.code() == Code::System, std::string(name_of(end.code())));
      all.send(b, 1, 1, {.after = where.stream}).get();
    } else {
      for (int i = 0; i < 2; ++i) all.recv(b, 0, 1, {.after = where.stream}).get();
      require(read<std::int32_t>(where, b) == data, "what was sent");
    }
    where.runtime.release(b);
  });
}

/// A host call behind a staged one, to a rank that nobody has spoken to yet: its caller has a Work already.
TEST(Staging, EndsTheCallOnAllRanks_WhenItCannotBeLaunchedInItsTurn) {
  run_as_threads(4, [](const Exchange& exchange) {
    fake::Device device(4);
    WorldOptions options = only("faulty");
    options.config.transport_path = {FAULTY_FOLDER};
    options.config.faults = "inproc,refuse@3/1";
    options.config.tune = {"all_reduce:0-:ring@faulty", "barrier:0-:dissemination@faulty"};
    options.device_runtime = &device;
    World world = World::create(exchange, std::move(options));
    const OnDevice where{device, device.make_stream(world.rank())};
    std::vector<std::int32_t> data(1000, 1);
    const Buffer b = write(where, data);
    world.communicator().all_reduce(b, b, DType::I32).get();  // with both neighbours
    Work staged = world.communicator().all_reduce(b, b, DType::I32);
    Work behind = world.communicator().barrier();
    const Status end = behind.wait();
    EXPECT_EQ(end.code(), Code::Unavailable) << end.message();
    EXPECT_NE(std::string(end.message()).find("connection 3 is refused"), std::string::npos) << end.message();
    static_cast<void>(staged.wait());  // rank 1 is through with it
    device.release(b);
    device.release(where.stream);
  });
}

/// Its event is of a runtime that goes with the World.
TEST(Work, MayOutliveTheDevicesOfItsWorld) {
  Engine engine(false);
  auto* slab = new CallSlab(engine, std::chrono::seconds(1), false);
  auto device = std::make_unique<fake::Device>();
  PendingCall& call = slab->open([](PendingCall&) {});
  call.mark.set(*device, device->record({nullptr, 0}));
  Work work(call);
  CallSlab::retire(slab);
  device.reset();
  EXPECT_EQ(work.wait().code(), Code::Aborted);
}

TEST(Staging, RefusesDeviceMemory_WhereThereIsNoDevice) {
  fake::Device none(0);
  WorldOptions options = only("shm");
  options.device_runtime = &none;
  on_threads(2, options, [](World& world) {
    const Buffer b{reinterpret_cast<std::byte*>(&world), 8, {MemoryKind::Device, 0}};
    const auto refused = [&](const auto& call) {
      try {
        call().get();
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string("was taken");
    };
    const std::string why = refused([&] { return world.communicator().all_reduce(b, b, DType::F64); });
    require(why.find("rank 0 has no device: its runtime sees none") != std::string::npos, why);
    const std::string sent = refused([&] { return world.communicator().send(b, 1 - world.rank()); });
    require(sent.find("its runtime sees none") != std::string::npos, sent);
    const Buffer host{reinterpret_cast<std::byte*>(&world), 8};
    const std::string mixed = refused([&] { return world.communicator().all_reduce(host, b, DType::F64); });
    require(mixed.find("in lies on the host, out on device 0; expected both") != std::string::npos, mixed);
  });
}

TEST(Staging, RefusesAnotherDevice_AndAStreamThatIsCaptured) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    Communicator& c = world.communicator();
    std::vector<double> ones(8, 1.0);
    const Buffer b = write(where, ones);
    Buffer elsewhere = b;
    elsewhere.place.device = 1 - world.rank();
    const auto refused = [](const auto& call) {
      try {
        call().get();
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string("was taken");
    };
    const std::string device = fmt::format("memory of device {}, expected device {}", 1 - world.rank(), world.rank());
    const std::string other = refused([&] { return c.all_reduce(elsewhere, elsewhere, DType::F64); });
    require(other.find(device) != std::string::npos, other);
    const std::string sent = refused([&] { return c.send(elsewhere, 1 - world.rank()); });
    require(sent.find(device) != std::string::npos, sent);
    auto& fake = static_cast<fake::Device&>(where.runtime);
    fake.begin_capture(where.stream);
    CallOptions options{.after = where.stream};
    const std::string captured = refused([&] { return c.all_reduce(b, b, DType::F64, ReduceOp::Sum, options); });
    for (const char* part : {"all_reduce(f64, sum, count 8, device memory, captured): nothing can run it",
                             "the host copies each piece, and a graph is replayed without the host",
                             "make the call before or after the capture"}) {
      require(captured.find(part) != std::string::npos, captured);
    }
    const std::string receive = refused([&] { return c.recv(b, 1 - world.rank(), 0, options); });
    require(receive.find("is being captured") != std::string::npos, receive);
    require(fake.end_capture(where.stream)->nodes.empty(), "what was refused left nothing in the graph");
    c.all_reduce(b, b, DType::F64, ReduceOp::Sum, options).get();
    const std::vector<double> sum = read<double>(where, b);
    require(sum == std::vector<double>(8, 2.0), "the call after those that were refused");
    where.runtime.release(b);
  });
}

TEST(PlainDeviceMemory, IsItsParents_InAForksChild) {
  fake::Device device(1);
  WorldOptions options = only("shm");
  options.device_runtime = &device;
  options.threads = Threads::Multiple;
  World world = World::create(exchange_alone(), options);
  std::optional<Memory> memory(world.communicator().allocate(4000));
  const pid_t child = ::fork();
  if (child == 0) {
    memory.reset();
    ::_exit(0);
  }
  int status = -1;
  const Deadline patience = Deadline::after(std::chrono::seconds(20));
  while (::waitpid(child, &status, WNOHANG) == 0 && !patience.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (status == -1) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  EXPECT_EQ(status, 0) << "it waits for a thread that it has not";
}

TEST(Staging, WarnsWhereRanksShareADevice) {
  ExpectLog shared(log::Level::Warning, "shares device 0 with rank");
  run_as_threads(2, [](const Exchange& exchange) {
    fake::Device device(1);
    WorldOptions options = only("inproc");
    options.device_runtime = &device;
    const World world = World::create(exchange, std::move(options));
  });
}

/// The control of all the others: the fake's memory cannot be touched by the host.
TEST(FakeDevice, FaultsOutsideCopies) {
  fake::Device device;
  const Buffer b = device.allocate(64, {MemoryKind::Device, 0});
  EXPECT_DEATH(b.data[0] = std::byte{1}, "");
  const StreamRef stream = device.make_stream(0);
  std::byte host[65]{};
  EXPECT_THROW(device.copy_async({host, 65}, ConstBuffer{b.data, 65}, stream), Error);
  device.release(stream);
  device.release(b);
}

}  // namespace
}  // namespace sinew::test

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>

#include "fakes/fake_device.hpp"
#include "fakes/fake_nccl.hpp"
#include "support/collective_case.hpp"
#include "support/log_guard.hpp"
#include "support/on_device.hpp"
#include "support/worlds.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::test {
namespace {

const Place kFirstDevice{MemoryKind::Device, 0};

std::string explain(World& world, const CollectiveDesc& desc) { return world.communicator().plan(desc).explain(); }
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class NcclRanks : public testing::TestWithParam<int> {};

TEST_P(NcclRanks, EveryCollectiveIsRight_OnDeviceMemory) {
  on_nccl(GetParam(), [](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : pairwise_cases(world.size(), 1 << 20)) {
      require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
    }
  });
}

TEST_P(NcclRanks, EveryCollectiveIsRight_WithTheOldestVersion) {
  fake_nccl_inject(kFakeNcclVersion, 0, 21800);
  on_nccl(GetParam(), [](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : pairwise_cases(world.size(), 1 << 16)) {
      require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclRanks, testing::Values(1, 2, 3, 4));

TEST(Nccl, SaysSoInThePlan) {
  on_nccl(2, [](World& world, const OnDevice&) {
    CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::F32, .place = kFirstDevice, .count = 1 << 20};
    const std::string taken = explain(world, desc);
    require(holds(taken, "takes  nccl over nccl") && holds(taken, "ncclAllReduce of NCCL 2.28.9"), taken);
    desc.place = {};
    require(holds(explain(world, desc), "the buffers are not device memory"), explain(world, desc));
    desc = {.collective = Collective::AllReduce, .dtype = DType::U8, .op = ReduceOp::BitXor, .place = kFirstDevice};
    require(holds(explain(world, desc), "NCCL has no bitwise operators"), explain(world, desc));
    desc = {.collective = Collective::AllReduce, .determinism = Determinism::Reproducible, .place = kFirstDevice};
    require(holds(explain(world, desc), "takes  nccl over nccl"), "integers have the same bits in any order");
    desc.dtype = DType::F32;
    require(holds(explain(world, desc), "NCCL promises no order of its sums"), explain(world, desc));
  });
}

TEST(Nccl, LeavesFloat8Sums_ToVersionsThatHaveThem) {
  fake_nccl_inject(kFakeNcclVersion, 0, 22304);
  on_nccl(2, [](World& world, const OnDevice&) {
    CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::F8E4M3, .place = kFirstDevice, .count = 64};
    require(holds(explain(world, desc), "found NCCL 2.23.4, f8e4m3 is computed from 2.24.0 on"), explain(world, desc));
    desc.collective = Collective::AllToAll;
    require(holds(explain(world, desc), "grouped ncclSend and ncclRecv of NCCL 2.23.4"), explain(world, desc));
  });
}

TEST(Nccl, LeavesFloat8Sums_ToDevicesThatHaveThem) {
  const auto body = [](World& world, const OnDevice& where) {
    CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::F8E5M2, .place = kFirstDevice, .count = 64};
    require(holds(explain(world, desc), "a device has compute capability 8.0, f8e5m2 is computed from 9.0 on"),
            explain(world, desc));
    desc.dtype = DType::F16;
    require(holds(explain(world, desc), "takes  nccl over nccl"), explain(world, desc));
    require(run_case(world.communicator(), {.dtype = DType::F8E5M2, .count = 64}, 1, &where) == 0, "the other way");
  };
  on_nccl(2, body, with_nccl(), {.compute_capability = 80});
}

TEST(Nccl, LeavesSharedDevices_ToOthers) {
  ExpectLog shared(log::Level::Warning, "they take turns");
  const auto body = [](World& world, const OnDevice& where) {
    const CollectiveDesc desc{.collective = Collective::AllReduce, .place = kFirstDevice, .count = 64};
    require(holds(explain(world, desc), "share the device fake:0: NCCL takes one rank per device"),
            explain(world, desc));
    require_sum(world.communicator(), where);
    Communicator apart = world.communicator().split(world.rank() / 2, world.rank());
    require(holds(apart.plan(desc).explain(), "takes  nccl over nccl"), apart.plan(desc).explain());
    require_sum(apart, where);
  };
  on_nccl(4, body, with_nccl(), {.count = 2});
}

TEST(Nccl, RunsAfterAStreamAndBeforeAnother_WithoutTheHost) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    std::vector<std::int32_t> early(5000, -1);
    const Buffer b = write(where, early);
    auto open = std::make_shared<std::atomic<bool>>(false);
    fake::enqueue(where.stream.stream, [open] { return open->load(); });
    std::vector<std::int32_t> late(5000, world.rank());
    where.runtime.copy_async(b, Buffer{reinterpret_cast<std::byte*>(late.data()), b.bytes}, where.stream);
    Work w = world.communicator().all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
    const OnDevice behind{where.runtime, where.runtime.make_stream(world.rank())};
    w.order(behind.stream);
    std::vector<std::int32_t> result(5000);
    where.runtime.copy_async({reinterpret_cast<std::byte*>(result.data()), b.bytes}, b, behind.stream);
    require(w.wait(Deadline::after(std::chrono::milliseconds(20))).code() == Code::Pending, "it must not begin");
    open->store(true);
    require(read<std::int32_t>(behind, b) == std::vector<std::int32_t>(5000, 3), "what is read later");
    require(result == std::vector<std::int32_t>(5000, 3), "what was ordered behind the call");
    w.get();
    where.runtime.release(behind.stream);
    where.runtime.release(b);
  });
}

/// The calls of one communicator go on while a kernel of another one does not end.
TEST(Nccl, CallsOfTwoCommunicatorsOverlap) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator second = all.split(0, all.rank());
    for (Communicator* c : {&all, &second}) require_sum(*c, where);
    inject_on(0, kFakeNcclLate, all);
    all.barrier().get();
    std::vector<std::int32_t> ones(3000, 1);
    const Buffer held = write(where, ones);
    Work long_one = all.all_reduce(held, held, DType::I32, ReduceOp::Sum, {.after = where.stream});
    for (int i = 0; i < 3; ++i) require_sum(second, where);
    require(!long_one.done(), "the first call has not ended");
    all.barrier().get();
    if (all.rank() == 0) fake_nccl_reset();
    long_one.get();
    require(read<std::int32_t>(where, held) == std::vector<std::int32_t>(3000, 2), "the sum of the held call");
    where.runtime.release(held);
  });
}

TEST(Nccl, AStreamsPriorityIsChosenBeforeItsFirstCall) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator second = world.communicator().split(0, world.rank());
    second.set_stream_priority(StreamPriority::High);
    require_sum(second, where);
    require(fake::last_priority() == StreamPriority::High, "the stream's priority");
    try {
      second.set_stream_priority(StreamPriority::Normal);
      require(false, "it was not refused");
    } catch (const Error& e) {
      require(e.code() == Code::InvalidArgument && holds(e.what(), "has made calls on device memory"), e.what());
    }
    world.communicator().barrier().get();
  });
}

TEST(Nccl, KeepsOneOrder_OverSeveralCommunicatorsWithCallsInFlight) {
  on_nccl(4, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator twins = all.split(all.rank() / 2, all.rank());
    Communicator again = all.split(0, -all.rank());
    std::vector<std::int64_t> ones(3000, 1);
    std::vector<Buffer> buffers;
    std::vector<Work> works;
    for (int turn = 0; turn < 12; ++turn) {
      for (Communicator* c : {&twins, &all, &again}) {
        buffers.push_back(write(where, ones));
        works.push_back(
            c->all_reduce(buffers.back(), buffers.back(), DType::I64, ReduceOp::Sum, {.after = where.stream}));
      }
    }
    for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::vector<std::int64_t> expected(3000, i % 3 == 0 ? 2 : 4);
      require(read<std::int64_t>(where, buffers[i]) == expected, "call " + std::to_string(i));
      where.runtime.release(buffers[i]);
    }
  });
}

TEST(Nccl, WorksWithAThreadOfItsOwn) {
  WorldOptions options = with_nccl();
  options.threads = Threads::Multiple;
  const auto body = [](World& world, const OnDevice& where) {
    for (int turn = 0; turn < 20; ++turn) require_sum(world.communicator(), where);
    Communicator second = world.communicator().split(0, -world.rank());
    for (int turn = 0; turn < 20; ++turn) require_sum(second, where);
  };
  on_nccl(3, body, options);
}

TEST(Nccl, DropsOperators_WhenFactorsNeverRepeat) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    std::vector<double> ones(10, 1.0);
    for (int step = 1; step <= 40; ++step) {
      const Buffer b = write(where, ones);
      const CallOptions options{.after = where.stream, .pre_multiply = static_cast<double>(step)};
      world.communicator().all_reduce(b, b, DType::F64, ReduceOp::PreMulSum, options).get();
      require(read<double>(where, b) == std::vector<double>(10, 2.0 * step), "the sum of what was multiplied");
      where.runtime.release(b);
    }
    require(fake_nccl_operators() <= 2 * 16, "operators that are kept");
  });
}

}  // namespace
}  // namespace sinew::test

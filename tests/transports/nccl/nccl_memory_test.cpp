// Memory that a communicator makes and NCCL knows.
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "fakes/fake_nccl.hpp"
#include "support/fake_devices.hpp"
#include "support/log_guard.hpp"
#include "support/on_device.hpp"
#include "support/worlds.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::test {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(std::int32_t);

/// All-reduce in memory that a communicator made, in place.
Status sum_in(Communicator& among, const Memory& memory, const OnDevice& where) {
  std::vector<std::int32_t> data(kCount, among.rank() + 1);
  const Buffer b = memory.buffer();
  where.runtime.copy_async(b, Buffer{reinterpret_cast<std::byte*>(data.data()), kBytes}, where.stream);
  Work w = among.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
  Status end = w.wait(Deadline::after(std::chrono::seconds(50)));
  const std::vector<std::int32_t> expected(kCount, among.size() * (among.size() + 1) / 2);
  require(read<std::int32_t>(where, b) == expected || !end.ok(), "the sum over all ranks");
  return end;
}

/// Why a rank got none.
std::string refusal(Communicator& among, std::size_t bytes, const CallOptions& options = {}) {
  try {
    return among.allocate(bytes, options).known_as();
  } catch (const Error& e) {
    return std::string(name_of(e.code())) + ": " + e.what();
  }
}

/// Version, ranks, what memory is, and how many registrations each allocation has.
class NcclMemory : public testing::TestWithParam<std::tuple<int, int>> {
 public:
  ~NcclMemory() override { fake_nccl_reset(); }
};

constexpr int kWithout = 21805;
constexpr int kWithRegistration = 22605;
constexpr int kWithWindows = 22707;

std::string known_as(int version) {
  if (version == kWithWindows) return "a window of NCCL 2.27.7";
  if (version == kWithRegistration)
    return "registered with NCCL 2.26.5: NCCL 2.26.5 has no ncclCommWindowRegister, which is there from 2.27.0 on";
  return "plain device memory: no transport here has any other; nccl: NCCL 2.18.5 has no ncclCommRegister, which is "
         "there from 2.19.0 on";
}

TEST_P(NcclMemory, IsWhatTheVersionHas_AndIsForgottenWhenItGoes) {
  const auto [version, ranks] = GetParam();
  fake_nccl_inject(kFakeNcclVersion, 0, version);
  on_nccl(ranks, [version = version](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    const int each = version == kWithout ? 0 : all.size();
    Memory kept = all.allocate(kBytes);
    {
      const Memory dropped = all.allocate(kBytes);
      require(dropped.known_as() == known_as(version), dropped.known_as());
      require(dropped.buffer().bytes == kBytes && dropped.buffer().place.kind == MemoryKind::Device, "its buffer");
      require(sum_in(all, kept, where).ok() && sum_in(all, dropped, where).ok(), "two sums");
      all.barrier().get();
      require(fake_nccl_registrations() == 2 * each, "two that are known");
      all.barrier().get();
    }
    require(sum_in(all, kept, where).ok(), "a sum while one goes");
    all.barrier().get();
    require(fake_nccl_registrations() == each && fake_nccl_allocations() == each, "one that is known");
    all.barrier().get();  // a rank that has gone knows none
  });
}

INSTANTIATE_TEST_SUITE_P(Of, NcclMemory,
                         testing::Combine(testing::Values(kWithout, kWithRegistration, kWithWindows),
                                          testing::Values(2, 3, 4)));

TEST(NcclMemoryOf, ACommunicator_OutlivesIt) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    std::optional<Memory> memory;
    {
      Communicator part = world.communicator().split(0, -world.rank());
      memory = part.allocate(kBytes);
      require(sum_in(part, *memory, where).ok(), "a sum of the part");
    }
    require(sum_in(world.communicator(), *memory, where).ok(), "memory like any other");
    memory.reset();
  });
}

TEST(NcclMemoryOf, ACommunicator_OutlivesItsFailure) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0, world.rank());
    const Memory memory = part.allocate(kBytes);
    require(sum_in(part, memory, where).ok(), "a sum of the part");
    inject_on(1, kFakeNcclAsyncError, world.communicator());
    require(sum_in(part, memory, where).code() == Code::System, "a planted error");
    require_part(refusal(part, kBytes), "a planted asynchronous error");
    require(sum_in(world.communicator(), memory, where).ok(), "memory like any other");
  });
}

TEST(NcclMemoryOf, ACommunicator_WorksWithAThreadOfItsOwn) {
  WorldOptions options = with_nccl();
  options.threads = Threads::Multiple;
  const auto body = [](World& world, const OnDevice& where) {
    for (int turn = 0; turn < 5; ++turn) {
      const Memory memory = world.communicator().allocate(kBytes);
      require(sum_in(world.communicator(), memory, where).ok(), "a sum");
    }
  };
  on_nccl(3, body, options);
}

TEST(NcclMemoryOf, NoBytes_IsNoMemory) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    require(world.communicator().allocate(0).buffer().data == nullptr, "nothing was asked for");
    require_sum(world.communicator(), where);
  });
}

TEST(NcclMemoryOf, DifferentSizes_IsRefusedOnAllRanks) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    require_part(refusal(world.communicator(), world.rank() == 2 ? kBytes + 1 : kBytes),
                 "rank 0 asks for 4000 bytes, rank 2 for 4001; expected the same on all ranks");
    require_sum(world.communicator(), where);
  });
}

TEST(NcclMemoryOf, ADeviceThatIsFull_IsToldToAllRanks) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    if (world.rank() == 1) fake_nccl_inject(kFakeNcclMemoryFails, 1, 1);
    require_part(refusal(world.communicator(), kBytes),
                 "Unavailable: allocate: 4000 bytes: rank 1: ncclMemAlloc: unhandled cuda error");
    const Memory next = world.communicator().allocate(kBytes);
    require(sum_in(world.communicator(), next, where).ok(), "a sum");
  });
}

class NcclRegistering : public testing::TestWithParam<std::tuple<int, const char*>> {
 public:
  ~NcclRegistering() override { fake_nccl_reset(); }
};

TEST_P(NcclRegistering, EndsTheCommunicator_WhereItFailsOnARank) {
  const auto [version, function] = GetParam();
  fake_nccl_inject(kFakeNcclVersion, 0, version);
  on_nccl(3, [function = std::string(function)](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0, world.rank());
    require_sum(part, where);
    inject_on(1, kFakeNcclRegisterFails, world.communicator());
    const std::string why = refusal(part, kBytes);
    // Where registering is local the others have theirs, and hear of it in the next call.
    if (world.rank() == 1) require_part(why, function + ": unhandled system error: a planted failure");
    require_part(refusal(part, kBytes), "a planted failure");
    require_sum(world.communicator(), where);
  });
}

INSTANTIATE_TEST_SUITE_P(By, NcclRegistering,
                         testing::Values(std::tuple(kWithRegistration, "ncclCommRegister"),
                                         std::tuple(kWithWindows, "ncclCommWindowRegister")));

TEST(NcclRegistering, EndsTheCommunicator_WhereARankHangs) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0, world.rank());
    require_sum(part, where);
    require_sum(world.communicator(), where);
    inject_on(2, kFakeNcclWindowHangs, world.communicator());
    require_part(refusal(part, kBytes, {.deadline = Deadline::after(milliseconds(500))}), "Timeout");
    require_sum(world.communicator(), where);
  });
}

TEST(NcclMemoryOf, RanksThatShareADevice_IsPlain) {
  ExpectLog shared(log::Level::Warning, "they take turns");
  const auto body = [](World& world, const OnDevice& where) {
    const Memory memory = world.communicator().allocate(kBytes);
    require_part(memory.known_as(), "plain device memory: no transport here has any other; nccl: ranks 0, 1 share");
    require(sum_in(world.communicator(), memory, where).ok(), "a sum");
  };
  on_nccl(2, body, with_nccl(), {.count = 1});
}

TEST(NcclMemoryOf, ABuildThatLacksIt_IsPlain) {
  WorldOptions options = with_nccl();
  options.config.nccl_library = FAKE_NCCL_BARE;
  const auto body = [](World& world, const OnDevice& where) {
    const Memory memory = world.communicator().allocate(kBytes);
    require_part(memory.known_as(), "NCCL 2.28.9 without ncclCommRegister on some rank");
    require(sum_in(world.communicator(), memory, where).ok(), "a sum");
  };
  on_nccl(2, body, options);
}

TEST(NcclMemoryOf, AWorldWithoutNccl_IsPlainOrRefused) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    const Memory memory = world.communicator().allocate(kBytes);
    require(memory.known_as() == "plain device memory: no transport here has any other", memory.known_as());
    require(sum_in(world.communicator(), memory, where).ok(), "a sum");
  });
  on_threads(2, only("shm"), [](World& world) {
    require_part(refusal(world.communicator(), kBytes), "Unavailable: allocate: 4000 bytes: rank 0: no device: ");
  });
}

}  // namespace
}  // namespace sinew::test

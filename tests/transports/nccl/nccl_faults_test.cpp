#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "fakes/fake_nccl.hpp"
#include "support/on_device.hpp"
#include "support/worlds.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A call that goes wrong: how it ended. Its buffer is gone when this returns.
Status end_of_call(Communicator& among, const OnDevice& where, Deadline deadline = {}) {
  std::vector<std::int32_t> data(1000, 1);
  const Buffer b = write(where, data);
  Work w = among.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream, .deadline = deadline});
  Status end = w.wait(Deadline::after(seconds(50)));
  read<std::int32_t>(where, b);  // `data` was taken
  where.runtime.release(b);
  return end;
}

void require_text(const Status& end, const std::string& part) {
  require(text_of(end).find(part) != std::string::npos, text_of(end));
}

TEST(NcclFaults, EndsTheCallOnAllRanks_WhenARankIsLate) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    require_sum(other, where);
    inject_on(1, kFakeNcclLate, other);
    const Status end = end_of_call(all, where, Deadline::after(milliseconds(500)));
    require(end.code() == Code::Timeout, text_of(end));
    require_sum(other, where);
    require_text(end_of_call(all, where), "Timeout");
  });
}

TEST(NcclFaults, NamesTheRank_ThatDoesNotCall) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    if (world.rank() != 1) {
      const Status end = end_of_call(all, where, Deadline::after(milliseconds(500)));
      require(end.code() == Code::Timeout || end.code() == Code::Mismatch, text_of(end));
      require_text(end, "rank 1");
    }
    require_sum(other, where);
  });
}

TEST(NcclFaults, EndsTheCallOnAllRanks_WhenNcclHasAnAsynchronousError) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    require_sum(other, where);
    require_sum(all, where);
    inject_on(2, kFakeNcclAsyncError, other);
    const Status end = end_of_call(all, where);
    require(end.code() == Code::System, text_of(end));
    require_text(end, "remote process exited or there was a network error: a planted asynchronous error");
    require_text(end_of_call(all, where), "a planted asynchronous error");
    require_sum(other, where);
  });
}

TEST(NcclFaults, EndsTheCallOnAllRanks_WhenNcclRefusesIt) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    require_sum(all, where);
    inject_on(0, kFakeNcclCallFails, other);
    require_text(end_of_call(all, where), "ncclAllReduce: unhandled cuda error: a planted failure of a call");
  });
}

TEST(NcclFaults, FindsDifferentCalls) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    std::vector<std::int32_t> data(100, 1);
    const Buffer b = write(where, data);
    const Buffer mine = b.part(0, world.rank() == 0 ? 400 : 200);
    Work w = all.all_reduce(mine, mine, DType::I32, ReduceOp::Sum, {.after = where.stream});
    const Status end = w.wait(Deadline::after(seconds(50)));
    require(end.code() == Code::Mismatch, text_of(end));
    require_text(end, "count 100");
    require_text(end, "count 50");
    read<std::int32_t>(where, b);
    where.runtime.release(b);
  });
}

TEST(NcclFaults, TouchesNothingAfterAnAbort) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    require_sum(all, where);
    inject_on(1, kFakeNcclLingers, other);
    std::vector<std::int32_t> data(300'000, 1);  // so long that none of the later ones begins at its place
    const Buffer b = write(where, data);
    Work w = all.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
    if (world.rank() == 1) {
      require(w.wait(Deadline::after(milliseconds(100))).code() == Code::Pending, "nothing ends it");
      all.abort("enough");
    }
    require_text(w.wait(Deadline::after(seconds(50))), "enough");
    where.runtime.release(b);
    require_text(end_of_call(all, where), "enough");
    require_sum(other, where);
  });
}

TEST(NcclFaults, GivesUpACommunicator_ThatIsNotMadeInTime) {
  fake_nccl_inject(kFakeNcclInitHangs, 1, 1);
  const auto body = [](World& world, const OnDevice& where) {
    const Status end = end_of_call(world.communicator(), where);
    require(end.code() == Code::Timeout, text_of(end));
    require_text(end, "ncclCommInitRankConfig has not met all ranks in time");
  };
  on_nccl(3, body, with_nccl(seconds(5)));
}

TEST(NcclFaults, GoesOnWithTheSurvivors) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator other = world.communicator().split(0, world.rank());
    require_sum(world.communicator(), where);
    inject_on(0, kFakeNcclAsyncError, other);
    require(!end_of_call(world.communicator(), where).ok(), "the call must fail");
    World next = world.shrink();
    require(next.size() == 3, "all are alive");
    for (int turn = 0; turn < 3; ++turn) require_sum(next.communicator(), where);
  });
}

class NcclObstacles : public testing::TestWithParam<std::tuple<FakeNcclFault, int, const char*>> {};

/// All ranks find out together, and take the way through the host.
TEST_P(NcclObstacles, LeaveTheWorldAtWork) {
  const auto [fault, rank, reason] = GetParam();
  fake_nccl_inject(fault, rank, 1);
  on_nccl(3, [why = std::string(reason)](World& world, const OnDevice& where) {
    const CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::I32, .place = {MemoryKind::Device, 0}, .count = 1000};
    const std::string text = world.communicator().plan(desc).explain();
    require(text.find(why) != std::string::npos, text);
    require_sum(world.communicator(), where);
    // The next one is another matter.
    Communicator second = world.communicator().split(0, world.rank());
    require(second.plan(desc).chosen().algorithm == "nccl", second.plan(desc).explain());
    require_sum(second, where);
  });
}

/// Every unique id costs a thread and a descriptor that nobody ends.
TEST(NcclFaults, AsksOnce_WhereTheDriverIsTooOld) {
  fake_nccl_inject(kFakeNcclNoCuda, 1, 1);
  on_nccl(3, [](World& world, const OnDevice& where) {
    const CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::I32, .place = {MemoryKind::Device, 0}, .count = 1000};
    Communicator second = world.communicator().split(0, world.rank());
    const std::string text = second.plan(desc).explain();
    require(text.find("rank 1: ncclCommInitRankConfig: unhandled cuda error") != std::string::npos, text);
    require_sum(second, where);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Of, NcclObstacles,
    testing::Values(std::tuple(kFakeNcclIdFails, 0, "rank 0: ncclGetUniqueId: unhandled system error"),
                    std::tuple(kFakeNcclInitFails, 1, "rank 1: ncclCommInitRankConfig: unhandled system error")),
    [](const auto& of) { return std::get<0>(of.param) == kFakeNcclIdFails ? "TheId" : "OneRank"; });

}  // namespace
}  // namespace sinew::test

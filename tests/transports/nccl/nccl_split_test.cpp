// Communicators that NCCL splits off others.
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

using std::chrono::seconds;

std::string explain(const Communicator& among) {
  const CollectiveDesc desc{
      .collective = Collective::AllReduce, .dtype = DType::I32, .place = {MemoryKind::Device, 0}, .count = 1000};
  return among.plan(desc).explain();
}

/// How an all-reduce of ones ends.
Status end_of_sum(Communicator& among, const OnDevice& where) {
  std::vector<std::int32_t> data(100, 1);
  const Buffer b = write(where, data);
  Work w = among.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
  Status end = w.wait(Deadline::after(seconds(50)));
  read<std::int32_t>(where, b);
  where.runtime.release(b);
  return end;
}

/// Who comes in what order is in the result.
void require_order(Communicator& among, const OnDevice& where) {
  std::vector<std::int32_t> mine{among.rank()};
  std::vector<std::int32_t> nothing(static_cast<std::size_t>(among.size()), -1);
  const Buffer in = write(where, mine);
  const Buffer out = write(where, nothing);
  among.all_gather(in, out, DType::I32, {.after = where.stream}).get();
  const auto got = read<std::int32_t>(where, out);
  for (int r = 0; r < among.size(); ++r) require(got[static_cast<std::size_t>(r)] == r, "ranks in their order");
  where.runtime.release(in);
  where.runtime.release(out);
}

class NcclSplit : public testing::TestWithParam<int> {
 public:
  ~NcclSplit() override { fake_nccl_reset(); }
};

TEST_P(NcclSplit, GivesEachColorItsOwn_InTheOrderOfTheKeys) {
  const int before = fake_nccl_splits();
  on_nccl(GetParam(), [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator turned = all.split(0, -world.rank());
    require_part(explain(turned), "ncclAllReduce of NCCL 2.28.9, split off by ncclCommSplit");
    require_part(explain(all), "made by a unique id");
    require_order(turned, where);
    Communicator half = turned.split(turned.rank() % 2, 0);
    if (half.size() > 1) require_part(explain(half), "split off by ncclCommSplit");
    for (Communicator* c : {&half, &turned, &all}) require_sum(*c, where);
  });
  const int ranks = GetParam();
  const int halves = ranks == 2 ? 0 : ranks == 3 ? 2 : 4;  // ranks that are not alone
  EXPECT_EQ(fake_nccl_splits() - before, ranks + halves);
}

TEST_P(NcclSplit, TakesAUniqueId_WhereALibraryCannot) {
  WorldOptions options = with_nccl();
  options.config.nccl_library = FAKE_NCCL_BARE;
  const auto body = [](World& world, const OnDevice& where) {
    Communicator part = world.communicator().split(0, -world.rank());
    require_part(explain(part),
                 "made by a unique id: rank 0 of the parent: NCCL 2.28.9 without ncclCommSplit on some rank");
    require_order(part, where);
  };
  on_nccl(GetParam(), body, options);
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclSplit, testing::Values(2, 3, 4));

TEST(NcclSplits, LeaveOutWhoHasNoColor_OrIsAlone) {
  on_nccl(4, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator first = all.split(world.rank() < 2 ? 7 : world.rank() == 2 ? -1 : 3);
    if (world.rank() < 2) {
      require_part(explain(first), "split off by ncclCommSplit");
      require_sum(first, where);
    }
    require(first.size() == (world.rank() < 2 ? 2 : world.rank() == 2 ? 0 : 1), "its size");
    require_sum(all, where);
  });
}

TEST(NcclSplits, WaitForCallsInFlight_AndHoldUpLaterOnes) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    std::vector<std::int32_t> ones(3000, 1);
    std::vector<Buffer> buffers;
    std::vector<Work> works;
    const auto call = [&](Communicator& c) {
      buffers.push_back(write(where, ones));
      works.push_back(c.all_reduce(buffers.back(), buffers.back(), DType::I32, ReduceOp::Sum, {.after = where.stream}));
    };
    std::vector<Communicator> parts;
    for (int turn = 0; turn < 4; ++turn) {
      for (int i = 0; i < 3; ++i) call(all);
      parts.push_back(all.split(0, turn % 2 == 0 ? -world.rank() : world.rank()));
      for (Communicator& part : parts) call(part);
      call(all);
    }
    for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
    for (const Buffer b : buffers) {
      require(read<std::int32_t>(where, b) == std::vector<std::int32_t>(3000, 3), "a sum of ones");
      where.runtime.release(b);
    }
  });
}

TEST(NcclSplits, OutliveTheirParent_WhichGoesAtOnce) {
  for (const Threads threads : {Threads::Single, Threads::Multiple}) {
    WorldOptions options = with_nccl();
    options.threads = threads;
    const auto body = [](World& world, const OnDevice& where) {
      Communicator child = world.communicator().split(0, -world.rank()).split(0, world.rank());
      require_sum(child, where);
    };
    on_nccl(3, body, options);
  }
}

TEST(NcclSplits, MayGoAtOnce) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    for (int turn = 0; turn < 6; ++turn) static_cast<void>(world.communicator().split(0, turn));
    require_sum(world.communicator(), where);
  });
}

TEST(NcclSplits, EndWithTheirParent_WhereNcclRefuses) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator parent = all.split(0, world.rank());
    require_sum(parent, where);
    inject_on(1, kFakeNcclSplitFails, all);
    const std::string expected = "ncclCommSplit: unhandled system error: a planted failure of a split";
    try {
      Communicator child = parent.split(0, world.rank());
      require_part(text_of(end_of_sum(child, where)), expected);
    } catch (const Error& e) {  // a rank that was slower heard of it in the split
      require_part(e.what(), expected);
    }
    const Status end = end_of_sum(parent, where);
    require(end.code() == Code::System, text_of(end));
    require_part(text_of(end), expected);
    require_sum(all, where);
  });
}

TEST(NcclSplits, EndWithTheirParent_WhereARankDoesNotCome) {
  const auto body = [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator parent = all.split(0, world.rank());
    require_sum(parent, where);
    require_sum(all, where);
    inject_on(2, kFakeNcclSplitHangs, all);
    Communicator child = parent.split(0, world.rank());
    const Status end = end_of_sum(child, where);
    require(end.code() == Code::Timeout, text_of(end));
    require_part(text_of(end), "ncclCommSplit has not met all ranks in time");
    require(!end_of_sum(parent, where).ok(), "what NCCL could not split");
    require_sum(all, where);
  };
  on_nccl(3, body, with_nccl(seconds(5)));
}

TEST(NcclSplits, TakeAUniqueId_WhereARanksCommunicatorHasEnded) {
  fake_nccl_inject(kFakeNcclInitHangs, 1, 1);
  const auto body = [](World& world, const OnDevice& where) {
    const Deadline end = Deadline::after(seconds(3));
    while (!end.passed()) world.poll();
    Communicator next = world.communicator().split(0, world.rank());
    require_part(explain(next), "made by a unique id: rank 0 of the parent: its communicator has ended: ");
    require_sum(next, where);
  };
  on_nccl(3, body, with_nccl(seconds(2)));
}

}  // namespace
}  // namespace sinew::test

// The v-forms, which NCCL has none of, as groups of what it has.
#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>

#include "fakes/fake_nccl.hpp"
#include "support/on_device.hpp"
#include "support/worlds.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::test {
namespace {

const Place kDevice{MemoryKind::Device, 0};

constexpr Collective kForms[] = {Collective::AllGatherV, Collective::ReduceScatterV, Collective::AllToAllV,
                                 Collective::GatherV, Collective::ScatterV};

/// What a rank sends to each, and expects of each.
struct Counts {
  std::vector<std::uint64_t> in;
  std::vector<std::uint64_t> out;
};

/// all_to_all_v of ones: how it ends.
Status end_of_exchange(Communicator& all, const OnDevice& where, const Counts& counts, Deadline deadline = {}) {
  std::vector<std::int32_t> data(100, 1);
  const Buffer in = write(where, data);
  const Buffer out = write(where, data);
  Work w =
      all.all_to_all_v(in, out, DType::I32, {counts.in}, {counts.out}, {.after = where.stream, .deadline = deadline});
  Status end = w.wait(Deadline::after(std::chrono::seconds(50)));
  read<std::int32_t>(where, in);
  where.runtime.release(in);
  where.runtime.release(out);
  return end;
}

Counts even(int ranks) {
  const std::vector<std::uint64_t> ten(static_cast<std::size_t>(ranks), 10);
  return {ten, ten};
}

class NcclParts : public testing::TestWithParam<std::tuple<int, int>> {
 public:
  ~NcclParts() override { fake_nccl_reset(); }
};

/// run_case: parts of 0, 1 and 2 times `count`; an offset tears them apart.
TEST_P(NcclParts, OfEveryFormAreRight) {
  const auto [ranks, version] = GetParam();
  fake_nccl_inject(kFakeNcclVersion, 0, version);
  on_nccl(ranks, [](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const Collective form : kForms) {
      for (const std::uint64_t count : {0, 1, 1021}) {
        for (const bool in_place : {false, true}) {
          for (const std::size_t torn : {0, 4}) {
            for (int root = 0; root < (has_root(form) ? world.size() : 1); ++root) {
              const CollectiveCase c{.collective = form,
                                     .dtype = DType::I32,
                                     .count = count,
                                     .in_place = in_place,
                                     .root = root,
                                     .offset = torn};
              require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
            }
          }
        }
      }
    }
  });
}

TEST_P(NcclParts, OfEveryOperatorAreRight) {
  const auto [ranks, version] = GetParam();
  fake_nccl_inject(kFakeNcclVersion, 0, version);
  on_nccl(ranks, [](World& world, const OnDevice& where) {
    std::uint32_t salt = 0;
    for (const ReduceOp op :
         {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Average, ReduceOp::PreMulSum}) {
      for (const DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
        const CollectiveCase c{.collective = Collective::ReduceScatterV, .dtype = dtype, .op = op, .count = 257};
        require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndVersions, NcclParts,
                         testing::Combine(testing::Values(2, 3, 4), testing::Values(21800, 22809)));

TEST(NcclPartsOf, EveryForm_SayHowInThePlan) {
  on_nccl(2, [](World& world, const OnDevice&) {
    const std::vector<std::uint64_t> counts{1 << 20, 3};
    const std::vector<std::pair<Collective, std::string>> ways = {
        {Collective::AllGatherV, "grouped ncclBroadcast of NCCL 2.28.9"},
        {Collective::ReduceScatterV, "grouped ncclReduce of NCCL 2.28.9"},
        {Collective::AllToAllV, "grouped ncclSend and ncclRecv of NCCL 2.28.9"},
        {Collective::GatherV, "grouped ncclSend and ncclRecv of NCCL 2.28.9"},
        {Collective::ScatterV, "grouped ncclSend and ncclRecv of NCCL 2.28.9"}};
    for (const auto& [form, way] : ways) {
      CollectiveDesc desc{.collective = form, .dtype = DType::F32, .place = kDevice};
      if (has_shared_counts(form)) desc.counts = counts;
      const std::string text = world.communicator().plan(desc).explain();
      require_part(text, "takes  nccl over nccl");
      require_part(text, way);
    }
    const CollectiveDesc bits{.collective = Collective::ReduceScatterV,
                              .dtype = DType::U8,
                              .op = ReduceOp::BitOr,
                              .place = kDevice,
                              .counts = counts};
    require_part(world.communicator().plan(bits).explain(), "NCCL has no bitwise operators");
  });
}

TEST(NcclPartsOf, OneRank_GoToAllOthers) {
  on_nccl(4, [](World& world, const OnDevice& where) {
    Counts counts{std::vector<std::uint64_t>(4, world.rank() == 2 ? 25 : 0), std::vector<std::uint64_t>(4, 0)};
    counts.out[2] = 25;
    for (int turn = 0; turn < 3; ++turn) require(end_of_exchange(world.communicator(), where, counts).ok(), "an end");
    const Counts nothing{std::vector<std::uint64_t>(4, 0), std::vector<std::uint64_t>(4, 0)};
    require(end_of_exchange(world.communicator(), where, nothing).ok(), "an end without messages");
  });
}

TEST(NcclPartsOf, ACommunicator_AreKeptWhileCallsAreInFlight) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    std::vector<Buffer> outs;
    std::vector<Work> works;
    std::vector<std::int32_t> mine(30, world.rank());
    const Buffer in = write(where, mine);
    for (std::uint64_t turn = 1; turn <= 8; ++turn) {
      std::vector<std::int32_t> nothing(3 * turn, -1);
      outs.push_back(write(where, nothing));
      // The caller's counts are gone before NCCL has the call.
      const std::vector<std::uint64_t> counts(3, turn);
      works.push_back(all.all_to_all_v(in, outs.back(), DType::I32, {counts}, {counts}, {.after = where.stream}));
      read<std::int32_t>(where, outs.back());
    }
    for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
    for (std::size_t turn = 1; turn <= outs.size(); ++turn) {
      std::vector<std::int32_t> expected;
      for (int r = 0; r < 3; ++r) expected.insert(expected.end(), turn, r);
      require(read<std::int32_t>(where, outs[turn - 1]) == expected, "call " + std::to_string(turn));
      where.runtime.release(outs[turn - 1]);
    }
    where.runtime.release(in);
  });
}

TEST(NcclPartsOf, DifferentLengthsThanExpected_EndTheCall) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Counts counts = even(2);
    if (world.rank() == 1) counts.out[0] = 9;
    const Status end = end_of_exchange(world.communicator(), where, counts);
    require_part(text_of(end), "rank 0 sends 10 elements, rank 1 expects 9");
  });
}

class NcclPartsFaults : public testing::TestWithParam<std::tuple<FakeNcclFault, const char*>> {};

TEST_P(NcclPartsFaults, EndTheCallOnAllRanks) {
  const auto [fault, words] = GetParam();
  on_nccl(3, [fault = fault, words = std::string(words)](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    require(end_of_exchange(all, where, even(3)).ok(), "nothing is wrong yet");
    require_sum(other, where);
    inject_on(1, fault, other);
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(fault == kFakeNcclLate ? 500 : 30'000));
    const Status end = end_of_exchange(all, where, even(3), deadline);
    require_part(text_of(end), words);
    require_sum(other, where);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, NcclPartsFaults,
                         testing::Values(std::tuple(kFakeNcclLate, "Timeout"),
                                         std::tuple(kFakeNcclAsyncError, "a planted asynchronous error"),
                                         std::tuple(kFakeNcclCallFails, "grouped ncclSend and ncclRecv: ")));

}  // namespace
}  // namespace sinew::test

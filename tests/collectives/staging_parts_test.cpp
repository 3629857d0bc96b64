#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

#include "fakes/fake_device.hpp"
#include "support/collective_case.hpp"
#include "support/fake_devices.hpp"
#include "support/on_device.hpp"
#include "support/sanitized.hpp"
#include "support/worlds.hpp"

// The v-forms, the rooted operations and groups of messages on device memory that goes through the host.
namespace sinew::test {
namespace {

using Counts = std::vector<std::uint64_t>;

class StagedParts : public testing::TestWithParam<int> {};

/// Covers parts of 0, 1 and 2 times the count, packed and with gaps, in one segment and in several.
TEST_P(StagedParts, AreRight_OverAnyTransport) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_devices(GetParam(), transport, [](World& world, const OnDevice& where) {
      std::uint32_t salt = 0;
      for (const Collective k : {Collective::AllGatherV, Collective::ReduceScatterV, Collective::AllToAllV,
                                 Collective::GatherV, Collective::ScatterV}) {
        for (const std::uint64_t count : {0U, 1U, 1021U, 700'003U}) {
          for (const bool in_place : {false, true}) {
            // A sanitizer build runs each collective once: half of them in place.
            if (test::kSanitized && in_place == (static_cast<int>(k) % 2 == 0)) continue;
            const CollectiveCase c{.collective = k,
                                   .count = count,
                                   .in_place = in_place,
                                   .root = world.size() - 1,
                                   .offset = count % 2 * sizeof(float)};
            require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
          }
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedParts, testing::Values(1, 2, 3, 4));

/// Each piece is a call on host memory, so it takes the hierarchical algorithm where selection or a rule does.
TEST(StagedParts, GoThroughRanksOfTheirHost_WhereRanksAreOnTwoHosts) {
  on_devices(
      5, "inproc",
      [](World& world, const OnDevice& where) {
        Communicator& all = world.communicator();
        const std::string plan = all.plan({.collective = Collective::AllToAllV,
                                           .dtype = DType::F32,
                                           .place = {MemoryKind::Device, where.stream.device}})
                                     .explain();
        require(plan.find("pieces of at most 2MiB as the ranks agree on: hierarchical") != std::string::npos, plan);
        std::uint32_t salt = 0;
        for (const std::uint64_t count : {0U, 1U, 1021U, 300'007U}) {
          for (const bool in_place : {false, true}) {
            const CollectiveCase c{.collective = Collective::AllToAllV, .count = count, .in_place = in_place};
            require(run_case(all, c, ++salt, &where) == 0, c.to_string());
          }
        }
      },
      [](int rank, WorldOptions& options) {
        options.config.host_id = rank < 3 ? "host 0" : "host 1";
        options.device = rank;  // the stream's
        options.config.tune = {"all_to_all_v:0-:hierarchical@*"};
      });
}

TEST(StagedParts, SaySoInThePlan) {
  on_devices(2, "shm", [](World& world, const OnDevice&) {
    const Counts counts{1 << 20, 3 << 20};
    const auto explain = [&](const CollectiveDesc& desc) { return world.communicator().plan(desc).explain(); };
    const Place device{MemoryKind::Device, 0};
    const std::string shared =
        explain({.collective = Collective::AllGatherV, .dtype = DType::U8, .place = device, .counts = counts});
    require(shared.find("takes  staged over shm") != std::string::npos, shared);
    require(shared.find("through pinned host memory, 3 x 2MiB: ") != std::string::npos, shared);
    for (const Collective k : {Collective::AllToAllV, Collective::GatherV, Collective::ScatterV}) {
      const std::string local = explain({.collective = k, .dtype = DType::F32, .place = device});
      require(local.find("takes  staged over shm") != std::string::npos, local);
      require(local.find("in as many pieces of at most 2MiB as the ranks agree on: ") != std::string::npos, local);
    }
    for (const Collective k : {Collective::Reduce, Collective::Gather, Collective::Scatter}) {
      const std::string rooted = explain({.collective = k, .dtype = DType::F32, .place = device, .count = 16});
      require(rooted.find("takes  staged over shm") != std::string::npos, rooted);
    }
  });
}

/// Only rank 0 has elements to send. The other ranks learn from rank 0 how many segments there are.
TEST(StagedParts, AgreeOnTheirPieces_WhereOneRankHasAll) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    constexpr std::uint64_t kMany = 2'000'003;
    const bool gives = world.rank() == 0;
    const bool takes = world.rank() == 2;
    std::vector<std::int32_t> from(gives ? kMany : 0, 7);
    std::vector<std::int32_t> to(takes ? kMany : 0, 1);
    const Buffer in = where.runtime.allocate(from.size() * 4, {MemoryKind::Device, where.stream.device});
    const Buffer out = where.runtime.allocate(to.size() * 4, {MemoryKind::Device, where.stream.device});
    if (gives) where.runtime.copy_async(in, Buffer{reinterpret_cast<std::byte*>(from.data()), in.bytes}, where.stream);
    const Counts give{0, 0, from.size()};
    const Counts take{to.size(), 0, 0};
    all.all_to_all_v(in, out, DType::I32, {give}, {take}, {.after = where.stream}).get();
    if (takes) require(read<std::int32_t>(where, out) == std::vector<std::int32_t>(kMany, 7), "what rank 0 had");
    where.runtime.release(in);
    where.runtime.release(out);
  });
}

TEST(StagedParts, KeepTheirOrder_WithSeveralInFlight) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    constexpr std::uint64_t kEach = 300'001;
    const Counts counts(3, kEach);
    const auto me = static_cast<std::size_t>(world.rank());
    std::vector<std::int32_t> data(3 * kEach);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::int32_t>(me + 10 * (i / kEach));
    std::vector<std::int32_t> host_data(1000, 1);
    const Buffer memory = write(where, data);
    const Buffer mine = memory.part(me * kEach * 4, kEach * 4);
    const CallOptions after{.after = where.stream};
    std::vector<Work> works;
    for (int turn = 0; turn < 3; ++turn) {
      works.push_back(all.all_to_all_v(memory, memory, DType::I32, {counts}, {counts}, after));
      works.push_back(all.all_reduce(host_data));
      works.push_back(all.reduce_scatter_v(memory, mine, DType::I32, {counts}, ReduceOp::Sum, after));
      works.push_back(all.all_gather_v(mine, memory, DType::I32, {counts}, after));
    }
    for (auto w = works.rbegin(); w != works.rend(); ++w) w->get();
    // Part r is 30 + 3r after the first turn, 99 everywhere after the second, 3 * 99 after the third.
    require(read<std::int32_t>(where, memory) == std::vector<std::int32_t>(3 * kEach, 297), "device data");
    require(host_data == std::vector<std::int32_t>(1000, 27), "host data");
    where.runtime.release(memory);
  });
}

/// Rank 1 expects two elements more than rank 0 sends. The difference is in the last of several segments.
TEST(StagedParts, EndMismatch_NamingThePieceInWhichCountsDiffer) {
  on_devices(2, "shm", [](World& world, const OnDevice& where) {
    constexpr std::uint64_t kMany = 1'200'000;
    const bool sends = world.rank() == 0;
    const Counts give{0, sends ? kMany : 0};
    const Counts take{sends ? 0 : kMany + 2, 0};
    const std::size_t bytes = (kMany + 2) * 4;
    const Buffer in = where.runtime.allocate(bytes, {MemoryKind::Device, where.stream.device});
    const Buffer out = where.runtime.allocate(bytes, {MemoryKind::Device, where.stream.device});
    const Status end = world.communicator().all_to_all_v(in, out, DType::I32, {give}, {take}).wait();
    const std::string why(end.message());
    if (!sends) require(end.code() == Code::Mismatch, std::string(name_of(end.code())));
    if (!sends)
      require(why.find("rank 0 sent rank 1 151424 elements, which expected 151426") != std::string::npos, why);
    if (!sends) require(why.find("in piece 3 of 3: from element 1048576 of each part on") != std::string::npos, why);
    where.runtime.release(in);
    where.runtime.release(out);
  });
}

/// The device fails before the call begins, or between the agreement on the segments and the first segment.
TEST(StagedParts, EndOnAllRanks_WhenADeviceFails) {
  for (const bool at_once : {true, false}) {
    on_devices(2, "shm", [&](World& world, const OnDevice& where) {
      const Counts counts{1000, 1000};
      std::vector<std::int32_t> data(2000, 1);
      const Buffer memory = write(where, data);
      auto& device = static_cast<fake::Device&>(where.runtime);
      const auto fail = [&] { device.fail_next("an illegal address was met"); };
      if (world.rank() == 1 && at_once) fail();
      Work w =
          world.communicator().all_to_all_v(memory, memory, DType::I32, {counts}, {counts}, {.after = where.stream});
      if (world.rank() == 1 && !at_once) fail();
      const Status end = w.wait();
      require(end.code() == Code::System, std::string(name_of(end.code())));
      const std::string why(end.message());
      require(why.find("an illegal address was met") != std::string::npos, why);
      read<std::int32_t>(where, memory);  // the stream has run out
      where.runtime.release(memory);
    });
  }
}

TEST(StagedMessages, GoAsAGroup_BetweenAnyMemories) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    constexpr std::size_t kCount = 100'003;
    const int me = world.rank();
    const int next = (me + 1) % 3;
    const int before = (me + 2) % 3;
    std::vector<std::int32_t> mine(kCount, me);
    std::vector<std::int32_t> nothing(kCount, -1);
    std::vector<std::int32_t> host(5, -1);
    const Buffer out = write(where, mine);
    const Buffer in = write(where, nothing);
    const CallOptions after{.after = where.stream};
    all.sendrecv(out, next, in, before, 1, 1, after).get();
    require(read<std::int32_t>(where, in) == std::vector<std::int32_t>(kCount, before), "sendrecv");
    // From the device to the host one way, from the host to the device the other.
    const Buffer host_bytes{reinterpret_cast<std::byte*>(host.data()), 20};
    const std::vector<Message> messages{
        Message::send(out.part(0, 20), next, 2),
        Message::recv(host_bytes, before, 2),
        Message::send(ConstBuffer{reinterpret_cast<const std::byte*>(mine.data()), 8}, before, 3),
        Message::recv(in.part(0, 8), next, 3),
        Message::send(out.part(0, 0), before, 4),
        Message::recv({}, next, 4)};
    all.group(messages, after).get();
    require(host == std::vector<std::int32_t>(5, before), "to the host");
    const auto got = read<std::int32_t>(where, in);
    require(got[0] == next && got[1] == next && got[2] == before, "to the device");
    where.runtime.release(in);
    where.runtime.release(out);
  });
}

}  // namespace
}  // namespace sinew::test

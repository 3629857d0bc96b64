// The offload by itself: collectives that communicators do not offer yet, and what the contract says of ends.
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/transports/registry.hpp>

#include "fakes/fake_device.hpp"
#include "fakes/fake_nccl.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

/// A call in flight with what the offload is given for it.
struct Pending : Completion {
  explicit Pending(std::vector<int>* ends, int number) : Completion(&Pending::fired), ended(ends), name(number) {}
  ~Pending() { mark.clear(); }
  static void fired(Completion& c) noexcept {
    auto& self = static_cast<Pending&>(c);
    self.ended->push_back(self.name);
  }
  std::vector<int>* ended;
  int name;
  DeviceMark mark;
};

/// One rank with a module opened as a World does it.
class NcclRank {
 public:
  explicit NcclRank(const Exchange& world)
      : world_(world),
        host_(world, "this host", Deadline::after(std::chrono::seconds(60))),
        device_(world.size),
        where_{device_, device_.make_stream(world.rank)} {
    Config config;
    config.nccl_library = FAKE_NCCL;
    config.timeout = std::chrono::seconds(30);
    fabric_ = find_module("nccl", config)
                  ->open({world.rank, world.size, 0, host_, {}, "this host", config, &device_, world.rank});
    Group group{.rank = world.rank};
    group.world_ranks.resize(static_cast<std::size_t>(world.size));
    std::iota(group.world_ranks.begin(), group.world_ranks.end(), 0);
    offload_ = fabric_->make_offload({group, world, {}});
  }
  ~NcclRank() { device_.release(where_.stream); }

  const OnDevice& where() const { return where_; }
  CollectiveOffload& offload() { return *offload_; }
  std::vector<int>& ends() { return ends_; }

  Pending& launch(CollectiveDesc desc, Buffer in, Buffer out) {
    desc.place = {MemoryKind::Device, world_.rank};
    Pending& p = *pending_.emplace_back(std::make_unique<Pending>(&ends_, static_cast<int>(pending_.size())));
    offload_->launch({.desc = desc, .in = in, .out = out, .after = where_.stream, .mark = &p.mark}, p);
    return p;
  }
  void finish() {
    while (ends_.size() < pending_.size()) {
      if (offload_->progress() == 0) std::this_thread::yield();
    }
  }
  std::vector<int> run(const CollectiveDesc& desc, std::vector<int> in, std::size_t out_count) {
    const Buffer from = write(where_, in);
    std::vector<int> nothing(out_count, -1);
    const Buffer to = write(where_, nothing);
    Pending& p = launch(desc, from, to);
    finish();
    p.status.require();
    std::vector<int> result = read<int>(where_, to);
    device_.release(from);
    device_.release(to);
    return result;
  }

 private:
  const Exchange& world_;
  HostPeers host_;
  fake::Device device_;
  OnDevice where_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<int> ends_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::unique_ptr<CollectiveOffload> offload_;
};

std::vector<int> tens(int rank, int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 10 * rank);
  return values;
}

class NcclRooted : public testing::TestWithParam<int> {
 public:
  ~NcclRooted() override { fake_nccl_reset(); }
};

TEST_P(NcclRooted, CollectivesAreRight_ForEveryRoot) {
  fake_nccl_inject(kFakeNcclVersion, 0, GetParam());
  run_as_threads(3, [](const Exchange& world) {
    NcclRank rank(world);
    for (int root = 0; root < 3; ++root) {
      CollectiveDesc desc{.collective = Collective::Reduce, .dtype = DType::I32, .root = root, .count = 4};
      const bool mine = world.rank == root;
      const std::vector<int> untouched(4, -1);
      require(rank.run(desc, tens(world.rank, 4), 4) == (mine ? std::vector{30, 33, 36, 39} : untouched), "reduce");
      desc = {.collective = Collective::Gather, .dtype = DType::I32, .root = root, .count = 2};
      const std::vector<int> nothing(6, -1);
      require(rank.run(desc, tens(world.rank, 2), 6) == (mine ? std::vector{0, 1, 10, 11, 20, 21} : nothing), "gather");
      desc = {.collective = Collective::Scatter, .dtype = DType::I32, .root = root, .count = 2};
      const int first = 10 * root + 2 * world.rank;
      require(rank.run(desc, tens(world.rank, 6), 2) == std::vector{first, first + 1}, "scatter");
    }
  });
  EXPECT_STREQ(fake_nccl_misuse(), nullptr);
  EXPECT_EQ(fake_nccl_live(), 0);
}

INSTANTIATE_TEST_SUITE_P(Version, NcclRooted, testing::Values(22809, 21800));

TEST(NcclOffload, SaysWhatItCannotRun) {
  run_as_threads(2, [](const Exchange& world) {
    NcclRank rank(world);
    const auto reason = [&](Collective c, ReduceOp op = ReduceOp::Sum) {
      return rank.offload().supports({.collective = c, .op = op, .place = {MemoryKind::Device, 0}}).reason;
    };
    require(reason(Collective::Barrier) == "NCCL has no barrier", reason(Collective::Barrier));
    require(reason(Collective::SendRecv) == "NCCL has no sendrecv", reason(Collective::SendRecv));
    require(reason(Collective::ReduceScatterV, ReduceOp::User) == "NCCL takes no operator of the user's",
            reason(Collective::ReduceScatterV, ReduceOp::User));
    for (const Collective c : {Collective::AllGatherV, Collective::AllToAllV, Collective::GatherV})
      require(reason(c).empty(), reason(c));
    require(reason(Collective::Reduce, ReduceOp::User) == "NCCL takes no operator of the user's",
            reason(Collective::Reduce, ReduceOp::User));
    require(reason(Collective::Gather).empty(), reason(Collective::Gather));
  });
}

TEST(NcclOffload, PredictsMore_ForMore) {
  run_as_threads(3, [](const Exchange& world) {
    NcclRank rank(world);
    CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32};
    const Seconds nothing = rank.offload().predict(desc);
    desc.count = 16 << 20;
    const Seconds large = rank.offload().predict(desc);
    desc.collective = Collective::Broadcast;
    require(nothing > 0 && large > rank.offload().predict(desc) && rank.offload().predict(desc) > nothing,
            "an all-reduce moves more than a broadcast, and that more than nothing");
  });
}

TEST(NcclOffload, EndsWhatIsPending_InOrderAndNotInsideAbort) {
  run_as_threads(2, [](const Exchange& world) {
    NcclRank rank(world);
    std::vector<int> data(100, 1);
    const Buffer b = write(rank.where(), data);
    const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::I32, .count = 100};
    // The other rank does not call: nothing can end well.
    std::vector<Pending*> calls;
    if (world.rank == 0) {
      for (int i = 0; i < 5; ++i) calls.push_back(&rank.launch(desc, b, b));
    }
    rank.offload().abort(Status(Code::Aborted, "enough"));
    for (int i = 0; i < 2; ++i) calls.push_back(&rank.launch(desc, b, b));
    require(rank.ends().empty(), "calls end in progress()");
    rank.finish();
    std::vector<int> expected(calls.size());
    std::iota(expected.begin(), expected.end(), 0);
    require(rank.ends() == expected, "in the order of the launches");
    for (const Pending* p : calls) require(p->status.message() == "enough", std::string(p->status.message()));
    require(!rank.offload().active(), "nothing is left to be done");
    read<int>(rank.where(), b);
    rank.where().runtime.release(b);
  });
  EXPECT_STREQ(fake_nccl_misuse(), nullptr);
  EXPECT_EQ(fake_nccl_live(), 0);
}

TEST(NcclOffload, KeepsScratch_OnlyForExchangesInPlace) {
  run_as_threads(2, [](const Exchange& world) {
    NcclRank rank(world);
    for (const std::size_t count : {10U, 1000U, 100U}) {
      std::vector<int> data(2 * count, world.rank);
      const Buffer b = write(rank.where(), data);
      const CollectiveDesc reduced{.collective = Collective::AllReduce, .dtype = DType::I32, .count = 2 * count};
      rank.launch(reduced, b, b);
      const CollectiveDesc moved{.collective = Collective::AllToAll, .dtype = DType::I32, .count = count};
      rank.launch(moved, b, b);
      rank.launch(moved, b, b);
      rank.finish();
      require(read<int>(rank.where(), b) == std::vector<int>(2 * count, 1), "sums that were exchanged");
      require(rank.offload().memory_bytes() == (count == 10 ? 80 : 8000),
              std::to_string(rank.offload().memory_bytes()));
      rank.where().runtime.release(b);
    }
  });
}

TEST(NcclOffload, FailsCalls_WhenTheDeviceFails) {
  run_as_threads(2, [](const Exchange& world) {
    NcclRank rank(world);
    std::vector<int> data(100, 1);
    const Buffer b = write(rank.where(), data);
    const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::I32, .count = 100};
    Pending& p = rank.launch(desc, b, b);
    static_cast<fake::Device&>(rank.where().runtime).fail_next("an illegal address was met");
    rank.finish();
    require(p.status.code() == Code::System && p.status.message() == "an illegal address was met",
            std::string(p.status.message()));
    read<int>(rank.where(), b);  // the stream still copies `data`, whatever became of the call
    rank.where().runtime.release(b);
  });
}

}  // namespace
}  // namespace sinew::test

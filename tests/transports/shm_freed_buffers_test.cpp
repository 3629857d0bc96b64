#include <sys/mman.h>

#include <memory>
#include <transports/shm_rank.hpp>

#include <gtest/gtest.h>

#include <sinew/transports/shm/offload/facts.hpp>
#include <support/ranks.hpp>

namespace sinew {
namespace {

using test::Fired;
using test::ShmRank;

/// Memory that goes as a whole, so that whoever reads it afterwards ends the process.
class Page {
 public:
  explicit Page(std::size_t bytes)
      : bytes_(bytes), at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Page() { ::munmap(at_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(at_); }

 private:
  std::size_t bytes_;
  void* at_;
};

/// Rank 0 gives a call up in the middle and frees its buffers; nobody has told rank 1.
void give_up_in_the_middle(Collective collective, std::uint64_t bytes, int turns) {
  test::run_as_threads(2, [=](const Exchange& world) {
    ShmRank rank(world);
    Fired done;
    {
      const Page in(bytes * 2);
      const Page out(bytes * 2);
      const CollectiveDesc d{.collective = collective, .dtype = DType::U8, .count = bytes};
      (void)world.all_gather({});
      rank.launch(d, in.data(), out.data(), done);
      if (world.rank == 0) {
        for (int i = 0; i < turns; ++i) (void)rank.offload().progress();
        rank.offload().abort({Code::Timeout, "it took too long"});
      }
      rank.wait(done);
    }
    EXPECT_TRUE(done.status.code() == Code::Ok || done.status.code() == Code::Timeout ||
                done.status.code() == Code::Aborted)
        << done.status.message();
  });
}

TEST(ShmOffload, ReadsNoBufferOfAThread_WhoseCallHasFailed) {
  for (int turns = 0; turns < 60; ++turns) {
    give_up_in_the_middle(Collective::AllReduce, 8 << 20, turns);
    give_up_in_the_middle(Collective::AllGather, 4 << 20, turns);
    give_up_in_the_middle(Collective::AllReduce, 30'000, turns % 4);
  }
}

/// Rank 0 cannot read what rank 1 had; rank 2 has read that already, and waits for what rank 0 stages.
TEST(ShmOffload, TakesNothingFromARank_ThatCouldNotReadAnother) {
  test::run_as_processes(3, [](const Exchange& world) {
    shm::Facts facts;
    facts.slot_bytes.fill(3000);
    facts.chunk_bytes.fill(1000);
    facts.read_in_place.fill({.from = 0});
    const std::uint64_t block = 2500;  // no more chunks than stages: rank 2 waits for nobody to free one
    const CollectiveDesc d{.collective = Collective::AllToAll, .dtype = DType::U8, .count = block};
    ASSERT_EQ(shm::protocol_of(d, 3, facts), shm::Protocol::Chunks);
    ShmRank rank(world, encode(facts));
    if (!rank.offload().supports({.collective = Collective::AllToAllV}).ok) return;  // nothing is read in place here
    auto in = std::make_unique<Page>(3 * block);
    const Page out(3 * block);
    Fired done;
    rank.launch(d, in->data(), world.rank == 1 ? out.data() : in->data(), done);
    static_cast<void>(world.all_gather({}));
    for (int i = 0; i < 100 && world.rank == 2; ++i) static_cast<void>(rank.offload().progress());
    static_cast<void>(world.all_gather({}));
    if (world.rank == 1) in.reset();
    static_cast<void>(world.all_gather({}));
    if (world.rank == 0) {
      rank.wait(done);
      EXPECT_EQ(done.status.code(), Code::System) << done.status.message();
      EXPECT_EQ(done.status.rank(), 1);
    }
    static_cast<void>(world.all_gather({}));
    for (int i = 0; i < 100 && world.rank == 2; ++i) static_cast<void>(rank.offload().progress());
    EXPECT_EQ(done.fired, world.rank == 0) << "whoever waits is told by the control plane, here by the test";
    rank.offload().abort({Code::PeerLost, "told"});
    rank.wait(done);
    EXPECT_FALSE(done.status.ok());
  });
}

}  // namespace
}  // namespace sinew

#include <sys/mman.h>

#include <transports/shm_rank.hpp>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sinew

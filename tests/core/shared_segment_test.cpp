#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/sanitizer.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/shared_segment.hpp>

namespace sinew {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool all_zero(const std::byte* memory, std::size_t bytes) {
  return std::all_of(memory, memory + bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::size_t resident_pages(const std::byte* memory, std::size_t bytes) {
  std::vector<unsigned char> there((bytes + page_bytes() - 1) / page_bytes());
  if (mincore(const_cast<std::byte*>(memory), bytes, there.data()) != 0) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(there, [](unsigned char c) { return (c & 1) != 0; }));
}

TEST(SharedSegment, AlignsEveryBlockAsAsked) {
  SharedSegment segment(kMiB * 64);
  for (const std::size_t alignment : {std::size_t{64}, std::size_t{128}, page_bytes(), 2 * kMiB}) {
    (void)segment.allocate(1);
    EXPECT_EQ(segment.offset_of(segment.allocate(100, alignment)) % alignment, 0u) << alignment;
  }
}

TEST(SharedSegment, GivesZeroedMemoryAgain_AfterRelease) {
  SharedSegment segment(kMiB * 64);
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{5000}, page_bytes(), 3 * page_bytes() + 64, kMiB}) {
    std::byte* before = segment.allocate(192);
    std::byte* memory = segment.allocate(bytes);
    std::byte* after = segment.allocate(64);
    std::memset(before, 1, 192);
    std::memset(memory, 2, bytes);
    std::memset(after, 3, 64);
    segment.release(memory);
    EXPECT_EQ(segment.allocate(bytes), memory);
    EXPECT_TRUE(all_zero(memory, bytes)) << bytes;
    EXPECT_EQ(before[191], std::byte{1});
    EXPECT_EQ(after[0], std::byte{3});
    segment.release(memory);
    segment.release(before);
    segment.release(after);
  }
}

TEST(SharedSegment, GivesPagesBackToTheKernel_WhenReleased) {
  SharedSegment segment(kMiB * 64);
  std::byte* memory = segment.allocate(kMiB, page_bytes());
  std::memset(memory, 1, kMiB);
  EXPECT_EQ(resident_pages(memory, kMiB), kMiB / page_bytes());
  segment.release(memory);
  EXPECT_EQ(resident_pages(memory, kMiB), 0u);
}

TEST(SharedSegment, JoinsNeighbouringHoles_InWhateverOrderTheyAppear) {
  SharedSegment segment(kMiB * 16);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(segment.allocate(4 * kMiB));
  EXPECT_THROW((void)segment.allocate(1), Error);
  for (const std::size_t i : {2u, 0u, 3u, 1u}) segment.release(blocks[i]);
  EXPECT_EQ(segment.allocated_bytes(), 0u);
  EXPECT_EQ(segment.allocate(16 * kMiB), blocks[0]);
}

TEST(SharedSegment, SaysWhatWasAskedAndTaken_WhenFull) {
  SharedSegment segment(kMiB * 16);
  (void)segment.allocate(10 * kMiB);
  try {
    (void)segment.allocate(7 * kMiB);
    FAIL() << "7 MiB fitted beside 10 of 16";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::System);
    EXPECT_NE(std::string(e.what()).find("7340032 bytes asked"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("10485760 of its 16777216"), std::string::npos) << e.what();
  }
}

TEST(SharedSegment, GivesEachThreadItsOwnMemory) {
  SharedSegment segment(std::size_t{64} << 20);
  const auto take_and_return = [&segment](std::byte mark) {
    for (int round = 0; round < 300; ++round) {
      std::vector<std::byte*> blocks;
      for (std::size_t k = 1; k <= 8; ++k) {
        blocks.push_back(segment.allocate(k * 700));
        std::fill_n(blocks.back(), k * 700, mark);
      }
      for (std::size_t k = 1; k <= 8; ++k) {
        ASSERT_TRUE(std::all_of(blocks[k - 1], blocks[k - 1] + k * 700, [mark](std::byte b) { return b == mark; }));
        segment.release(blocks[k - 1]);
      }
    }
  };
  std::thread other(take_and_return, std::byte{1});
  take_and_return(std::byte{2});
  other.join();
  EXPECT_EQ(segment.allocated_bytes(), 0u);
}

TEST(SharedSegment, KnowsItsOwnMemory) {
  SharedSegment segment(kMiB * 16);
  const std::byte outside{};
  EXPECT_TRUE(segment.contains(segment.base()));
  EXPECT_FALSE(segment.contains(segment.base() + segment.address_space_bytes()));
  EXPECT_FALSE(segment.contains(&outside));
}

#if !SINEW_ADDRESS_SANITIZER && !SINEW_THREAD_SANITIZER  // sanitizers need more address space than the limit
TEST(SharedSegment, TakesLessAddressSpace_UnderALimit) {
  constexpr int kNotLimited = 77;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{std::size_t{2} << 30, std::size_t{2} << 30};
    rlimit taken{};
    setrlimit(RLIMIT_AS, &limit);
    getrlimit(RLIMIT_AS, &taken);
    if (taken.rlim_cur != limit.rlim_cur) _exit(kNotLimited);
    const SharedSegment segment;
    const SharedSegment of_many(SharedSegment::kDefaultAddressSpace, 64);
    const std::size_t bytes = segment.address_space_bytes();
    const std::size_t all = 64 * of_many.address_space_bytes();
    _exit(bytes > 0 && bytes <= std::size_t{2} << 30 && all > 0 && all <= std::size_t{1} << 30 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotLimited)
    GTEST_SKIP() << "setrlimit(RLIMIT_AS) has no effect here, as under qemu";
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace sinew

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/host/wake_name.hpp>
#include <support/ranks.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(WakeName, WakesWhoHasTheName_AndNobodyElse) {
  WakeName one;
  WakeName other;
  const FileDescriptor of_one = one.take_socket();
  const FileDescriptor of_other = other.take_socket();
  EXPECT_EQ(WakeName::wake(one.number()), 0);
  EXPECT_TRUE(readable(of_one.get()));
  EXPECT_FALSE(readable(of_other.get()));
}

TEST(WakeName, SaysSo_WhereNobodyListens) {
  std::int32_t gone = 0;
  {
    const WakeName name;
    gone = name.number();
    EXPECT_EQ(WakeName::find(gone), 0);
  }
  EXPECT_EQ(WakeName::find(gone), ECONNREFUSED);
  EXPECT_EQ(WakeName::wake(gone), ECONNREFUSED);
}

/// Datagrams that others have not read fill the sender's buffer. That must not keep a rank asleep.
TEST(WakeName, WakesARank_ThoughManyOthersSleepOn) {
  std::vector<std::unique_ptr<WakeName>> sleepers;
  for (int i = 0; i < 200; ++i) sleepers.push_back(std::make_unique<WakeName>());
  for (int turn = 0; turn < 20; ++turn) {
    for (const auto& s : sleepers) WakeName::wake(s->number());
  }
  WakeName last;
  const FileDescriptor socket = last.take_socket();
  EXPECT_EQ(WakeName::wake(last.number()), 0);
  EXPECT_TRUE(readable(socket.get()));
}

using Word = std::atomic<std::uint32_t>;

/// Each rank reads the memory of all others, and wakes the next rank, which sleeps.
void meet_with_few_descriptors(const Exchange& world) {
  rlimit few{};
  ::getrlimit(RLIMIT_NOFILE, &few);
  few.rlim_cur = 100;  // 40 ranks need 160 to pass descriptors to each other
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  HostPeers peers(world, "here", Deadline::after(30s));
  std::byte* mine = peers.shared_segment().allocate(64);
  new (mine) Word(static_cast<std::uint32_t>(world.rank) + 100);
  const std::uint64_t offset = peers.shared_segment().offset_of(mine);
  Bytes card(sizeof offset);
  std::memcpy(card.data(), &offset, sizeof offset);
  const std::vector<Bytes> cards = world.all_gather(card);
  for (const int r : peers.ranks()) {
    std::uint64_t at = 0;
    std::memcpy(&at, cards[static_cast<std::size_t>(r)].data(), sizeof at);
    EXPECT_EQ(reinterpret_cast<const Word*>(peers.memory_of(r) + at)->load(), static_cast<std::uint32_t>(r) + 100);
    EXPECT_FALSE(peers.has_ended(r));
  }
  for (int turn = 0; turn < 3; ++turn) {
    peers.arm();
    (void)world.all_gather({});
    peers.notify((world.rank + 1) % world.size);
    pollfd woken{peers.wake_descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&woken, 1, 20'000), 1) << "rank " << world.rank << " sleeps on";
    peers.disarm();
    EXPECT_FALSE(readable(peers.wake_descriptor()));
    (void)world.all_gather({});
  }
}

TEST(HostPeers, MeetByName_WhereTooFewDescriptorsAreAllowed) { test::run_as_processes(40, meet_with_few_descriptors); }

}  // namespace
}  // namespace sinew

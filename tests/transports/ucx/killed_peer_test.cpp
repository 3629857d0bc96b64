// A peer on this host dies with messages in flight. The control plane then closes its endpoint, and this must end.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ucx/ucx.hpp>

#include "support/ranks.hpp"
#include "transports/conformance/rank.hpp"

namespace sinew::test {
namespace {

using std::chrono::seconds;

constexpr std::size_t kLarge = 64 << 20;

std::vector<Bytes> gather_text(const Exchange& world, const std::string& mine) {
  return world.all_gather(
      {reinterpret_cast<const std::byte*>(mine.data()), reinterpret_cast<const std::byte*>(mine.data()) + mine.size()});
}

pid_t pid_of(const Exchange& world, int rank) {
  const Bytes text = gather_text(world, std::to_string(::getpid()))[static_cast<std::size_t>(rank)];
  return static_cast<pid_t>(std::stol(std::string(reinterpret_cast<const char*>(text.data()), text.size())));
}

bool drive(Transport& t, const std::function<bool()>& holds) {
  const auto give_up = Deadline::after(seconds(30));
  while (!holds()) {
    if (t.progress() == 0) ::sched_yield();
    if (give_up.passed()) return false;
  }
  return true;
}

/// What rank 1 does until it is killed; rank 0 judges.
void work_until_killed(Transport& t, Endpoint& peer) {
  std::vector<std::byte> in(kLarge), out(kLarge, std::byte{1});
  Watched sent, received;
  peer.send({out.data(), out.size()}, user(1), 0, sent);
  peer.recv({{in.data(), in.size()}}, user(2), received);
  for (;;) t.progress();
}

TEST(UcxKilledPeer, EndpointBecomesQuietAndNothingIsPendingAfterwards) {
  const std::vector<int> ends = fork_ranks(2, [](const Exchange& world) {
    const Rail rail = open_rail(ucx::module(), world);
    Transport& t = *rail.transport;
    const pid_t victim = pid_of(world, 1);
    const auto addresses = world.all_gather(t.address());
    const auto peer = t.connect(addresses[static_cast<std::size_t>(1 - world.rank)]);
    if (world.rank == 1) work_until_killed(t, *peer);

    std::vector<std::byte> in(kLarge), out(kLarge, std::byte{1});
    std::byte small{};
    Watched received, sent, posted, short_send, quiet;
    peer->recv({{in.data(), in.size()}}, user(1), received);
    peer->send({out.data(), out.size()}, user(2), 0, sent);
    peer->recv({{&small, 1}}, user(3), posted);
    EXPECT_TRUE(drive(t, [&] { return in[0] == std::byte{1}; })) << "the message never began to arrive";
    ::kill(victim, SIGKILL);
    peer->send({&small, 1}, user(4), 0, short_send);
    peer->close(quiet);
    EXPECT_TRUE(drive(t, [&] { return quiet.done(); })) << "the endpoint of a dead peer is not quiet after 30 s";
    for (const Watched* w : {&received, &sent, &posted, &short_send}) EXPECT_EQ(w->fired, 1);
    EXPECT_EQ(posted.status.code(), Code::Cancelled);
    EXPECT_FALSE(t.active());
  });
  EXPECT_TRUE(WIFEXITED(ends[0]) && WEXITSTATUS(ends[0]) == 0) << "wait status " << ends[0];
  EXPECT_TRUE(WIFSIGNALED(ends[1])) << "wait status " << ends[1];
}

}  // namespace
}  // namespace sinew::test

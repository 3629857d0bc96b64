// A peer's process is killed in the middle of everything.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <new>
#include <utility>

#include <sinew/conformance/conformance.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

constexpr std::size_t kLarge = 24 << 20;

/// Why the subject does not reach another process; empty: it does.
std::string cannot_cross(const MakeRail& make) {
  using Text = std::array<char, 256>;
  void* memory = ::mmap(nullptr, sizeof(Text), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  auto* text = new (memory) Text{};
  fork_ranks(2, [&](const Exchange& world) {
    Rank me(world, make);
    const Reach reach = me.transport().probe(me.address_of(1 - me.rank()));
    if (!reach.ok && me.rank() == 0) reach.reason.copy(text->data(), text->size() - 1);
  });
  const std::string why = text->data();
  ::munmap(memory, sizeof(Text));
  return why;
}

/// Both have connected when it returns.
void greet(Rank& me) {
  Watched send, receive;
  me.peer(1 - me.rank()).recv({}, user(1), receive);
  me.peer(1 - me.rank()).send({}, user(1), 0, send);
  me.wait(receive, "the greeting");
  me.wait(send, "the greeting to go");
}

/// Rank 1 kills itself with a message in flight in each direction.
void die(Rank& me) {
  const std::vector<std::byte> out(kLarge);
  std::vector<std::byte> in(kLarge);
  Watched send, receive;
  greet(me);
  me.peer(0).send(view(out), user(2), 0, send);
  me.peer(0).recv({view(in)}, user(3), receive);
  for (int i = 0; i < 50; ++i) me.progress();
  ::raise(SIGKILL);
}

/// Rank 0's operations with rank 1.
struct Pending {
  explicit Pending(Rank& me) : in(kLarge), out(kLarge) {
    greet(me);
    me.peer(1).recv({view(in)}, user(2), receive);
    me.peer(1).send(view(std::as_const(out)), user(3), 0, send);
    me.peer(1).recv({}, user(4), idle);
  }

  std::vector<std::byte> in, out;
  Watched receive, send, idle;
};

/// Runs `survivor` as rank 0 beside a rank 1 that is killed.
void beside_a_killed_rank(const MakeRail& make, const std::function<void(Rank&, Pending&)>& survivor) {
  const std::vector<int> ends = fork_ranks(2, [&](const Exchange& world) {
    Rank me(world, make);
    if (me.rank() == 1) die(me);
    Pending pending(me);
    me.end_alone();
    survivor(me, pending);
  });
  EXPECT_TRUE(WIFEXITED(ends[0]) && WEXITSTATUS(ends[0]) == 0) << "the survivor ended with wait status " << ends[0];
  EXPECT_TRUE(WIFSIGNALED(ends[1]) && WTERMSIG(ends[1]) == SIGKILL) << ends[1];
}

TEST_P(Conformance, KilledPeer_EndsPendingAndLaterOperationsWithPeerLost) {
  if (!GetParam().notices_death) GTEST_SKIP() << "notices_death: a World tells this transport which process has died";
  if (const std::string why = cannot_cross(GetParam().make); !why.empty()) GTEST_SKIP() << "probe: " << why;
  beside_a_killed_rank(GetParam().make, [](Rank& me, Pending& p) {
    if (!me.wait(p.idle, "the idle receive") || !me.wait(p.send, "the send") || !me.wait(p.receive, "the receive")) {
      return;
    }
    for (const Watched* w : {&p.receive, &p.send}) {  // may have been carried out
      EXPECT_TRUE(w->status.ok() || w->status.code() == Code::PeerLost) << w->status.message();
    }
    Watched send, receive;
    me.peer(1).send({}, user(5), 0, send);
    me.peer(1).recv({}, user(5), receive);
    if (!me.wait(send, "the late send") || !me.wait(receive, "the late receive")) return;
    for (const Watched* w : {&p.idle, &send, &receive}) {
      EXPECT_EQ(w->status.code(), Code::PeerLost) << w->status.message();
      EXPECT_EQ(w->status.rank(), 1);
      EXPECT_NE(w->status.message().find("rank 1"), std::string_view::npos) << w->status.message();
    }
  });
}

TEST_P(Conformance, KilledPeer_DoesNotKeepItsEndpointFromClosing) {
  if (const std::string why = cannot_cross(GetParam().make); !why.empty()) GTEST_SKIP() << "probe: " << why;
  beside_a_killed_rank(GetParam().make, [](Rank& me, Pending& p) {
    EXPECT_THROW(me.barrier_with_progress(), Error) << "the exchange ends with the rank";
    me.close(1);
    for (const Watched* w : {&p.receive, &p.send, &p.idle}) {
      EXPECT_EQ(w->fired, 1) << "before the endpoint said that it was quiet";
      EXPECT_NE(w->status.code(), Code::Pending);
    }
    EXPECT_FALSE(p.idle.status.ok());
  });
}

}  // namespace
}  // namespace sinew::test

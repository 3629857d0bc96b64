// Sleeping on the descriptor: arm() and poll(2) lose nothing.
#include <poll.h>

#include <thread>

#include <sinew/conformance/conformance.hpp>

namespace sinew::test {
namespace {

/// Sleeps at every chance; false if nothing came for ten seconds.
bool sleep_until(Rank& me, Watched& w) {
  Transport& t = me.transport();
  while (!w.done()) {
    if (me.progress() != 0 || !t.arm()) continue;
    pollfd p{t.wake_descriptor(), POLLIN, 0};
    const int ready = ::poll(&p, 1, 10000);
    t.disarm();
    if (ready == 0) return false;
  }
  return true;
}

TEST_P(Conformance, Sleeper_IsWokenByEveryMessage) {
  if (!wakes()) GTEST_SKIP() << "wake_descriptor: the transport has none, it must be polled";
  ranks(2, [](Rank& me) {
    const int other = 1 - me.rank();
    std::vector<std::byte> large(400000);
    for (int i = 0; i < 400; ++i) {
      std::uint64_t value = 7;
      Watched s, r;
      const bool big = i % 20 == 19;
      const Buffer b = big ? view(large) : Buffer{reinterpret_cast<std::byte*>(&value), 8};
      if (me.rank() == i % 2) {
        if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        me.peer(other).send(b, step(1), 0, s);
        if (!sleep_until(me, s)) {
          ADD_FAILURE() << "round " << i << ": nothing woke the sender";
          return;
        }
      } else {
        me.peer(other).recv({b}, step(1), r);
        if (!sleep_until(me, r)) {
          ADD_FAILURE() << "round " << i << ": nothing woke the receiver";
          return;
        }
      }
    }
  });
}

TEST_P(Conformance, Arm_RefusesWhileSomethingWaitsForProgress) {
  ranks(2, [](Rank& me) {
    Watched r;
    std::byte b{};
    Endpoint& other = me.peer(1 - me.rank());
    other.recv({{&b, 1}}, step(1), r);
    EXPECT_TRUE(other.cancel(r));
    EXPECT_FALSE(me.transport().arm()) << "a decided completion waits to be fired";
    me.transport().disarm();
    me.wait(r);
  });
}

TEST_P(Conformance, IdleSleeper_IsNotWoken) {
  if (!wakes()) GTEST_SKIP() << "wake_descriptor: the transport has none, it must be polled";
  ranks(2, [](Rank& me) {
    me.peer(1 - me.rank());
    Transport& t = me.transport();
    const auto count_wakes = [&] {
      int woken = 0;
      for (int i = 0; i < 20; ++i) {
        if (!t.arm()) {
          ++woken;
        } else {
          pollfd p{t.wake_descriptor(), POLLIN, 0};
          woken += ::poll(&p, 1, 5);
        }
        t.disarm();
        me.progress();
      }
      return woken;
    };
    // What belongs to connecting may still arrive, on a busy machine for a while.
    int woken = count_wakes();
    for (const Deadline give_up = Deadline::after(std::chrono::seconds(10)); woken >= 5 && !give_up.passed();) {
      woken = count_wakes();
    }
    EXPECT_LT(woken, 5) << "an idle transport keeps its World awake";
  });
}

}  // namespace
}  // namespace sinew::test

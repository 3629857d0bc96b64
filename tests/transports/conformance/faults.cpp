// What goes wrong: truncation, other calls, cancelled operations, closed ends, stale generations.
#include <sinew/conformance/conformance.hpp>

namespace sinew::test {
namespace {

constexpr std::size_t kBothWays[] = {100, 700000};  // a small message and one that needs a rendezvous

TEST_P(Conformance, LongMessage_EndsTruncatedAndTheNextArrives) {
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : kBothWays) {
      const auto data = pattern(bytes, 1);
      std::vector<std::byte> small(bytes - 1, std::byte{9}), in(bytes);
      Watched first, second;
      if (me.rank() == 0) {
        me.peer(1).send(view(data), user(1), 0, first);
        me.peer(1).send(view(data), user(1), 0, second);
        if (!me.wait(first, "the long send") || !me.wait(second, "the next send")) return;
        EXPECT_TRUE(first.status.ok()) << "its buffer may be reused; that nobody took it is the receiver's affair";
      } else {
        me.peer(0).recv({view(small)}, user(1), first);
        me.peer(0).recv({view(in)}, user(1), second);
        if (!me.wait(first, "the short receive") || !me.wait(second, "the next receive")) return;
        EXPECT_EQ(first.status.code(), Code::Truncated);
        EXPECT_TRUE(small == std::vector<std::byte>(bytes - 1, std::byte{9})) << "a byte was taken";
        EXPECT_TRUE(second.status.ok() && in == data);
      }
    }
  });
}

TEST_P(Conformance, OtherNote_EndsTheReceiveWithMismatchBeforeAByteIsTaken) {
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : kBothWays) {
      for (const std::uint32_t sent_tag : {1u, 5u}) {  // the receive's own tag, and another step of the same call
        const auto data = pattern(bytes, 1);
        std::vector<std::byte> in(bytes, std::byte{9});
        Watched w;
        if (me.rank() == 0) {
          me.peer(1).send(view(data), step(sent_tag), 700, w);
          if (!me.wait(w, "the send of another call")) return;
          EXPECT_TRUE(w.status.ok() || (w.status.code() == Code::Mismatch && w.note == 800)) << w.status.message();
        } else {
          w.note = 800;
          me.peer(0).recv({view(in)}, step(1), w);
          if (!me.wait(w, "the receive of another call")) return;
          EXPECT_EQ(w.status.code(), Code::Mismatch);
          EXPECT_EQ(w.note, 700u);
          EXPECT_TRUE(in == std::vector<std::byte>(bytes, std::byte{9})) << "a byte was taken";
        }
        me.barrier_with_progress();
      }
    }
  });
}

TEST_P(Conformance, EqualNote_Matches) {
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : kBothWays) {
      std::vector<std::byte> data(bytes);
      Watched w;
      w.note = 800;
      if (me.rank() == 0) {
        me.peer(1).send(view(data), step(1), 800, w);
      } else {
        me.peer(0).recv({view(data)}, step(1), w);
      }
      if (!me.wait(w)) return;
      EXPECT_TRUE(w.status.ok()) << w.status.message();
    }
  });
}

TEST_P(Conformance, OtherGeneration_IsNeverDelivered) {
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : kBothWays) {
      auto data = pattern(bytes, static_cast<unsigned>(me.rank()));
      Watched stale, fresh;
      if (me.rank() == 0) {
        const auto old = pattern(bytes, 99);
        me.peer(1).send(view(old), Tag::user(255, 3, 1), 0, stale);
        me.peer(1).send(view(data), user(1), 0, fresh);
        if (!me.wait(stale, "the stale send") || !me.wait(fresh, "the fresh send")) return;
      } else {
        me.peer(0).recv({view(data)}, user(1), fresh);
        if (!me.wait(fresh, "the fresh message")) return;
        EXPECT_TRUE(data == pattern(bytes, 0));
      }
    }
  });
}

TEST_P(Conformance, CancelledReceive_FiresOnceAndLeavesTheMessageToTheNext) {
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : kBothWays) {
      auto data = pattern(bytes, 1);
      Watched a, b;
      if (me.rank() == 0) {
        me.barrier();
        me.peer(1).send(view(data), user(1), 0, b);
        me.wait(b);
      } else {
        std::vector<std::byte> untouched(bytes), in(bytes);
        me.peer(0).recv({view(untouched)}, user(1), a);
        EXPECT_TRUE(me.peer(0).cancel(a));
        EXPECT_EQ(a.fired, 0);
        if (!me.wait(a, "the cancelled receive")) return;
        EXPECT_EQ(a.status.code(), Code::Cancelled);
        me.barrier();
        me.peer(0).recv({view(in)}, user(1), b);
        if (!me.wait(b)) return;
        EXPECT_TRUE(in == data && untouched == std::vector<std::byte>(bytes));
        EXPECT_EQ(a.fired, 1);
      }
    }
  });
}

TEST_P(Conformance, CancelledSend_WasNeverSent) {
  if (!capabilities().cancels_sends) GTEST_SKIP() << "cancels_sends: the transport cannot take a send back";
  ranks(2, [](Rank& me) {
    const auto gone = pattern(900000, 1);
    const auto next = pattern(800000, 2);
    Watched a, b;
    if (me.rank() == 0) {
      me.peer(1).send(view(gone), user(1), 0, a);
      me.linger(std::chrono::milliseconds(20));
      EXPECT_TRUE(me.peer(1).cancel(a)) << "nobody has asked for it";
      if (!me.wait(a, "the cancelled send")) return;
      EXPECT_EQ(a.status.code(), Code::Cancelled);
      me.barrier();
      me.peer(1).send(view(next), user(1), 0, b);
      me.wait(b, "the next send");
    } else {
      std::vector<std::byte> in(900000);
      me.linger(std::chrono::milliseconds(20));
      me.barrier();
      me.peer(0).recv({view(in)}, user(1), b);
      if (!me.wait(b, "the next message")) return;
      EXPECT_EQ(b.bytes, next.size());
      in.resize(next.size());
      EXPECT_TRUE(in == next);
    }
  });
}

TEST_P(Conformance, CancelledSend_RacingItsReceiveEndsBothOnce) {
  if (!capabilities().cancels_sends) GTEST_SKIP() << "cancels_sends: the transport cannot take a send back";
  ranks(2, [](Rank& me) {
    for (int i = 0; i < 60; ++i) {
      auto data = pattern(600000, static_cast<unsigned>(i));
      Watched w, last;
      if (me.rank() == 0) {
        me.peer(1).send(view(data), user(1), 0, w);
        for (int k = 0; k < i * 4; ++k) me.progress();
        const bool taken_back = me.peer(1).cancel(w);
        if (!me.wait(w, "the send")) return;
        EXPECT_EQ(w.status.code(), taken_back ? Code::Cancelled : Code::Ok);
        if (taken_back) me.peer(1).send(view(data), user(1), 0, last);
        if (taken_back && !me.wait(last, "the send that followed")) return;
      } else {
        std::vector<std::byte> in(data.size());
        me.peer(0).recv({view(in)}, user(1), w);
        if (!me.wait(w, "the receive")) return;
        // Taken back before a byte came: nothing happened. After: the receive has ended, too.
        if (w.status.code() == Code::Cancelled) {
          me.peer(0).recv({view(in)}, user(1), last);
          if (!me.wait(last, "the receive that followed")) return;
          EXPECT_TRUE(last.status.ok()) << last.status.message();
        } else {
          EXPECT_TRUE(w.status.ok()) << w.status.message();
        }
        EXPECT_TRUE(in == data);
      }
    }
  });
}

/// As when a collective fails on both ranks: neither waits for the other after that.
TEST_P(Conformance, CancelsThatCross_EndBothSides) {
  if (!capabilities().cancels_sends) GTEST_SKIP() << "cancels_sends: the transport cannot take a send back";
  ranks(2, [](Rank& me) {
    for (int i = 0; i < 60; ++i) {
      std::vector<std::byte> data(600000);
      Watched w;
      if (me.rank() == 0) {
        me.peer(1).send(view(data), user(static_cast<std::uint32_t>(i)), 0, w);
      } else {
        me.peer(0).recv({view(data)}, user(static_cast<std::uint32_t>(i)), w);
      }
      for (int k = 0; k < i * 2; ++k) me.progress();
      me.peer(1 - me.rank()).cancel(w);
      if (!me.wait(w, "what both sides cancelled")) return;
      EXPECT_TRUE(w.status.ok() || w.status.code() == Code::Cancelled) << w.status.message();
      me.barrier_with_progress();
    }
  });
}

TEST_P(Conformance, Close_EndsWhatIsPendingAndThenTouchesNothing) {
  ranks(2, [](Rank& me) {
    if (me.rank() == 1) {
      me.peer(0);
      me.barrier_with_progress();
      me.barrier_with_progress();
      return;
    }
    auto data = pattern(2 << 20, 1);
    std::vector<std::byte> in(100, std::byte{3});
    Watched receive, send;
    me.peer(1).recv({view(in)}, user(1), receive);
    me.peer(1).send(view(data), user(2), 0, send);
    me.barrier_with_progress();
    me.close(1);
    for (Watched* w : {&receive, &send}) {
      EXPECT_EQ(w->fired, 1) << "not before the endpoint said it was quiet";
      EXPECT_EQ(w->status.code(), Code::Cancelled);
      EXPECT_FALSE(w->outside);
    }
    EXPECT_TRUE(in == std::vector<std::byte>(100, std::byte{3}));
    me.barrier_with_progress();
  });
}

/// Whatever the peer does, or does not.
TEST_P(Conformance, EndedEndpoint_GivesBackWhatIsPending) {
  ranks(2, [](Rank& me) {
    if (me.rank() == 1) {
      me.peer(0);
      me.barrier_with_progress();
      me.barrier();
      me.barrier_with_progress();
      return;
    }
    auto data = pattern(2 << 20, 1);
    std::vector<std::byte> in(100);
    Watched receive, send;
    me.peer(1).recv({view(in)}, user(1), receive);
    me.peer(1).send(view(data), user(2), 0, send);
    me.barrier_with_progress();
    me.drop_endpoint(1);
    for (Watched* w : {&receive, &send}) {
      if (!me.wait(*w)) return;
      EXPECT_EQ(w->status.code(), Code::Cancelled) << w->status.message();
      EXPECT_FALSE(w->outside);
    }
    me.barrier();
    me.barrier_with_progress();
  });
}

TEST_P(Conformance, ClosedPeer_EndsPendingAndLaterOperationsWithPeerLost) {
  ranks(2, [](Rank& me) {
    if (me.rank() == 1) {
      me.peer(0);
      me.barrier_with_progress();
      me.close(0);
      me.barrier_with_progress();
      return;
    }
    std::vector<std::byte> in(100);
    const auto data = pattern(1 << 20, 1);
    Watched receive, send, late_receive, late_send;
    me.peer(1).recv({view(in)}, user(1), receive);
    me.peer(1).send(view(data), user(2), 0, send);
    me.barrier_with_progress();
    if (!me.wait(receive, "the receive from a lost peer") || !me.wait(send, "the send to a lost peer")) return;
    me.peer(1).recv({view(in)}, user(3), late_receive);
    me.peer(1).send(view(data), user(3), 0, late_send);
    if (!me.wait(late_receive, "the late receive") || !me.wait(late_send, "the late send")) return;
    for (const Watched* w : {&receive, &send, &late_receive, &late_send}) {
      EXPECT_EQ(w->status.code(), Code::PeerLost);
      EXPECT_EQ(w->status.rank(), 1);
      EXPECT_NE(w->status.message().find("rank 1"), std::string_view::npos) << w->status.message();
    }
    me.barrier_with_progress();
  });
}

/// A rank that has sent its last words and leaves: they count.
TEST_P(Conformance, MessagesSentBeforeClosing_Arrive) {
  ranks(2, [](Rank& me) {
    std::vector<Watched> all(5);
    std::vector<std::vector<std::byte>> data(all.size());
    const bool sends = me.rank() == 1;
    for (std::size_t i = 0; i < all.size(); ++i) {
      data[i] = sends ? pattern(500, static_cast<unsigned>(i)) : std::vector<std::byte>(500);
      if (sends) me.peer(0).send(view(data[i]), user(1), 0, all[i]);
    }
    const bool buffers = me.transport().capabilities().eager_bytes >= 500;
    if (sends) {
      if (!me.wait(all, "the last words")) return;
      me.close(0);
      me.barrier_with_progress();
    } else {
      if (buffers) me.barrier_with_progress();
      for (std::size_t i = 0; i < all.size(); ++i) me.peer(1).recv({view(data[i])}, user(1), all[i]);
      if (!me.wait(all, "the last words")) return;
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_TRUE(all[i].status.ok()) << all[i].status.message();
        EXPECT_TRUE(data[i] == pattern(500, static_cast<unsigned>(i)));
      }
      if (!buffers) me.barrier_with_progress();
    }
  });
}

TEST_P(Conformance, Probe_SaysWhyAStrangerCannotBeReached) {
  ranks(2, [](Rank& me) {
    EXPECT_TRUE(me.transport().probe(me.address_of(1 - me.rank())).ok);
    const Reach r = me.transport().probe(Address(3, std::byte{1}));
    EXPECT_FALSE(r.ok);
    EXPECT_FALSE(r.reason.empty());
  });
}

}  // namespace
}  // namespace sinew::test

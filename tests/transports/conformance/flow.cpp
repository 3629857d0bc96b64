// Flow control and continuations: nobody's message blocks another's, and a completion may post.
#include <sinew/conformance/conformance.hpp>

namespace sinew::test {
namespace {

TEST_P(Conformance, ExhaustedCredit_DoesNotBlockWhatIsAskedFor) {
  ranks(2, [](Rank& me) {
    constexpr std::uint32_t kCount = 1500;
    const auto data = pattern(1000, 1);
    std::vector<Watched> flood(kCount);
    Watched wanted;
    std::vector<std::byte> in(1000);
    if (me.rank() == 0) {
      for (Watched& w : flood) me.peer(1).send(view(data), user(1), 0, w);
      me.peer(1).send(view(data), user(2), 0, wanted);
      if (!me.wait(wanted, "the send behind the flood") || !me.wait(flood, "the flood")) return;
    } else {
      me.peer(0).recv({view(in)}, user(2), wanted);
      if (!me.wait(wanted, "the message behind the flood")) return;
      EXPECT_TRUE(in == data);
      std::vector<std::vector<std::byte>> all(kCount, std::vector<std::byte>(1000));
      for (std::uint32_t i = 0; i < kCount; ++i) me.peer(0).recv({view(all[i])}, user(1), flood[i]);
      if (!me.wait(flood, "the flood")) return;
      for (const auto& a : all) EXPECT_TRUE(a == data);
    }
  });
}

TEST_P(Conformance, EmptyMessages_AreBoundedAndDelivered) {
  ranks(2, [](Rank& me) {
    std::vector<Watched> all(6000);
    if (me.rank() == 1) me.linger(std::chrono::milliseconds(20));
    for (Watched& w : all) {
      if (me.rank() == 0) {
        me.peer(1).send({}, user(1), 0, w);
      } else {
        me.peer(0).recv({}, user(1), w);
      }
    }
    me.wait(all, "empty messages");
  });
}

TEST_P(Conformance, LargeMessageNobodyAskedFor_BlocksNobody) {
  ranks(2, [](Rank& me) {
    const auto large = pattern(8 << 20, 1);
    const auto other = pattern(3 << 20, 2);
    std::vector<std::byte> in_large(large.size()), in(other.size());
    Watched first, second;
    if (me.rank() == 0) {
      me.peer(1).send(view(large), user(1), 0, first);
      me.peer(1).send(view(other), user(2), 0, second);
      if (!me.wait(second, "the second send") || !me.wait(first, "the first send")) return;
    } else {
      me.peer(0).recv({view(in)}, user(2), second);
      if (!me.wait(second, "the second message")) return;
      me.peer(0).recv({view(in_large)}, user(1), first);
      if (!me.wait(first, "the first message")) return;
      EXPECT_TRUE(in == other && in_large == large);
    }
  });
}

TEST_P(Conformance, ManyOutstanding_BothWays) {
  ranks(2, [](Rank& me) {
    constexpr std::uint32_t kCount = 64;
    constexpr std::size_t kBytes = 150001;
    const int other = 1 - me.rank();
    std::vector<Watched> all(2 * kCount);
    const auto out = pattern(kBytes, static_cast<unsigned>(me.rank()));
    std::vector<std::vector<std::byte>> in(kCount, std::vector<std::byte>(kBytes));
    for (std::uint32_t i = 0; i < kCount; ++i) {
      me.peer(other).send(view(out), step(i), 0, all[2 * i]);
      me.peer(other).recv({view(in[i])}, step(i), all[2 * i + 1]);
    }
    if (!me.wait(all)) return;
    const auto expected = pattern(kBytes, static_cast<unsigned>(other));
    for (const auto& v : in) EXPECT_TRUE(v == expected);
  });
}

/// A continuation posts the next exchange: what a schedule does all the time.
TEST_P(Conformance, Completion_MayPostTheNextOperation) {
  ranks(2, [](Rank& me) {
    constexpr std::size_t kRounds = 200;
    const int other = 1 - me.rank();
    std::vector<Watched> sends(kRounds), receives(kRounds);
    std::vector<std::uint64_t> in(kRounds), out(kRounds);
    const auto round = [&](std::size_t i) {
      out[i] = 1000 * i + static_cast<std::size_t>(me.rank());
      const auto t = step(static_cast<std::uint32_t>(i % 7));
      me.peer(other).recv({{reinterpret_cast<std::byte*>(&in[i]), 8}}, t, receives[i]);
      me.peer(other).send({reinterpret_cast<const std::byte*>(&out[i]), 8}, t, 0, sends[i]);
    };
    for (std::size_t i = 0; i + 1 < kRounds; ++i) {
      receives[i].then = [&, i] { round(i + 1); };
    }
    round(0);
    if (!me.wait(receives) || !me.wait(sends)) return;
    for (std::size_t i = 0; i < kRounds; ++i) EXPECT_EQ(in[i], 1000 * i + static_cast<std::size_t>(other));
  });
}

TEST_P(Conformance, Transport_IsActiveExactlyWhileSomethingIsPending) {
  ranks(2, [](Rank& me) {
    Watched w;
    std::byte b{};
    EXPECT_FALSE(me.transport().active());
    if (me.rank() == 0) {
      me.peer(1).recv({{&b, 1}}, step(1), w);
      EXPECT_TRUE(me.transport().active());
      me.barrier();
    } else {
      me.barrier();
      me.peer(0).send({&b, 1}, step(1), 0, w);
    }
    me.wait(w);
    me.until([&] { return !me.transport().active(); }, "the transport to be idle");
  });
}

}  // namespace
}  // namespace sinew::test

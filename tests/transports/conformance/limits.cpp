// At the limits that a transport states: eager and longest messages, credit.
#include <sys/mman.h>

#include <algorithm>

#include <sinew/conformance/conformance.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

TEST_P(Conformance, SizesAroundTheEagerLimit_ArriveExpectedAndUnexpected) {
  const std::size_t eager = std::min(capabilities().eager_bytes, std::size_t{4} << 20);
  ranks(2, [eager](Rank& me) {
    for (const bool unexpected : {false, true}) {
      std::vector<std::size_t> sizes = {eager, eager + 1, 2 * eager + 1};
      if (eager > 0) sizes.push_back(eager - 1);
      std::vector<std::vector<std::byte>> data(sizes.size());
      std::vector<Watched> all(sizes.size());
      if (unexpected && me.rank() == 1) me.linger(std::chrono::milliseconds(30));
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto tag = user(static_cast<std::uint32_t>(i));
        data[i] = me.rank() == 0 ? pattern(sizes[i], static_cast<unsigned>(i)) : std::vector<std::byte>(sizes[i]);
        if (me.rank() == 0) {
          me.peer(1).send(view(data[i]), tag, 0, all[i]);
        } else {
          me.peer(0).recv({view(data[i])}, tag, all[i]);
        }
      }
      if (!me.wait(all)) return;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_TRUE(all[i].status.ok()) << all[i].status.message();
        EXPECT_TRUE(data[i] == pattern(sizes[i], static_cast<unsigned>(i))) << sizes[i] << " bytes";
      }
      me.barrier_with_progress();
    }
  });
}

/// Memory of any size that costs nothing until it is touched.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes) : bytes_(bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (memory_ == MAP_FAILED) throw_errno("mmap");
  }
  ~Reserved() { ::munmap(memory_, bytes_); }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  Buffer view() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  std::size_t bytes_;
  void* memory_;
};

TEST_P(Conformance, MessageLongerThanTheMaximum_IsRefusedAndTheNextArrives) {
  constexpr std::size_t kReservable = std::size_t{1} << 40;
  const std::size_t most = capabilities().max_message_bytes;
  if (most >= kReservable) GTEST_SKIP() << "max_message_bytes: no limit that a buffer here could exceed";
  ranks(2, [most](Rank& me) {
    const auto data = pattern(100, 1);
    std::vector<std::byte> in(100), nothing(100);
    Watched refused, next;
    if (me.rank() == 0) {
      const Reserved memory(most + 1);
      me.peer(1).send(memory.view(), user(1), 0, refused);
      me.peer(1).send(view(data), user(2), 0, next);
      if (!me.wait(refused, "the send of more than the maximum") || !me.wait(next, "the next send")) return;
      EXPECT_EQ(refused.status.code(), Code::InvalidArgument);
      EXPECT_NE(refused.status.message().find(std::to_string(most)), std::string_view::npos)
          << "the limit is not named: " << refused.status.message();
      EXPECT_TRUE(next.status.ok()) << next.status.message();
    } else {
      me.peer(0).recv({view(nothing)}, user(1), refused);
      me.peer(0).recv({view(in)}, user(2), next);
      if (!me.wait(next, "the next message")) return;
      EXPECT_TRUE(in == data);
      EXPECT_TRUE(me.peer(0).cancel(refused)) << "something of the refused message came";
      me.wait(refused, "the receive of the refused message");
    }
  });
}

TEST_P(Conformance, Credit_ComesBackHoweverOftenItIsExhausted) {
  ranks(2, [](Rank& me) {
    constexpr std::uint32_t kCount = 400;
    const auto bytes_of = [](std::uint32_t i) { return std::size_t{i % 5} * 600; };
    const int other = 1 - me.rank();
    for (unsigned round = 0; round < 6; ++round) {
      std::vector<Watched> sends(kCount), receives(kCount);
      std::vector<std::vector<std::byte>> out(kCount), in(kCount);
      for (std::uint32_t i = 0; i < kCount; ++i) {
        out[i] = pattern(bytes_of(i), i + round);
        me.peer(other).send(view(out[i]), user(i % 7), 0, sends[i]);
      }
      me.linger(std::chrono::milliseconds(5));
      for (std::uint32_t tag = 7; tag-- > 0;) {
        for (std::uint32_t i = tag; i < kCount; i += 7) {
          in[i].resize(bytes_of(i));
          me.peer(other).recv({view(in[i])}, user(tag), receives[i]);
        }
      }
      if (!me.wait(receives, "receives of the flood") || !me.wait(sends, "sends of the flood")) return;
      EXPECT_TRUE(in == out) << "round " << round;
    }
  });
}

TEST_P(Conformance, Completions_FireExactlyOnce) {
  ranks(2, [](Rank& me) {
    constexpr std::uint32_t kCount = 24;
    const int other = 1 - me.rank();
    std::vector<Watched> sends(kCount), receives(kCount), cancelled(kCount);
    std::vector<std::vector<std::byte>> out(kCount), in(kCount);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      out[i] = pattern(i % 4 == 3 ? 200000 : 50 * i, i);
      in[i].resize(out[i].size());
      me.peer(other).recv({view(in[i])}, user(i), receives[i]);
      me.peer(other).recv({}, user(1000 + i), cancelled[i]);
      me.peer(other).send(view(out[i]), user(i), 0, sends[i]);
      EXPECT_TRUE(me.peer(other).cancel(cancelled[i]));
    }
    if (!me.wait(sends) || !me.wait(receives) || !me.wait(cancelled)) return;
    me.barrier_with_progress();
    me.linger(std::chrono::milliseconds(10));
    me.close(other);
    for (const auto* all : {&sends, &receives, &cancelled}) {
      for (const Watched& w : *all) EXPECT_EQ(w.fired, 1);
    }
  });
}

}  // namespace
}  // namespace sinew::test

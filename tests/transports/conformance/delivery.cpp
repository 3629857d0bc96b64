// What arrives: every size, in order, under its tag, in both directions, between several ranks.
#include <sys/mman.h>

#include <algorithm>

#include <sinew/conformance/conformance.hpp>

namespace sinew::test {
namespace {

const std::size_t kSizes[] = {0, 1, 7, 64, 1000, 4096, 16383, 65537, 300000, (1 << 20) + 3, 5 << 20};

TEST_P(Conformance, EverySize_ArrivesInBothDirectionsAtOnce) {
  ranks(2, [](Rank& me) {
    const int other = 1 - me.rank();
    for (const std::size_t bytes : kSizes) {
      const auto out = pattern(bytes, static_cast<unsigned>(me.rank()) + 1);
      std::vector<std::byte> in(bytes + 1, std::byte{0x77});
      Watched s, r;
      me.peer(other).recv({{in.data(), bytes}}, step(1), r);
      me.peer(other).send(view(out), step(1), 42, s);
      if (!me.wait(r, "a receive") || !me.wait(s, "a send")) return;
      EXPECT_TRUE(r.status.ok() && s.status.ok()) << bytes << ": " << r.status.message() << s.status.message();
      EXPECT_EQ(r.bytes, bytes);
      EXPECT_EQ(r.note, 42u);
      auto expected = pattern(bytes, static_cast<unsigned>(other) + 1);
      expected.push_back(std::byte{0x77});
      EXPECT_TRUE(in == expected) << bytes << " bytes arrived changed, or something was written behind them";
    }
  });
}

/// Memory of a mapping of its own. It goes with this object, and another may then lie at the same place.
class Mapped {
 public:
  Mapped(std::size_t bytes, void* at) : bytes_(bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at == nullptr ? 0 : MAP_FIXED_NOREPLACE);
    memory_ = ::mmap(at, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
  }
  ~Mapped() {
    if (here()) ::munmap(memory_, bytes_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  bool here() const { return memory_ != MAP_FAILED; }
  Buffer buffer() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  std::size_t bytes_;
  void* memory_;
};

/// A library that keeps memory registered between messages must notice that the memory has gone.
TEST_P(Conformance, MemoryThatIsMappedAnewAtItsPlace_IsReadAndWrittenAnew) {
  ranks(2, [](Rank& me) {
    constexpr std::size_t kBytes = 3 << 20;
    void* place = nullptr;
    for (unsigned message = 0; message < 6; ++message) {
      const Mapped memory(kBytes, place);
      // Another thread of this process may have taken the place meanwhile. Then the message is one of another place.
      const Mapped elsewhere(memory.here() ? 1 : kBytes, nullptr);
      const Buffer buffer = memory.here() ? memory.buffer() : elsewhere.buffer();
      place = buffer.data;
      const std::vector<std::byte> data = pattern(kBytes, message);
      Watched w;
      if (me.rank() == 0) {
        std::ranges::copy(data, buffer.data);
        me.peer(1).send(buffer, step(1), 0, w);
      } else {
        me.peer(0).recv({buffer}, step(1), w);
      }
      if (!me.wait(w, "a message")) return;
      ASSERT_TRUE(w.status.ok()) << w.status.message();
      EXPECT_TRUE(std::equal(data.begin(), data.end(), buffer.data)) << "message " << message;
    }
  });
}

/// Each receive is looked at as soon as it says that it is over.
TEST_P(Conformance, SeveralSenders_ToOneReceiver_AreNotMistaken) {
  ranks(4, [](Rank& me) {
    constexpr int kRounds = 25;
    const auto mark = [](int round, int rank) { return static_cast<unsigned>(round * 8 + rank); };
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t bytes = round % 5 == 0 ? 3'000'000 : 200'000;
      std::vector<Watched> w(4);
      if (me.rank() != 0) {
        const auto out = pattern(bytes, mark(round, me.rank()));
        me.peer(0).send(view(out), step(1), 0, w[0]);
        if (!me.wait(w[0], "a send")) return;
        continue;
      }
      std::vector<std::vector<std::byte>> in(4, std::vector<std::byte>(bytes));
      for (int r = 1; r < 4; ++r)
        me.peer(r).recv({view(in[static_cast<std::size_t>(r)])}, step(1), w[static_cast<std::size_t>(r)]);
      std::vector<bool> seen(4);
      const auto look = [&] {
        for (std::size_t r = 1; r < 4; ++r) {
          if (seen[r] || !w[r].fired) continue;
          seen[r] = true;
          EXPECT_TRUE(w[r].status.ok()) << w[r].status.message();
          EXPECT_TRUE(in[r] == pattern(bytes, mark(round, static_cast<int>(r)))) << "round " << round << ", rank " << r;
        }
        return std::ranges::count(seen, true) == 3;
      };
      if (!me.until(look, "what the others send")) return;
    }
  });
}

TEST_P(Conformance, ShortMessage_FillsPartOfALongerReceive) {
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : {std::size_t{10}, std::size_t{400000}}) {
      Watched w;
      std::vector<std::byte> buffer = me.rank() == 0 ? pattern(bytes, 3) : std::vector<std::byte>(bytes + 100);
      if (me.rank() == 0) {
        me.peer(1).send(view(buffer), step(1), 0, w);
      } else {
        me.peer(0).recv({view(buffer)}, step(1), w);
      }
      ASSERT_TRUE(me.wait(w));
      EXPECT_EQ(w.bytes, bytes);
      buffer.resize(bytes);
      EXPECT_TRUE(buffer == pattern(bytes, 3));
    }
  });
}

/// Small and large messages of one tag take different ways; they must not overtake each other.
TEST_P(Conformance, SameTag_ArrivesInTheOrderOfTheSends) {
  ranks(2, [](Rank& me) {
    constexpr std::size_t kCount = 60;
    const auto bytes_of = [](std::size_t i) { return i % 3 == 0 ? std::size_t{200000} + i : std::size_t{8} + i; };
    for (const bool late : {false, true}) {
      std::vector<Watched> all(kCount);
      std::vector<std::vector<std::byte>> data(kCount);
      if (me.rank() == 1 && late) me.linger(std::chrono::milliseconds(50));
      for (std::size_t i = 0; i < kCount; ++i) {
        if (me.rank() == 0) {
          data[i] = pattern(bytes_of(i), static_cast<unsigned>(i));
          me.peer(1).send(view(data[i]), user(9), i, all[i]);
        } else {
          data[i].resize(250000);
          me.peer(0).recv({view(data[i])}, user(9), all[i]);
        }
      }
      if (!me.wait(all)) return;
      for (std::size_t i = 0; me.rank() == 1 && i < kCount; ++i) {
        EXPECT_EQ(all[i].note, i);
        data[i].resize(all[i].bytes);
        EXPECT_TRUE(data[i] == pattern(bytes_of(i), static_cast<unsigned>(i))) << "message " << i;
      }
    }
  });
}

TEST_P(Conformance, Tags_MatchExactlyWhateverTheOrderOfPosting) {
  ranks(2, [](Rank& me) {
    constexpr std::uint32_t kCount = 300;
    const int other = 1 - me.rank();
    std::vector<Watched> sends(kCount), receives(kCount);
    std::vector<std::vector<std::byte>> out(kCount), in(kCount);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      out[i] = pattern(i % 50 == 0 ? 100000 : 24, i);
      me.peer(other).send(view(out[i]), i % 2 ? user(i) : step(i), i, sends[i]);
    }
    for (std::uint32_t i = kCount; i-- > 0;) {
      in[i].resize(out[i].size());
      me.peer(other).recv({view(in[i])}, i % 2 ? user(i) : step(i), receives[i]);
    }
    if (!me.wait(sends, "sends") || !me.wait(receives, "receives")) return;
    for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_TRUE(in[i] == out[i] && receives[i].note == i) << "tag " << i;
  });
}

TEST_P(Conformance, Unexpected_MessagesWaitForTheirReceive) {
  ranks(2, [](Rank& me) {
    constexpr std::uint32_t kCount = 40;
    std::vector<Watched> all(kCount);
    std::vector<std::vector<std::byte>> data(kCount);
    const auto bytes_of = [](std::uint32_t i) { return std::size_t{i} * i * 70; };
    if (me.rank() == 1) me.linger(std::chrono::milliseconds(100));
    for (std::uint32_t k = 0; k < kCount; ++k) {
      const std::uint32_t i = me.rank() == 0 ? k : kCount - 1 - k;
      if (me.rank() == 0) {
        data[i] = pattern(bytes_of(i), i);
        me.peer(1).send(view(data[i]), step(i), 0, all[i]);
      } else {
        data[i].resize(bytes_of(i));
        me.peer(0).recv({view(data[i])}, step(i), all[i]);
      }
    }
    if (!me.wait(all)) return;
    for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_TRUE(data[i] == pattern(bytes_of(i), i)) << i;
  });
}

TEST_P(Conformance, Holds_AMessageUntilItIsReceived) {
  ranks(2, [](Rank& me) {
    for (const std::uint32_t round : {1U, 2U}) {
      const std::size_t bytes = round == 1 ? 8 : 300'000;
      const Tag tag = step(round);
      std::vector<std::byte> data = pattern(bytes, 1);
      Watched done;
      if (me.rank() == 0) {
        me.peer(1).send(view(data), tag, 0, done);
        if (!me.wait(done)) return;
        continue;
      }
      if (!me.until([&] { return me.peer(0).has_unexpected(tag); }, "a message to come")) return;
      EXPECT_TRUE(me.peer(0).has_unexpected(tag));
      EXPECT_FALSE(me.peer(0).has_unexpected(step(3)));
      std::vector<std::byte> got(bytes);
      me.peer(0).recv({view(got)}, tag, done);
      EXPECT_FALSE(me.peer(0).has_unexpected(tag));
      if (!me.wait(done)) return;
      EXPECT_TRUE(got == data) << bytes;
    }
  });
}

TEST_P(Conformance, PeersConnectAtDifferentTimes_AndNothingIsLost) {
  ranks(3, [](Rank& me) {
    std::vector<Watched> all(2 * 2 * 2);
    std::vector<std::vector<std::byte>> in(4), out(4);
    std::size_t k = 0;
    if (me.rank() == 1) me.linger(std::chrono::milliseconds(60));
    if (me.rank() == 2) me.linger(std::chrono::milliseconds(120));
    for (int p = 0; p < 3; ++p) {
      if (p == me.rank()) continue;
      for (const std::size_t bytes : {std::size_t{100}, std::size_t{500000}}) {
        out[k / 2] = pattern(bytes, static_cast<unsigned>(10 * me.rank() + p));
        in[k / 2].resize(bytes);
        const Tag t = user(static_cast<std::uint32_t>(bytes));
        me.peer(p).send(view(out[k / 2]), t, 0, all[k]);
        me.peer(p).recv({view(in[k / 2])}, t, all[k + 1]);
        k += 2;
      }
    }
    if (!me.wait(all)) return;
    k = 0;
    for (int p = 0; p < 3; ++p) {
      if (p == me.rank()) continue;
      for (int n = 0; n < 2; ++n, ++k) {
        EXPECT_TRUE(in[k] == pattern(in[k].size(), static_cast<unsigned>(10 * p + me.rank()))) << "from " << p;
      }
    }
  });
}

}  // namespace
}  // namespace sinew::test

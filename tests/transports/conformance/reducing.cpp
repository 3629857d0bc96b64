// Reducing sinks: into = with (op) message, from any piece of memory the transport has.
#include <cstring>

#include <sinew/conformance/conformance.hpp>

namespace sinew::test {
namespace {

/// Not commutative, so that exchanged operands show: 2 * a + b on 32-bit words.
void twice_plus(void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::memcpy(&x, static_cast<const char*>(a) + 4 * i, 4);
    std::memcpy(&y, static_cast<const char*>(b) + 4 * i, 4);
    const std::uint32_t z = 2 * x + y;
    std::memcpy(static_cast<char*>(dst) + 4 * i, &z, 4);
  }
}
const Reducer kTwicePlus{twice_plus, nullptr, 4};

std::vector<std::byte> combined(const std::vector<std::byte>& with, const std::vector<std::byte>& message) {
  std::vector<std::byte> out(with.size());
  twice_plus(out.data(), with.data(), message.data(), with.size() / 4, nullptr);
  return out;
}

TEST_P(Conformance, ReducingSink_CombinesOperandAndMessage) {
  ranks(2, [](Rank& me) {
    for (const std::size_t count : {0u, 1u, 3u, 1000u, 4099u, 65537u, 70001u, 131074u, 400003u}) {
      const auto message = pattern(4 * count, 1);
      const auto with = pattern(4 * count, 2);
      for (const bool late : {false, true}) {
        Watched w;
        std::vector<std::byte> into(4 * count, std::byte{0x11});
        if (me.rank() == 0) {
          me.peer(1).send(view(message), step(1), 0, w);
        } else {
          if (late) me.linger(std::chrono::milliseconds(5));
          me.peer(0).recv({view(into), &kTwicePlus, view(with)}, step(1), w);
        }
        if (!me.wait(w)) return;
        ASSERT_TRUE(w.status.ok()) << w.status.message();
        if (me.rank() == 1) {
          EXPECT_TRUE(into == combined(with, message)) << count << " elements";
          EXPECT_EQ(w.bytes, 4 * count);
        }
      }
    }
  });
}

TEST_P(Conformance, ReducingSink_CombinesIntoItself) {
  ranks(2, [](Rank& me) {
    for (const std::size_t count : {5u, 300001u}) {
      for (const bool named : {false, true}) {
        const auto message = pattern(4 * count, 1);
        auto into = pattern(4 * count, 2);
        Watched w;
        if (me.rank() == 0) {
          me.peer(1).send(view(message), step(1), 0, w);
        } else {
          me.peer(0).recv({view(into), &kTwicePlus, named ? ConstBuffer(view(into)) : ConstBuffer{}}, step(1), w);
        }
        if (!me.wait(w)) return;
        if (me.rank() == 1) {
          EXPECT_TRUE(into == combined(pattern(4 * count, 2), message)) << count << (named ? ", named" : "");
        }
      }
    }
  });
}

/// Two reductions of one pair at once: their pieces must not mix.
TEST_P(Conformance, ReducingSink_KeepsMessagesApart) {
  ranks(2, [](Rank& me) {
    constexpr std::size_t kBytes = 1200004;
    std::vector<Watched> all(6);
    std::vector<std::vector<std::byte>> data(6);
    for (std::size_t i = 0; i < all.size(); ++i) {
      data[i] = pattern(kBytes, static_cast<unsigned>(i) + (me.rank() == 1 ? 100 : 0));
      const auto t = static_cast<std::uint32_t>(i);
      if (me.rank() == 0) {
        me.peer(1).send(view(data[i]), step(t), 0, all[i]);
      } else {
        me.peer(0).recv({view(data[i]), &kTwicePlus}, step(t), all[i]);
      }
    }
    if (!me.wait(all)) return;
    for (std::size_t i = 0; me.rank() == 1 && i < all.size(); ++i) {
      const auto seed = static_cast<unsigned>(i);
      EXPECT_TRUE(data[i] == combined(pattern(kBytes, seed + 100), pattern(kBytes, seed))) << i;
    }
  });
}

}  // namespace
}  // namespace sinew::test

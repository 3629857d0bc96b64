// Remote memory: what get and put move, and when they say so.
#include <algorithm>

#include <sinew/conformance/conformance.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

constexpr std::size_t kRegistered = 3000007;
constexpr std::size_t kLengths[] = {0, 1, 8, 1000, 65537, 2000003};

constexpr char kMissing[] = "one_sided: the transport does not reach into a peer's memory";

/// Rank 0 works on the memory of rank 1, which only makes progress.
struct Pair {
  explicit Pair(Rank& rank)
      : me(rank), memory(pattern(kRegistered, 1)), region(me.transport().register_memory(view(memory))) {
    me.peer(1 - me.rank());
    for (Bytes& bytes : me.gather(region.key.bytes)) keys.push_back({std::move(bytes)});
  }
  OneSided& one_sided() {
    OneSided* found = me.transport().one_sided();
    if (found == nullptr) throw Error(Code::Unavailable, "capabilities() has one_sided, the transport has not");
    return *found;
  }

  Rank& me;
  std::vector<std::byte> memory;
  Region region;
  std::vector<RemoteKey> keys;
};

TEST_P(Conformance, OneSidedGet_BringsAnyPartOfThePeersMemory) {
  if (!capabilities().one_sided) GTEST_SKIP() << kMissing;
  ranks(2, [](Rank& me) {
    Pair pair(me);
    if (me.rank() == 0) {
      for (const std::size_t bytes : kLengths) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{13}, kRegistered - bytes}) {
          std::vector<std::byte> in(bytes + 1, std::byte{0x77});
          Watched w;
          pair.one_sided().get(me.peer(1), pair.keys[1], offset, {in.data(), bytes}, w);
          EXPECT_EQ(w.fired, 0) << "nothing completes inside get";
          if (!me.wait(w, "a get")) return;
          EXPECT_TRUE(w.status.ok()) << w.status.message();
          EXPECT_EQ(w.bytes, bytes);
          EXPECT_EQ(in.back(), std::byte{0x77}) << "something was written behind the bytes";
          in.pop_back();
          EXPECT_TRUE(std::equal(in.begin(), in.end(), pair.memory.begin() + static_cast<std::ptrdiff_t>(offset)))
              << bytes << " bytes from " << offset;
        }
      }
    }
    me.barrier_with_progress();
  });
}

TEST_P(Conformance, OneSidedPut_IsInThePeersMemoryWhenItSaysSo) {
  if (!capabilities().one_sided) GTEST_SKIP() << kMissing;
  ranks(2, [](Rank& me) {
    for (const std::size_t bytes : kLengths) {
      Pair pair(me);
      const auto data = pattern(bytes, 2);
      constexpr std::size_t kOffset = 11;
      if (me.rank() == 0) {
        Watched w;
        pair.one_sided().put(me.peer(1), view(data), pair.keys[1], kOffset, w);
        EXPECT_EQ(w.fired, 0) << "nothing completes inside put";
        if (!me.wait(w, "a put")) return;
        EXPECT_TRUE(w.status.ok()) << w.status.message();
      }
      me.barrier_with_progress();
      auto expected = pattern(kRegistered, 1);
      if (me.rank() == 1) std::copy(data.begin(), data.end(), expected.begin() + kOffset);
      EXPECT_TRUE(pair.memory == expected) << bytes << " bytes, rank " << me.rank();
      me.barrier_with_progress();
    }
  });
}

TEST_P(Conformance, OneSidedGets_AllComeFromBothSidesAtOnce) {
  if (!capabilities().one_sided) GTEST_SKIP() << kMissing;
  ranks(2, [](Rank& me) {
    constexpr std::size_t kCount = 100;
    constexpr std::size_t kBytes = 20001;
    Pair pair(me);
    std::vector<Watched> all(kCount);
    std::vector<std::vector<std::byte>> in(kCount, std::vector<std::byte>(kBytes));
    const int other = 1 - me.rank();
    for (std::size_t i = 0; i < kCount; ++i) {
      pair.one_sided().get(me.peer(other), pair.keys[static_cast<std::size_t>(other)], i * kBytes, view(in[i]), all[i]);
    }
    if (!me.wait(all, "gets")) return;
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(all[i].status.ok()) << all[i].status.message();
      EXPECT_TRUE(
          std::equal(in[i].begin(), in[i].end(), pair.memory.begin() + static_cast<std::ptrdiff_t>(i * kBytes)));
    }
    me.barrier_with_progress();
  });
}

TEST_P(Conformance, OneSided_OutsideOfTheMemoryIsTheCallersMistake) {
  if (!capabilities().one_sided) GTEST_SKIP() << kMissing;
  ranks(2, [](Rank& me) {
    Pair pair(me);
    std::vector<std::byte> bytes(2);
    const auto refuses = [&](std::size_t offset) {
      Watched w;
      for (const bool is_get : {true, false}) {
        try {
          if (is_get) {
            pair.one_sided().get(me.peer(1), pair.keys[1], offset, view(bytes), w);
          } else {
            pair.one_sided().put(me.peer(1), view(bytes), pair.keys[1], offset, w);
          }
          ADD_FAILURE() << "2 bytes at " << offset << " of " << kRegistered;
          me.wait(w);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::InvalidArgument);
          EXPECT_NE(std::string(e.what()).find(std::to_string(kRegistered)), std::string::npos) << e.what();
        }
        EXPECT_EQ(w.fired, 0);
      }
    };
    if (me.rank() == 0) {
      refuses(kRegistered - 1);
      refuses(kRegistered + 1);
      refuses(~std::size_t{0});
    }
    me.barrier_with_progress();
  });
}

TEST_P(Conformance, OneSidedMap_ShowsThePeersMemoryOrNothing) {
  if (!capabilities().one_sided) GTEST_SKIP() << kMissing;
  ranks(2, [](Rank& me) {
    Pair pair(me);
    const auto other = static_cast<std::size_t>(1 - me.rank());
    const std::byte* mapped = pair.one_sided().map(pair.keys[other]);
    if (mapped != nullptr) {
      EXPECT_TRUE(std::equal(pair.memory.begin(), pair.memory.end(), mapped));
    }
    me.barrier_with_progress();
  });
}

/// An endpoint that is closed has no operation left that could still write.
TEST_P(Conformance, OneSidedClose_LeavesNothingPending) {
  if (!capabilities().one_sided) GTEST_SKIP() << kMissing;
  ranks(2, [](Rank& me) {
    Pair pair(me);
    if (me.rank() == 0) {
      std::vector<std::byte> in(2000000);
      Watched get;
      pair.one_sided().get(me.peer(1), pair.keys[1], 0, view(in), get);
      me.close(1);
      EXPECT_EQ(get.fired, 1) << "not before the endpoint said it was quiet";
      EXPECT_TRUE(get.status.ok() || get.status.code() == Code::Cancelled) << get.status.message();
    }
    me.barrier_with_progress();
  });
}

}  // namespace
}  // namespace sinew::test

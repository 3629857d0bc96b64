#include <gtest/gtest.h>

#include <sinew/core/error.hpp>

#include "support/ranks.hpp"
#include "transports/ofi/pair.hpp"

namespace sinew::test {
namespace {

struct RemoteMemoryCase {
  std::string name;
  const char* provider;
  std::size_t largest_piece;
  void (*run)(int ranks, const RankBody& body);
};

void remote_memory_of_threads(int ranks, const RankBody& body) { run_as_threads(ranks, body); }

class OfiRemoteMemory : public testing::TestWithParam<RemoteMemoryCase> {
 protected:
  /// Rank 1 shows memory, rank 0 reads and writes it; `body` runs on rank 0.
  void with_region(std::size_t bytes, const std::function<void(Rank&, OneSided&, const RemoteKey&)>& body,
                   const std::function<void(const std::vector<std::byte>&)>& afterwards) {
    GetParam().run(2, [&](const Exchange& world) {
      Rank me(world, [](const Exchange& w) -> Rail {
        ofi::Options o = ofi_options(w.rank, GetParam().provider);
        o.largest_piece = GetParam().largest_piece;
        return ofi::make_transport(o);
      });
      me.peer(1 - me.rank());
      std::vector<std::byte> memory = pattern(me.rank() == 1 ? bytes : 0, 4);
      const Region region = me.transport().register_memory(view(memory));
      const RemoteKey key{world.all_gather(region.key.bytes)[1]};
      ASSERT_NE(me.transport().one_sided(), nullptr);
      EXPECT_TRUE(me.transport().capabilities().one_sided);
      if (me.rank() == 0) body(me, *me.transport().one_sided(), key);
      me.barrier_with_progress();
      if (me.rank() == 1) afterwards(memory);
    });
  }
};

TEST_P(OfiRemoteMemory, Get_ReadsAnyPart) {
  const auto body = [](Rank& me, OneSided& remote, const RemoteKey& key) {
    EXPECT_EQ(remote.map(key), nullptr);
    const auto all = pattern(300000, 4);
    for (const std::size_t bytes : {0u, 1u, 4097u, 200001u}) {
      std::vector<std::byte> in(bytes);
      Watched w;
      remote.get(me.peer(1), key, 99999, view(in), w);
      EXPECT_EQ(w.fired, 0);
      if (!me.wait(w, "a get")) return;
      EXPECT_TRUE(w.status.ok()) << w.status.message();
      EXPECT_EQ(w.bytes, bytes);
      EXPECT_TRUE(std::equal(in.begin(), in.end(), all.begin() + 99999));
    }
  };
  with_region(300000, body, [](const auto&) {});
}

TEST_P(OfiRemoteMemory, Put_IsThereWhenItIsDone) {
  const auto body = [](Rank& me, OneSided& remote, const RemoteKey& key) {
    const auto out = pattern(150001, 9);
    Watched w;
    remote.put(me.peer(1), view(out), key, 77, w);
    if (!me.wait(w, "a put")) return;
    EXPECT_TRUE(w.status.ok()) << w.status.message();
  };
  with_region(200000, body, [](const std::vector<std::byte>& memory) {
    auto expected = pattern(200000, 4);
    const auto written = pattern(150001, 9);
    std::copy(written.begin(), written.end(), expected.begin() + 77);
    EXPECT_TRUE(memory == expected);
  });
}

TEST_P(OfiRemoteMemory, OutsideOfTheRegion_IsRefused) {
  const auto body = [](Rank& me, OneSided& remote, const RemoteKey& key) {
    std::vector<std::byte> in(11);
    Watched w;
    EXPECT_THROW(remote.get(me.peer(1), key, 90, view(in), w), Error);
    EXPECT_THROW(remote.get(me.peer(1), key, 101, {}, w), Error);
    EXPECT_THROW(remote.get(me.peer(1), RemoteKey{Bytes(40)}, 0, view(in), w), Error);
    EXPECT_EQ(w.fired, 0);
  };
  with_region(100, body, [](const std::vector<std::byte>& memory) { EXPECT_TRUE(memory == pattern(100, 4)); });
}

INSTANTIATE_TEST_SUITE_P(ofi, OfiRemoteMemory,
                         testing::Values(RemoteMemoryCase{"tcp", kTcp, 4 << 20, remote_memory_of_threads},
                                         RemoteMemoryCase{"tcp_cut", kTcp, 10000, remote_memory_of_threads},
                                         RemoteMemoryCase{"shm", kShm, 4 << 20, run_as_processes},
                                         RemoteMemoryCase{"shm_cut", kShm, 10000, run_as_processes}),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace sinew::test

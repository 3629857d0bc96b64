#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/call/collective.hpp>

namespace sinew {
namespace {

CollectiveDesc desc_of(Collective c, DType t, std::uint64_t count) {
  CollectiveDesc d;
  d.collective = c;
  d.dtype = t;
  d.count = count;
  return d;
}

TEST(CollectiveDesc, Bytes_AreThoseOfTheLargerBuffer) {
  EXPECT_EQ(desc_of(Collective::AllReduce, DType::F32, 10).bytes(4), 40u);
  EXPECT_EQ(desc_of(Collective::Broadcast, DType::F64, 10).bytes(4), 80u);
  EXPECT_EQ(desc_of(Collective::Reduce, DType::BF16, 10).bytes(4), 20u);
  EXPECT_EQ(desc_of(Collective::AllGather, DType::F32, 10).bytes(4), 160u);
  EXPECT_EQ(desc_of(Collective::ReduceScatter, DType::F32, 10).bytes(4), 160u);
  EXPECT_EQ(desc_of(Collective::Gather, DType::U8, 10).bytes(4), 40u);
  EXPECT_EQ(desc_of(Collective::Scatter, DType::U8, 10).bytes(4), 40u);
  EXPECT_EQ(desc_of(Collective::AllToAll, DType::I64, 10).bytes(4), 320u);
  EXPECT_EQ(desc_of(Collective::SendRecv, DType::I32, 10).bytes(4), 40u);
  EXPECT_EQ(desc_of(Collective::Barrier, DType::U8, 0).bytes(4), 0u);
}

TEST(CollectiveDesc, Bytes_AreEqualOnAllRanks_InTheFormsWithCounts) {
  const std::array<std::uint64_t, 3> counts = {1, 0, 4};
  CollectiveDesc d = desc_of(Collective::AllGatherV, DType::F32, 0);
  d.counts = counts;
  EXPECT_EQ(d.bytes(3), 20u);
  d.collective = Collective::ReduceScatterV;
  EXPECT_EQ(d.bytes(3), 20u);
  d.collective = Collective::AllToAllV;
  EXPECT_EQ(d.bytes(3), 0u);
  d.largest_bytes = 4096;
  EXPECT_EQ(d.bytes(3), 4096u);
}

TEST(CollectiveDesc, ToString_ShowsWhatTheCallHas) {
  CollectiveDesc d = desc_of(Collective::AllReduce, DType::F32, 1024);
  EXPECT_EQ(d.to_string(), "all_reduce(f32, sum, count 1024)");
  d.op = ReduceOp::Average;
  d.determinism = Determinism::Reproducible;
  EXPECT_EQ(d.to_string(), "all_reduce(f32, avg, count 1024, reproducible)");
  d.determinism = Determinism::Fast;
  d.codec = Codec::Int8;
  EXPECT_EQ(d.to_string(), "all_reduce(f32, avg, count 1024, codec int8)");
  EXPECT_EQ(describe_fingerprint(fingerprint_of(d)), d.to_string());
  d = desc_of(Collective::Broadcast, DType::BF16, 7);
  d.root = 3;
  EXPECT_EQ(d.to_string(), "broadcast(bf16, count 7, root 3)");
  const std::vector<std::uint64_t> counts = {1, 2, 3};
  d = desc_of(Collective::AllGatherV, DType::U8, 0);
  d.counts = counts;
  EXPECT_EQ(d.to_string(), "all_gather_v(u8, counts [1, 2, 3])");
  const std::vector<std::uint64_t> many(100, 5);
  d.counts = many;
  EXPECT_EQ(d.to_string(), "all_gather_v(u8, counts [5, 5, 5, 5, 5, 5, 5, 5, ...])");
  EXPECT_EQ(CollectiveDesc{}.to_string(), "barrier()");
}

TEST(Fingerprint, Describes_TheCallItWasMadeOf) {
  CollectiveDesc d = desc_of(Collective::Broadcast, DType::F32, 16);
  d.root = 1;
  EXPECT_EQ(describe_fingerprint(fingerprint_of(d)), "broadcast(f32, count 16, root 1)");
  d = desc_of(Collective::ReduceScatter, DType::F8E5M2, 2147483647u);
  d.op = ReduceOp::Max;
  d.place = {MemoryKind::Device, 3};
  EXPECT_EQ(describe_fingerprint(fingerprint_of(d)), d.to_string());
  d.captured = true;
  EXPECT_EQ(describe_fingerprint(fingerprint_of(d)), d.to_string());
  EXPECT_EQ(d.to_string(), "reduce_scatter(f8e5m2, max, count 2147483647, device memory, captured)");
  EXPECT_EQ(describe_fingerprint(fingerprint_of(CollectiveDesc{})), "barrier()");
  const std::array<std::uint64_t, 2> counts = {1, 2};
  d = desc_of(Collective::AllToAllV, DType::I32, 0);
  d.counts = counts;
  EXPECT_EQ(describe_fingerprint(fingerprint_of(d)), "all_to_all_v(i32)");
}

TEST(Fingerprint, Differs_WhenAnyPartOfTheCallDoes) {
  const CollectiveDesc base = desc_of(Collective::Reduce, DType::F32, 16);
  std::vector<CollectiveDesc> others(7, base);
  others[0].collective = Collective::AllReduce;
  others[1].dtype = DType::I32;
  others[2].op = ReduceOp::Product;
  others[3].determinism = Determinism::LayoutInvariant;
  others[4].root = 70000;
  others[5].count = 16 + (std::uint64_t{1} << 40);
  others[6].captured = true;
  for (const CollectiveDesc& d : others) EXPECT_NE(fingerprint_of(d), fingerprint_of(base)) << d.to_string();
}

TEST(Fingerprint, Describes_AnyBits) {
  for (const Fingerprint f : {~Fingerprint{0}, Fingerprint{0x1f}, Fingerprint{0xdeadbeefcafef00d}}) {
    EXPECT_FALSE(describe_fingerprint(f).empty());
  }
  EXPECT_EQ(describe_fingerprint(0x1f).front(), '?');
}

}  // namespace
}  // namespace sinew

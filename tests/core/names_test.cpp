#include <set>
#include <string>

#include <gtest/gtest.h>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {
namespace {

TEST(Names, ReadBack_ForEveryType) {
  std::set<std::string_view> seen;
  for (const DType t : all_dtypes()) {
    EXPECT_EQ(dtype_from_name(name_of(t)), t);
    seen.insert(name_of(t));
  }
  EXPECT_EQ(seen, (std::set<std::string_view>{"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16",
                                              "bf16", "f32", "f64", "f8e4m3", "f8e5m2"}));
}

TEST(Names, ReadBack_ForEveryOperator) {
  std::set<std::string_view> seen;
  for (const ReduceOp op : all_reduce_ops()) {
    EXPECT_EQ(reduce_op_from_name(name_of(op)), op);
    seen.insert(name_of(op));
  }
  EXPECT_EQ(seen, (std::set<std::string_view>{"sum", "prod", "min", "max", "avg", "premulsum", "band", "bor", "bxor"}));
  EXPECT_EQ(reduce_op_from_name("user"), ReduceOp::User);
}

TEST(Names, ReadBack_ForEveryCollective) {
  std::set<std::string_view> seen;
  for (int c = 0; c <= static_cast<int>(Collective::SendRecv); ++c) {
    const auto collective = static_cast<Collective>(c);
    EXPECT_EQ(collective_from_name(name_of(collective)), collective);
    seen.insert(name_of(collective));
  }
  EXPECT_EQ(seen.size(), 17u);
}

TEST(Names, AreTaken_AsOtherToolsSpellThem) {
  EXPECT_EQ(dtype_from_name("float"), DType::F32);
  EXPECT_EQ(dtype_from_name("double"), DType::F64);
  EXPECT_EQ(dtype_from_name("half"), DType::F16);
  EXPECT_EQ(dtype_from_name("bfloat16"), DType::BF16);
  EXPECT_EQ(dtype_from_name("int32"), DType::I32);
  EXPECT_EQ(dtype_from_name("uint8"), DType::U8);
  EXPECT_EQ(dtype_from_name("fp8_e4m3"), DType::F8E4M3);
  EXPECT_EQ(reduce_op_from_name("product"), ReduceOp::Product);
  EXPECT_EQ(reduce_op_from_name("average"), ReduceOp::Average);
  EXPECT_EQ(collective_from_name("allreduce"), Collective::AllReduce);
  EXPECT_EQ(collective_from_name("all-to-all-v"), Collective::AllToAllV);
  EXPECT_EQ(collective_from_name("AllGather"), Collective::AllGather);
}

TEST(Names, AreRefused_WhenUnknown) {
  for (const std::string_view name : {"", "f", "f33", "F32", "f32 ", "sum", "_"}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
  for (const std::string_view name : {"", "su", "sums", "f32"}) EXPECT_EQ(reduce_op_from_name(name), std::nullopt);
  for (const std::string_view name : {"", "_", "all", "reduces", "all_reduce2", "allreduce_"}) {
    const bool trailing_separator = name == "allreduce_";
    EXPECT_EQ(collective_from_name(name).has_value(), trailing_separator) << name;
  }
}

}  // namespace
}  // namespace sinew

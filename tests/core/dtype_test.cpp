#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gtest/gtest.h>

#include <sinew/core/dtype.hpp>

namespace sinew {
namespace {

template <class T>
concept HasDType = requires { DTypeOf<T>::value; };

TEST(DTypeOf, TakesEveryIntegerOfItsSizesBySign) {
  EXPECT_EQ(kDTypeOf<char>, std::is_signed_v<char> ? DType::I8 : DType::U8);
  EXPECT_EQ(kDTypeOf<signed char>, DType::I8);
  EXPECT_EQ(kDTypeOf<unsigned char>, DType::U8);
  EXPECT_EQ(kDTypeOf<short>, DType::I16);
  EXPECT_EQ(kDTypeOf<std::uint16_t>, DType::U16);
  EXPECT_EQ(kDTypeOf<int>, DType::I32);
  EXPECT_EQ(kDTypeOf<unsigned>, DType::U32);
  EXPECT_EQ(kDTypeOf<long>, sizeof(long) == 8 ? DType::I64 : DType::I32);
  EXPECT_EQ(kDTypeOf<long long>, DType::I64);
  EXPECT_EQ(kDTypeOf<unsigned long long>, DType::U64);
  EXPECT_EQ(kDTypeOf<const std::uint64_t>, DType::U64);
}

TEST(DTypeOf, TakesBoolAndBytesAsTheyAre_AndNothingElse) {
  EXPECT_EQ(kDTypeOf<std::byte>, DType::U8);
  EXPECT_EQ(kDTypeOf<bool>, DType::Bool);
  EXPECT_FALSE(HasDType<long double>);
  EXPECT_FALSE(HasDType<void*>);
}

}  // namespace
}  // namespace sinew

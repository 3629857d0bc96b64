#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <support/kernel_targets.hpp>
#include <support/reduce_reference.hpp>

namespace sinew {
namespace {

using test::bits_at;

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 16, 17, 63, 64, 65, 1000, 4099};

enum class Alias { None, First, Second, Both };

/// A buffer `offset` bytes beyond a cache line, with guard bytes on both sides.
struct Guarded {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kMark{0xa5};

  Guarded(const std::vector<std::byte>& content, std::size_t offset)
      : storage(content.size() + 4 * kGuard, kMark), bytes(content.size()) {
    const auto start = reinterpret_cast<std::uintptr_t>(storage.data());
    data = storage.data() + ((start + 2 * kGuard - 1) / kGuard * kGuard - start) + offset;
    std::copy(content.begin(), content.end(), data);
  }
  bool guards_intact() const {
    const auto is_mark = [](std::byte b) { return b == kMark; };
    return std::all_of(storage.data(), static_cast<const std::byte*>(data), is_mark) &&
           std::all_of(static_cast<const std::byte*>(data) + bytes, storage.data() + storage.size(), is_mark);
  }

  std::vector<std::byte> storage;
  std::size_t bytes;
  std::byte* data;
};

/// Index of the first element that is not what the reference says; count if all are.
std::size_t first_wrong(ReduceOp op, DType t, std::size_t count, std::size_t offset, Alias alias) {
  const auto a_before = test::any_elements(t, count, 1);
  const auto b_before = alias == Alias::Both ? a_before : test::any_elements(t, count, 2);
  Guarded a(a_before, offset);
  Guarded b(b_before, offset / 2);
  Guarded apart(std::vector<std::byte>(a_before.size()), offset * 3 % 32);
  Guarded& dst = alias == Alias::None ? apart : alias == Alias::Second ? b : a;
  reducer_for(op, t)(dst.data, a.data, alias == Alias::Both ? a.data : b.data, count * size_of(t));
  EXPECT_TRUE(dst.guards_intact());
  for (std::size_t i = 0; i < count; ++i) {
    if (bits_at(dst.data, i, t) != test::combine_all(op, t, {a_before.data(), b_before.data()}, i)) return i;
  }
  return count;
}

class ReduceKernels : public ::testing::TestWithParam<DType> {};

TEST_P(ReduceKernels, Pair_EqualsReference_OnEveryTargetCountOffsetAndAlias) {
  const DType t = GetParam();
  for (const std::int64_t target : test::cpu_targets()) {
    const test::OnlyTarget only(target);
    for (const ReduceOp op : all_reduce_ops()) {
      if (!is_defined(op, t)) continue;
      for (const std::size_t count : kCounts) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, size_of(t), std::size_t{14}}) {
          for (const Alias alias : {Alias::None, Alias::First, Alias::Second, Alias::Both}) {
            ASSERT_EQ(first_wrong(op, t, count, offset, alias), count)
                << test::target_name(target) << " " << name_of(op) << " offset " << offset << " alias "
                << static_cast<int>(alias);
          }
        }
      }
    }
  }
}

TEST_P(ReduceKernels, Many_EqualsReference_OnEveryTargetAndNumberOfSources) {
  const DType t = GetParam();
  for (const std::int64_t target : test::cpu_targets()) {
    const test::OnlyTarget only(target);
    for (const ReduceOp op : all_reduce_ops()) {
      if (!is_defined(op, t)) continue;
      for (const std::size_t count : kCounts) {
        for (const std::size_t number : {1u, 2u, 3u, 8u}) {
          std::vector<std::vector<std::byte>> data;
          for (std::size_t s = 0; s < number; ++s) data.push_back(test::any_elements(t, count, s));
          std::vector<const void*> sources;
          for (const auto& d : data) sources.push_back(d.data());
          std::vector<std::byte> dst(count * size_of(t));
          many_reducer_for(op, t)(dst.data(), sources.data(), static_cast<int>(number), dst.size());
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(bits_at(dst.data(), i, t), number == 1 && !is_integer(t)
                                                     ? test::bits_of(t, test::value_of(t, bits_at(sources[0], i, t)))
                                                     : test::combine_all(op, t, sources, i))
                << test::target_name(target) << " " << name_of(op) << " count " << count << " element " << i;
          }
        }
      }
    }
  }
}

TEST_P(ReduceKernels, Many_EqualsReference_WhenDstIsTheLastSource) {
  const DType t = GetParam();
  for (const std::size_t count : kCounts) {
    const auto a = test::any_elements(t, count, 1);
    const auto b = test::any_elements(t, count, 2);
    const auto c = test::any_elements(t, count, 3);
    auto dst = c;
    const std::vector<const void*> sources = {a.data(), b.data(), dst.data()};
    many_reducer_for(ReduceOp::Sum, t)(dst.data(), sources.data(), 3, dst.size());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(bits_at(dst.data(), i, t), test::combine_all(ReduceOp::Sum, t, {a.data(), b.data(), c.data()}, i));
    }
  }
}

TEST_P(ReduceKernels, Pair_GivesTheSameBits_WhenOperandsSwap) {
  const DType t = GetParam();
  constexpr std::size_t kCount = 20011;
  const auto a = test::any_elements(t, kCount, 1);
  const auto b = test::any_elements(t, kCount, 2);
  for (const ReduceOp op : all_reduce_ops()) {
    if (!is_defined(op, t)) continue;
    std::vector<std::byte> one(a.size());
    std::vector<std::byte> other(a.size());
    reducer_for(op, t)(one.data(), a.data(), b.data(), a.size());
    reducer_for(op, t)(other.data(), b.data(), a.data(), a.size());
    EXPECT_EQ(one, other) << name_of(op);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, ReduceKernels, ::testing::ValuesIn(all_dtypes().begin(), all_dtypes().end()),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST(ManyReducer, RoundsOnce_WhenNarrowSumsWouldRoundEachTime) {
  // 2048 + 1 is halfway in f16 and rounds back to 2048; 2048 + 1 + 1 is not.
  const Half big = to_half(2048);
  const Half one = to_half(1);
  const void* sources[] = {&big, &one, &one};
  Half once;
  many_reducer_for(ReduceOp::Sum, DType::F16)(&once, sources, 3, sizeof(Half));
  EXPECT_EQ(to_float(once), 2050);

  Half twice;
  const Reducer pair = reducer_for(ReduceOp::Sum, DType::F16);
  pair(&twice, &big, &one, sizeof(Half));
  pair(&twice, &twice, &one, sizeof(Half));
  EXPECT_EQ(to_float(twice), 2048);
}

TEST(Reducer, IsRefused_WhenOperatorAndTypeDoNotFit) {
  const auto message = [](ReduceOp op, DType t) {
    try {
      static_cast<void>(reducer_for(op, t));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(ReduceOp::BitXor, DType::F32), "operator bxor on f32: expected an integer type or bool");
  EXPECT_EQ(message(ReduceOp::PreMulSum, DType::I8), "operator premulsum on i8: expected a floating-point type");
  EXPECT_EQ(message(ReduceOp::Average, DType::Bool), "operator avg on bool: expected a type of numbers");
  EXPECT_THAT(message(ReduceOp::User, DType::F32), ::testing::HasSubstr("operator user"));
  EXPECT_THROW(static_cast<void>(many_reducer_for(ReduceOp::BitAnd, DType::BF16)), Error);
}

TEST(Reducer, IsDefined_ForEveryPairThatTheTableGives) {
  int pairs = 0;
  for (const DType t : all_dtypes()) {
    for (const ReduceOp op : all_reduce_ops()) {
      if (!is_defined(op, t)) continue;
      ++pairs;
      EXPECT_NE(reducer_for(op, t).fn, nullptr);
      EXPECT_NE(many_reducer_for(op, t).fn, nullptr);
      EXPECT_EQ(reducer_for(op, t).element_bytes, size_of(t));
    }
  }
  EXPECT_EQ(pairs, 8 * 8 + 7 + 6 * 6);
}

TEST(KernelTarget, NamesTheTarget_WhenOnlyThatOneIsAllowed) {
  const auto targets = test::cpu_targets();
  EXPECT_EQ(kernel_target(), test::target_name(targets.front()));
}

}  // namespace
}  // namespace sinew

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/dtype.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/compute/layer_math.hpp>

#include "parallel/kernels/on_compute_device.hpp"
#include "parallel/support/elements.hpp"

namespace sinew::parallel {
namespace {

using kernels::AttentionTile;
using kernels::Function;
using testing::HasSubstr;

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

/// The allowed difference between host and device, for numbers up to 1. Larger ones may differ in proportion.
template <class T>
constexpr double kAllowed = sizeof(T) == 8 ? 1e-13 : 2e-6;

class DeviceMathOn : public OnComputeDevice {
 protected:
  /// Names an array that a call reads or writes, which lies on the host and on the device.
  template <class V>
  struct Array {
    std::size_t number;
  };

  template <class V>
  Array<V> put(const std::vector<V>& values) {
    const auto* const from = reinterpret_cast<const std::byte*>(values.data());
    const std::vector<std::byte> bytes(from, from + values.size() * sizeof(V));
    both_.push_back({kDTypeOf<V>, bytes, bytes, put_bytes(bytes)});
    return {both_.size() - 1};
  }

  /// Calls call(math, at) with the arithmetic of the host, of the device, and of the device with many more teams.
  /// at(array) is the address of an array. Expects that all arrays have then the same elements on the host and on the
  /// device, and that the number of teams changes no bit. allowed: 0 if the device's bits are those of the host.
  template <class T, class Call>
  void same(const Call& call, double allowed = kAllowed<T>) {
    std::vector<Both> both = std::exchange(both_, {});
    call(*host_math<T>(), [&]<class V>(Array<V> a) { return reinterpret_cast<V*>(both[a.number].host.data()); });
    std::vector<std::vector<std::byte>> few;
    for (const int multiprocessors : {1, 1000}) {
      counting_->multiprocessors = multiprocessors;
      for (const Both& b : both) set_bytes(b.device, b.before);
      call(*layer_math<T>(device_), [&]<class V>(Array<V> a) { return reinterpret_cast<V*>(both[a.number].device); });
      for (std::size_t i = 0; i < both.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "array " << i << " of a call on " << name_of(kDTypeOf<T>));
        const std::vector<std::byte> found = bytes_at(both[i].device, both[i].host.size());
        if (multiprocessors == 1) {
          few.push_back(found);
          ASSERT_NO_FATAL_FAILURE(expect_near(both[i], found, allowed));
        } else {
          ASSERT_TRUE(found == few[i]) << "the number of teams changes the bits";
        }
      }
    }
    free_bytes();
  }

  /// Numbers whose sums have the same bits in any order: multiples of 1 / 32 in [-largest, largest].
  template <class T>
  std::vector<T> exact(std::int64_t count, int largest = 1) {
    std::uniform_int_distribution<int> some(-32 * largest, 32 * largest);
    std::vector<T> all(static_cast<std::size_t>(count));
    for (T& x : all) x = static_cast<T>(some(random_)) / 32;
    return all;
  }
  template <class T>
  std::vector<T> numbers(std::int64_t count, double largest) {
    std::uniform_real_distribution<double> some(-largest, largest);
    std::vector<T> all(static_cast<std::size_t>(count));
    for (T& x : all) x = static_cast<T>(some(random_));
    return all;
  }
  std::vector<std::int64_t> indices(std::int64_t count, std::int64_t first, std::int64_t last) {
    std::uniform_int_distribution<std::int64_t> some(first, last - 1);
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    for (std::int64_t& i : all) i = some(random_);
    return all;
  }
  /// Elements that nobody has written yet.
  template <class T>
  std::vector<T> unwritten(std::int64_t count) {
    return std::vector<T>(static_cast<std::size_t>(count), kNaN<T>);
  }

 private:
  struct Both {
    DType dtype;
    std::vector<std::byte> before, host;
    std::byte* device;
  };
  static void expect_near(const Both& b, const std::vector<std::byte>& found, double allowed) {
    if (allowed == 0 || is_integer(b.dtype)) {
      ASSERT_TRUE(found == b.host) << "the bits differ";
      return;
    }
    const std::size_t each = size_of(b.dtype);
    for (std::size_t i = 0; i < found.size() / each; ++i) {
      const double x = test::value_of(b.dtype, found.data() + i * each);
      const double expected = test::value_of(b.dtype, b.host.data() + i * each);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(x)) << "element " << i << ": " << x;
      } else if (std::isinf(expected)) {
        ASSERT_EQ(x, expected) << "element " << i;
      } else {
        ASSERT_NEAR(x, expected, allowed * std::max(1.0, std::abs(expected))) << "element " << i;
      }
    }
  }

  std::vector<Both> both_;
  std::mt19937_64 random_{49};
};

/// Calls f.operator()<T>() for both types of layers.
template <class F>
void for_types(const F& f) {
  f.template operator()<float>();
  f.template operator()<double>();
}

constexpr std::int64_t kCounts[] = {0, 1, 255, 5000, 12345};
struct Shape {
  std::int64_t rows, width, gap;
};
/// Rows of a warp and rows of a team, on one team or several, with gaps between rows or without.
constexpr Shape kShapes[] = {{0, 7, 0},   {1, 1, 0},     {3, 5, 2},  {40, 31, 1},
                             {9, 257, 0}, {13, 1500, 3}, {70, 1, 0}, {2, 1025, 0}};

TEST_P(DeviceMathOn, Elements_AreCopiedFilledAndAdded) {
  for_types([&]<class T>() {
    for (const std::int64_t n : kCounts) {
      const auto from = put(numbers<T>(n, 3)), copied = put(unwritten<T>(n));
      same<T>([&](const auto& math, const auto& at) { math.copy(at(from), at(copied), n); }, 0);
      for (const double value : {0.0, -0.0, 2.5}) {
        const auto to = put(unwritten<T>(n));
        same<T>([&](const auto& math, const auto& at) { math.fill(at(to), static_cast<T>(value), n); }, 0);
      }
      for (const double beta : {0.0, 0.75, 1.0}) {
        const auto x = put(numbers<T>(n, 3)), to = put(beta == 0 ? unwritten<T>(n) : numbers<T>(n, 3));
        same<T>([&](const auto& math, const auto& at) { math.add(at(x), static_cast<T>(beta), at(to), n); });
      }
    }
  });
}

TEST_P(DeviceMathOn, Elements_AreWidenedRoundedAndAddedInEachDType) {
  const auto in_dtype = [&]<class Stored, class T>(std::int64_t n, const auto& store) {
    std::vector<Stored> stored;
    for (const T x : numbers<T>(n, 300)) stored.push_back(store(x));
    const DType dtype = kDTypeOf<Stored>;
    const auto from = put(stored);
    const auto to = put(unwritten<T>(n));
    same<T>([&](const auto& math,
                const auto& at) { math.widen(dtype, reinterpret_cast<const std::byte*>(at(from)), at(to), n); },
            0);
    const auto sums = put(stored);
    const auto x = put(numbers<T>(n, 300));
    same<T>(
        [&](const auto& math, const auto& at) { math.add_to(dtype, reinterpret_cast<std::byte*>(at(sums)), at(x), n); },
        0);
    if (sizeof(Stored) > 2) return;
    const auto rounded = put(numbers<T>(n, 300));
    same<T>([&](const auto& math, const auto& at) { math.round_to(dtype, at(rounded), n); }, 0);
  };
  for_types([&]<class T>() {
    for (const std::int64_t n : kCounts) {
      in_dtype.template operator()<double, T>(n, [](T x) { return static_cast<double>(x); });
      in_dtype.template operator()<float, T>(n, [](T x) { return static_cast<float>(x); });
      in_dtype.template operator()<BFloat16, T>(n, [](T x) { return to_bfloat16(static_cast<float>(x)); });
      in_dtype.template operator()<Half, T>(n, [](T x) { return to_half(static_cast<float>(x)); });
    }
  });
}

TEST_P(DeviceMathOn, RoundTo_TakesTheEvenOfTwoNearestNumbers) {
  for_types([&]<class T>() {
    for (const DType dtype : {DType::BF16, DType::F16}) {
      const double numbers[] = {1 + 1.0 / 256, 1 + 3.0 / 256, 1 + 1.0 / 2048, 1 + 3.0 / 2048, 70000, 1e-7, -0.0};
      std::vector<T> all{kInfinity<T>, -kInfinity<T>, kNaN<T>};
      for (const double x : numbers) all.push_back(static_cast<T>(x));
      const auto x = put(all);
      same<T>([&](const auto& math, const auto& at) { math.round_to(dtype, at(x), std::ssize(all)); });
    }
  });
}

TEST_P(DeviceMathOn, Functions_AreThoseOfTheHost) {
  for_types([&]<class T>() {
    for (const Function f : {Function::Gelu, Function::Relu, Function::Tanh}) {
      for (const std::int64_t n : kCounts) {
        const auto x = put(numbers<T>(n, 6)), y = put(unwritten<T>(n)), dy = put(numbers<T>(n, 1)),
                   in_place = put(numbers<T>(n, 6));
        same<T>([&](const auto& math, const auto& at) {
          math.apply(f, at(x), at(y), n);
          math.apply_slope(f, at(x), at(dy), n);
          math.apply(f, at(in_place), at(in_place), n);
        });
      }
    }
  });
}

TEST_P(DeviceMathOn, Drop_DropsTheElementsThatTheHostDrops) {
  const KeyedRandom random(0x1234567890, "a layer");
  for_types([&]<class T>() {
    for (const auto& [rows, width, gap] : kShapes) {
      // The numbers of elements have more than 32 bits, and the columns lie in the middle of a larger matrix.
      const kernels::DropOptions options{random.key(), 77, 0.3, 100'000, 5'000, 54'321};
      const auto numbers_of = put(indices(rows, 0, 1'000'000));
      const auto x = put(numbers<T>(rows * width, 3));
      same<T>([&](const auto& math, const auto& at) { math.drop(options, at(numbers_of), rows, width, at(x)); }, 0);
    }
  });
}

TEST_P(DeviceMathOn, Rows_AreCopiedZeroedAddedAndSummed) {
  for_types([&]<class T>() {
    for (const auto& [rows, width, gap] : kShapes) {
      const std::int64_t stride = width + gap, extent = rows == 0 ? 0 : (rows - 1) * stride + width;
      const auto from = put(numbers<T>(extent, 3)), to = put(numbers<T>(rows * width, 3)),
                 back = put(numbers<T>(extent, 3)), zeros = put(numbers<T>(extent, 3));
      same<T>(
          [&](const auto& math, const auto& at) {
            math.copy_rows(at(from), stride, at(to), width, rows, width);
            math.copy_rows(at(to), width, at(back), stride, rows, width);
            math.add_rows(at(from), stride, at(back), stride, rows, width);
            math.zero_rows(at(zeros), stride, rows, width);
          },
          0);
      const auto row = put(numbers<T>(width, 3)), added = put(numbers<T>(extent, 3));
      same<T>([&](const auto& math, const auto& at) { math.add_to_rows(at(row), rows, width, stride, at(added)); });
      for (const double beta : {0.0, 0.5, 1.0}) {
        const auto summands = put(exact<T>(extent)), sums = put(beta == 0 ? unwritten<T>(width) : exact<T>(width));
        same<T>(
            [&](const auto& math, const auto& at) {
              math.sum_rows(at(summands), rows, width, stride, static_cast<T>(beta), at(sums));
            },
            0);
      }
      const auto a = put(exact<T>(rows * width)), b = put(exact<T>(rows * width)), dots = put(unwritten<T>(rows));
      same<T>([&](const auto& math, const auto& at) { math.dot_rows(at(a), at(b), rows, width, at(dots)); }, 0);
    }
  });
}

TEST_P(DeviceMathOn, GatherRows_TakesRowsOfThisPartOfTheTable) {
  for_types([&]<class T>() {
    for (const auto& [rows, width, gap] : kShapes) {
      for (const double beta : {0.0, 0.5, 1.0}) {
        const auto index = put(indices(rows, 0, 30));
        const auto table = put(numbers<T>(13 * width, 3)),
                   to = put(beta == 0 ? unwritten<T>(rows * width) : numbers<T>(rows * width, 3));
        same<T>([&](const auto& math, const auto& at) {
          math.gather_rows(at(index), 7, 20, at(table), rows, width, static_cast<T>(beta), at(to));
        });
      }
    }
  });
}

/// The summands are of very different size, so that their sums have other bits in another order.
TEST_P(DeviceMathOn, ScatterRows_AddsRowsInTheirOrder) {
  for_types([&]<class T>() {
    for (const auto& [rows, width, gap] : kShapes) {
      for (const bool to_one : {false, true}) {
        const auto index = put(to_one ? indices(rows, 8, 9) : indices(rows, 0, 30));
        std::vector<T> values = numbers<T>(rows * width, 3);
        for (std::size_t i = 0; i < values.size(); i += 3) values[i] *= static_cast<T>(1e6);
        const auto from = put(values), table = put(numbers<T>(13 * width, 3));
        same<T>([&](const auto& math,
                    const auto& at) { math.scatter_rows(at(index), 7, 20, at(from), rows, width, at(table)); },
                0);
      }
    }
  });
}

TEST_P(DeviceMathOn, Normalisation_IsThatOfTheHost) {
  for_types([&]<class T>() {
    for (const auto& [rows, width, gap] : kShapes) {
      const std::int64_t n = rows * width;
      const auto x = put(exact<T>(n, 2)), weight = put(exact<T>(width)), bias = put(exact<T>(width)),
                 mean = put(unwritten<T>(rows)), factor = put(unwritten<T>(rows)), y = put(unwritten<T>(n)),
                 again = put(unwritten<T>(n)), dy = put(exact<T>(n)), dx = put(unwritten<T>(n)),
                 in_place = put(exact<T>(n)), dweight = put(unwritten<T>(width));
      const T epsilon = static_cast<T>(1e-2);  // a small one would enlarge rounding in rows of one element
      same<T>([&](const auto& math, const auto& at) {
        math.normalise(at(x), at(weight), at(bias), rows, width, epsilon, at(mean), at(factor), at(y));
        math.renormalise(at(x), at(mean), at(factor), at(weight), at(bias), rows, width, at(again));
        math.normalise_input_gradient(at(x), at(mean), at(factor), at(weight), at(dy), rows, width, at(dx));
        math.normalise_input_gradient(at(x), at(mean), at(factor), at(weight), at(in_place), rows, width, at(in_place));
        math.normalise_weight_gradient(at(x), at(mean), at(factor), at(dy), rows, width, at(dweight));
      });
    }
  });
}

TEST_P(DeviceMathOn, CrossEntropy_IsThatOfTheHost) {
  for_types([&]<class T>() {
    for (const auto& [rows, width, gap] : kShapes) {
      std::vector<T> values = numbers<T>(rows * width, 8);
      if (rows >= 9) {
        values[static_cast<std::size_t>(3 * width + width / 2)] = kNaN<T>;
        values[static_cast<std::size_t>(5 * width)] = -kInfinity<T>;
        values[static_cast<std::size_t>(7 * width)] = kInfinity<T>;
      }
      std::vector<std::int64_t> chosen = indices(rows, 100 - width, 100 + 2 * width);  // of other columns too
      if (rows > 1) chosen.back() = -100;
      const auto logits = put(values);
      const auto targets = put(chosen);
      const auto maxima = put(unwritten<double>(rows)), bad = put(unwritten<double>(rows)),
                 sums = put(unwritten<double>(3 * rows));
      const kernels::CrossEntropyScale scale{0.25, 0.1, 3 * width, -100};
      same<T>([&](const auto& math, const auto& at) {
        math.row_maxima(at(logits), rows, width, at(maxima), at(bad));
        math.exponentials(at(logits), rows, width, at(targets), 100, at(maxima), at(bad), at(sums));
        math.divide_rows(at(logits), rows, width, at(sums));
        math.cross_entropy_gradient(scale, at(targets), 100, rows, width, at(logits));
      });
    }
  });
}

TEST_P(DeviceMathOn, CrossEntropy_HasNoMaximum_OfNoColumns) {
  for_types([&]<class T>() {
    const auto logits = put(std::vector<T>{});
    const auto targets = put(indices(5, 0, 9));
    const auto maxima = put(unwritten<double>(5)), bad = put(unwritten<double>(5)), sums = put(unwritten<double>(15));
    same<T>([&](const auto& math, const auto& at) {
      math.row_maxima(at(logits), 5, 0, at(maxima), at(bad));
      math.exponentials(at(logits), 5, 0, at(targets), 0, at(maxima), at(bad), at(sums));
    });
  });
}

struct Mask {
  const char* name;
  bool causal;
  std::vector<std::int64_t> starts;
};
struct Sizes {
  std::int64_t heads, queries, keys;
};

/// Two tiles of keys are merged, one behind the other. Masks let some queries see all keys, others some or none.
TEST_P(DeviceMathOn, Attention_IsThatOfTheHost) {
  const Mask masks[] = {{"full", false, {}},
                        {"causal", true, {}},
                        {"documents", false, {0, 4, 11, 12, 30}},
                        {"causal documents", true, {0, 4, 11, 12, 30}}};
  constexpr Sizes kSizes[] = {{1, 1, 1}, {3, 13, 9}, {2, 10, 33}, {1, 3, 1100}, {0, 4, 4}, {2, 0, 4}, {2, 4, 0}};
  constexpr std::int64_t kAllHeads = 5, kHead = 1, kHeadWidth = 3, kRowWidth = kAllHeads * kHeadWidth + 2;
  for_types([&]<class T>() {
    for (const Mask& mask : masks) {
      for (const auto& [heads, queries, keys] : kSizes) {
        for (const bool with_nan : {false, true}) {
          SCOPED_TRACE(testing::Message() << mask.name << ", " << heads << " heads, " << queries << " queries, " << keys
                                          << " keys" << (with_nan ? ", NaN" : ""));
          const std::int64_t n = heads * queries * keys;
          std::vector<T> first = numbers<T>(n, 5), second = numbers<T>(n, 5);
          if (with_nan && n > 0) {
            first[static_cast<std::size_t>(n / 2)] = kNaN<T>;
            second[static_cast<std::size_t>(n - 1)] = kNaN<T>;
          }
          const auto starts = put(mask.starts);
          const auto one = put(first), two = put(second), weights = put(first), slopes = put(numbers<T>(n, 2)),
                     out = put(numbers<T>(queries * kRowWidth, 1)), along = put(numbers<T>(queries * kAllHeads, 1)),
                     lse = put(std::vector<T>(static_cast<std::size_t>(queries * kAllHeads), -kInfinity<T>));
          same<T>([&](const auto& math, const auto& at) {
            AttentionTile tile{.heads = heads,
                               .queries = queries,
                               .keys = keys,
                               .first_query = 6,
                               .first_key = 3,
                               .all_heads = kAllHeads,
                               .head_width = kHeadWidth,
                               .row_width = kRowWidth,
                               .causal = mask.causal,
                               .starts = at(starts),
                               .documents = std::ssize(mask.starts)};
            math.attention_merge(tile, at(one), at(out) + kHead * kHeadWidth, at(lse) + kHead);
            math.attention_weights(tile, at(weights), at(lse) + kHead);
            math.attention_slopes(tile, at(weights), at(slopes), at(along) + kHead);
            tile.first_key += keys;
            math.attention_merge(tile, at(two), at(out) + kHead * kHeadWidth, at(lse) + kHead);
          });
        }
      }
    }
  });
}

TEST_P(DeviceMathOn, Nothing_IsLaunched_ForArraysOfNoElements) {
  const auto math = layer_math<float>(device_);
  math->copy(nullptr, nullptr, 0);
  math->fill(nullptr, 0, 0);
  math->fill(nullptr, 1, 0);
  math->add(nullptr, 1, nullptr, 0);
  math->round_to(DType::BF16, nullptr, 0);
  math->widen(DType::F32, nullptr, nullptr, 0);
  math->widen(DType::BF16, nullptr, nullptr, 0);
  math->add_to(DType::F32, nullptr, nullptr, 0);
  math->apply(Function::Gelu, nullptr, nullptr, 0);
  math->drop({}, nullptr, 0, 4, nullptr);
  math->copy_rows(nullptr, 4, nullptr, 8, 0, 4);
  math->copy_rows(nullptr, 4, nullptr, 8, 3, 0);
  math->zero_rows(nullptr, 4, 0, 4);
  math->zero_rows(nullptr, 8, 3, 0);
  math->sum_rows(nullptr, 3, 0, 4, 0, nullptr);
  math->dot_rows(nullptr, nullptr, 0, 4, nullptr);
  math->scatter_rows(nullptr, 0, 4, nullptr, 0, 4, nullptr);
  math->attention_weights({}, nullptr, nullptr);
  EXPECT_EQ(counting_->launches, 0);
}

TEST_P(DeviceMathOn, OtherDTypes_AreRefused) {
  const auto math = layer_math<double>(device_);
  try {
    math->round_to(DType::I32, nullptr, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("round on a device: there is no kernel for i32/f64, expected one of bf16/f32"));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceMathOn, testing::Values("fake", "block", "cuda"),
                         [](const auto& of) { return of.param; });

TEST(LayerMath, IsThatOfTheHost_WithoutADevice) { EXPECT_EQ(layer_math<float>({}), host_math<float>()); }

}  // namespace
}  // namespace sinew::parallel

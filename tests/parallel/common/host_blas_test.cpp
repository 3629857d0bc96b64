// Products of the BLAS library that the machine has, against their definition.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <support/worlds.hpp>

#include "../support/naive_blas.hpp"

namespace sinew::parallel {
namespace {

using ::testing::HasSubstr;

template <class T>
std::vector<T> wave(int count, double step) {
  std::vector<T> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = static_cast<T>(std::sin(step * (i + 1)));
  return all;
}

/// Matrices of 7 x 5 and 5 x 3. Their rows, and those of the result, are farther apart than they are long.
template <class T>
void compare(double tolerance) {
  HostBlas blas;
  test::NaiveBlas definition;
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const T beta : {T{0}, T{1}, T{-2}}) {
        const Product p{a_transposed, b_transposed, 7, 3, 5, a_transposed ? 9 : 6, b_transposed ? 8 : 4, 5};
        const std::vector<T> a = wave<T>(100, 0.7), b = wave<T>(100, 1.3);
        std::vector<T> found = wave<T>(40, 0.2), expected = found;
        blas.multiply(p, T{1.5}, a.data(), b.data(), beta, found.data());
        definition.multiply(p, T{1.5}, a.data(), b.data(), beta, expected.data());
        for (std::size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], tolerance) << i << ' ' << a_transposed << b_transposed << ' ' << beta;
      }
    }
  }
}

TEST(HostBlas, MultipliesAsDefined) {
  compare<float>(1e-5);
  compare<double>(1e-13);
}

TEST(HostBlas, TakesMatricesWithoutElements) {
  HostBlas blas;
  std::vector<double> c{1, 2, 3, 4};
  const std::vector<double> unused(4);
  blas.multiply({.m = 2, .n = 2, .k = 0, .lb = 2, .lc = 2}, 1.0, unused.data(), unused.data(), 3.0, c.data());
  EXPECT_EQ(c, (std::vector<double>{3, 6, 9, 12}));
  blas.multiply({.m = 0, .n = 2, .k = 2, .la = 2, .lb = 2, .lc = 2}, 1.0, c.data(), c.data(), 1.0, c.data());
  EXPECT_EQ(c, (std::vector<double>{3, 6, 9, 12}));
}

TEST(HostBlas, SaysWhatItLookedFor) {
  const auto why_not = [](const char* library) -> std::string {
    try {
      HostBlas({.library = library});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Unavailable);
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(why_not("libnone.so.7"),
              HasSubstr("HostBlas: no BLAS library with a C interface was found; expected libnone.so.7"));
  EXPECT_THAT(why_not("libm.so.6"), HasSubstr("libm.so.6: it has no cblas_sgemm or no cblas_dgemm"));
  EXPECT_EQ(sinew::test::complaint([] { HostBlas({.threads = 0}); }), "HostBlas: 0 threads, expected 1 or more");
  EXPECT_NE(HostBlas().library(), "");
}

}  // namespace
}  // namespace sinew::parallel

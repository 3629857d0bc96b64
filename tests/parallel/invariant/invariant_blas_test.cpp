#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/invariant/tree_sum.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using ::testing::HasSubstr;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
std::vector<T> values(std::int64_t count, const char* name) {
  const KeyedRandom random(5, name);
  std::vector<T> v(at(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random.normal(i));
  return v;
}

template <class T>
struct InvariantProduct : ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(InvariantProduct, Types);

/// a [m, k] and b [k, n], each of them as it is or transposed, with something between the rows.
template <class T>
struct Operands {
  Product p;
  std::vector<T> a, b, c;

  Operands(int m, int n, int k, bool a_transposed, bool b_transposed)
      : p{.a_transposed = a_transposed, .b_transposed = b_transposed, .m = m, .n = n, .k = k} {
    p.la = (a_transposed ? m : k) + 3, p.lb = (b_transposed ? k : n) + 1, p.lc = n + 2;
    a = values<T>(std::int64_t{p.la} * (a_transposed ? k : m), "a");
    b = values<T>(std::int64_t{p.lb} * (b_transposed ? n : k), "b");
    c = values<T>(std::int64_t{p.lc} * m, "c");
  }
  T of_a(int i, int l) const { return a[at(p.a_transposed ? l * p.la + i : i * p.la + l)]; }
  T of_b(int l, int j) const { return b[at(p.b_transposed ? j * p.lb + l : l * p.lb + j)]; }
  const T* row_of_a(int i) const { return a.data() + (p.a_transposed ? i : i * p.la); }
  const T* column_of_b(int j) const { return b.data() + (p.b_transposed ? j * p.lb : j); }
  const T* k_of_a(int l) const { return a.data() + (p.a_transposed ? l * p.la : l); }
  const T* k_of_b(int l) const { return b.data() + (p.b_transposed ? l : l * p.lb); }
};

/// f(operands) of sizes below, at and above those of tiles, all ways to lie.
template <class T, class F>
void for_each_product(const F& f) {
  for (const auto& [m, n, k] : {std::tuple(1, 1, 16), {4, 16, 32}, {5, 33, 16}, {3, 70, 48}, {66, 65, 64}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) f(Operands<T>(m, n, k, a_transposed, b_transposed));
    }
  }
}

TYPED_TEST(InvariantProduct, IsTheProduct) {
  using T = TypeParam;
  InvariantBlas blas;
  for_each_product<T>([&](const Operands<T>& of) {
    for (const auto& [leaf, alpha, beta] : {std::tuple(0, 1.0, 0.0), {0, 1.0, 1.0}, {4, 1.0, 1.0}, {16, 0.5, -2.0}}) {
      Product p = of.p;
      p.k_leaf = p.k == 48 && leaf > 0 ? (leaf == 4 ? 6 : 12) : leaf;
      std::vector<T> c = of.c;
      blas.multiply(p, static_cast<T>(alpha), of.a.data(), of.b.data(), static_cast<T>(beta), c.data());
      for (int i = 0; i < p.m; ++i) {
        for (int j = 0; j < p.lc && i * p.lc + j < std::ssize(c); ++j) {
          const auto number = at(i * p.lc + j);
          if (j >= p.n) {
            EXPECT_EQ(c[number], of.c[number]) << "between rows";
            continue;
          }
          long double sum = 0, size = 0;
          for (int l = 0; l < p.k; ++l) {
            const long double one = static_cast<long double>(of.of_a(i, l)) * of.of_b(l, j);
            sum += one, size += std::abs(one);
          }
          const long double expected = alpha * sum + beta * of.c[number];
          size += std::abs(static_cast<long double>(of.c[number])) * 2;
          EXPECT_LE(std::abs(c[number] - expected), size * 20 * std::numeric_limits<T>::epsilon());
        }
      }
    }
  });
}

/// Rows and columns by themselves have the bits that they have among others.
TYPED_TEST(InvariantProduct, DoesNotShowHowManyRowsAndColumnsThereAre) {
  using T = TypeParam;
  InvariantBlas blas;
  for_each_product<T>([&](const Operands<T>& of) {
    Product p = of.p;
    p.k_leaf = 4;
    if (p.k == 48) p.k_leaf = 6;
    std::vector<T> whole(of.c.size()), parts(of.c.size());
    blas.multiply(p, T{1}, of.a.data(), of.b.data(), T{0}, whole.data());
    for (int i = 0; i < p.m; i += 3) {
      for (int j = 0; j < p.n; j += 7) {
        Product part = p;
        part.m = std::min(3, p.m - i), part.n = std::min(7, p.n - j);
        blas.multiply(part, T{1}, of.row_of_a(i), of.column_of_b(j), T{0}, parts.data() + i * p.lc + j);
      }
    }
    EXPECT_EQ(whole, parts);
  });
}

/// Aligned parts of k, each on a rank of its own, and the tree above them.
TYPED_TEST(InvariantProduct, OfPartsOfK_AreNodesOfTheWhole) {
  using T = TypeParam;
  InvariantBlas blas;
  for_each_product<T>([&](const Operands<T>& of) {
    Product p = of.p;
    p.k_leaf = p.k / 8;
    std::vector<T> whole(of.c.size());
    blas.multiply(p, T{1}, of.a.data(), of.b.data(), T{0}, whole.data());
    for (const int parts : {2, 4, 8}) {
      TreeSum<T> tree(parts, whole.size());
      Product part = p;
      part.k = p.k / parts;
      for (int r = 0; r < parts; ++r) {
        std::vector<T> own(whole.size());
        blas.multiply(part, T{1}, of.k_of_a(r * part.k), of.k_of_b(r * part.k), T{0}, own.data());
        tree.add(r, std::move(own));
      }
      EXPECT_EQ(tree.take(), whole) << parts;
    }
    Product one = p;  // the same numbers as one block: another order, which shows
    one.k_leaf = 0;
    std::vector<T> chain(whole.size());
    blas.multiply(one, T{1}, of.a.data(), of.b.data(), T{0}, chain.data());
    if (p.m > 1) {
      EXPECT_NE(chain, whole);
    }
  });
}

TYPED_TEST(InvariantProduct, OfFoldedBlocks_HasBothPiecesOfARankAsOneNode) {
  using T = TypeParam;
  InvariantBlas blas;
  Operands<T> of(6, 9, 32, true, false);
  of.p.k_leaf = 4, of.p.k_folded = true;
  std::vector<T> whole(of.c.size());
  blas.multiply(of.p, T{1}, of.a.data(), of.b.data(), T{0}, whole.data());
  TreeSum<T> tree(2, whole.size());
  for (int r = 0; r < 2; ++r) {  // blocks 0 1 6 7 and 2 3 4 5
    std::vector<T> a, b;
    for (const int block : r == 0 ? std::vector{0, 1, 6, 7} : std::vector{2, 3, 4, 5}) {
      a.insert(a.end(), of.a.begin() + block * 4 * of.p.la, of.a.begin() + (block + 1) * 4 * of.p.la);
      b.insert(b.end(), of.b.begin() + block * 4 * of.p.lb, of.b.begin() + (block + 1) * 4 * of.p.lb);
    }
    Product part = of.p;
    part.k = 16;
    std::vector<T> own(whole.size());
    blas.multiply(part, T{1}, a.data(), b.data(), T{0}, own.data());
    tree.add(r, std::move(own));
  }
  EXPECT_EQ(tree.take(), whole);
}

TYPED_TEST(InvariantProduct, GoesOnWithAChain_WhereverItWasCut) {
  using T = TypeParam;
  InvariantBlas blas;
  for_each_product<T>([&](const Operands<T>& of) {
    std::vector<T> whole = of.c, parts = of.c;
    blas.multiply(of.p, T{1}, of.a.data(), of.b.data(), T{1}, whole.data());
    for (int first = 0, count = 1; first < of.p.k; first += count, count = 5) {
      Product part = of.p;
      part.k = std::min(count, of.p.k - first);
      blas.multiply(part, T{1}, of.k_of_a(first), of.k_of_b(first), T{1}, parts.data());
    }
    EXPECT_EQ(whole, parts);
  });
}

TEST(InvariantBlas, ScalesWhatIsThere_WhereKIsNothing) {
  InvariantBlas blas;
  std::vector<float> c{1, 2, 3, 4};
  blas.multiply({.m = 2, .n = 2, .k = 0, .lc = 2}, 1.0F, nullptr, nullptr, 2.0F, c.data());
  EXPECT_EQ(c, (std::vector<float>{2, 4, 6, 8}));
  blas.multiply({.m = 2, .n = 2, .k = 0, .lc = 2}, 1.0F, nullptr, nullptr, 0.0F, c.data());
  EXPECT_EQ(c, std::vector<float>(4));
}

TEST(InvariantBlas, RefusesLeafBlocksThatAreNoTree) {
  InvariantBlas blas;
  const std::vector<float> x(64);
  std::vector<float> c(1);
  const auto multiply = [&](int k, int leaf) {
    return complaint([&] {
      blas.multiply({.b_transposed = true, .m = 1, .n = 1, .k = k, .la = k, .lb = k, .lc = 1, .k_leaf = leaf}, 1.0F,
                    x.data(), x.data(), 0.0F, c.data());
    });
  };
  EXPECT_THAT(multiply(12, 4), HasSubstr("12 rows in leaf blocks of 4: expected a power of two of blocks"));
  EXPECT_THAT(multiply(10, 4), HasSubstr("10 rows in leaf blocks of 4"));
}

}  // namespace
}  // namespace sinew::parallel

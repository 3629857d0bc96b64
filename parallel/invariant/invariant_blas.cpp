#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/invariant/product_kernel.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kPanelBytes = std::size_t{128} << 10;  // of b, which stay in the second cache
constexpr std::size_t kMostTile = kTileRows * 2 * 64;        // elements, of vectors of 2,048 bits

LeafRows leaves_of_k(const Product& p) {
  const LeafRows of{p.k, p.k_leaf > 0 ? p.k_leaf : p.k, p.k_folded};
  if (p.k_leaf == 0) return of;
  require_leaves(of);
  if (of.leaves() > std::int64_t{1} << kMostHeight)
    throw Error(Code::InvalidArgument, fmt::format("product: k of {} in leaf blocks of {}: expected {} blocks at most",
                                                   p.k, p.k_leaf, std::int64_t{1} << kMostHeight));
  return of;
}

/// `lines` lines of k elements, as panels [k, width], one after the other: line i of `from` begins at i * between, its
/// elements are `step` apart. Lines that are not there are zeros.
template <class T>
void pack(const T* from, std::size_t between, std::size_t step, std::size_t lines, std::size_t k, std::size_t width,
          T* to) {
  for (std::size_t first = 0; first < lines; first += width, to += k * width) {
    const std::size_t here = std::min(width, lines - first);
    if (here < width) std::fill_n(to, k * width, T{0});
    const T* line = from + first * between;
    if (between == 1) {
      for (std::size_t i = 0; i < k; ++i) std::copy_n(line + i * step, here, to + i * width);
    } else {
      for (std::size_t l = 0; l < here; ++l, line += between) {
        for (std::size_t i = 0; i < k; ++i) to[i * width + l] = line[i * step];
      }
    }
  }
}

template <class T>
struct Result {
  T alpha, beta;
  T* c;
  std::size_t between;  // rows
  bool chain;           // sums begin with what is there
};

/// rows by columns of c, from a tile on.
template <class T>
void write(const Result<T>& r, const T* tile, std::size_t width, std::size_t rows, std::size_t columns, T* c) {
  for (std::size_t i = 0; i < rows; ++i, c += r.between, tile += width) {
    if (r.chain || (r.alpha == T{1} && r.beta == T{0})) {
      std::copy_n(tile, columns, c);
      continue;
    }
    for (std::size_t j = 0; j < columns; ++j) {
      const T sum = r.alpha * tile[j];
      c[j] = r.beta == T{0} ? sum : sum + r.beta * c[j];
    }
  }
}

template <class T>
void run(const Product& p, const T* a, const T* b, const Result<T>& result, std::vector<T>& room) {
  const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const auto la = static_cast<std::size_t>(p.la), lb = static_cast<std::size_t>(p.lb);
  const LeafRows leaves = leaves_of_k(p);
  const std::size_t width = tile_columns<T>();
  const std::size_t rows = (m + kTileRows - 1) / kTileRows * kTileRows;
  const std::size_t panels = std::max<std::size_t>(kPanelBytes / (k * width * sizeof(T)), 1);
  const std::size_t columns_at_once = panels * width;
  room.resize(k * (rows + std::min(columns_at_once, (n + width - 1) / width * width)));
  T *of_a = room.data(), *of_b = of_a + k * rows;
  pack(a, p.a_transposed ? 1 : la, p.a_transposed ? la : 1, m, k, kTileRows, of_a);
  T tile[kMostTile], begin[kMostTile] = {};
  for (std::size_t first = 0; first < n; first += columns_at_once) {
    const std::size_t last = std::min(first + columns_at_once, n);
    pack(b + first * (p.b_transposed ? lb : 1), p.b_transposed ? lb : 1, p.b_transposed ? 1 : lb, last - first, k,
         width, of_b);
    for (std::size_t i = 0; i < m; i += kTileRows) {
      const std::size_t height = std::min(kTileRows, m - i);
      for (std::size_t j = first; j < last; j += width) {
        const std::size_t wide = std::min(width, last - j);
        T* c = result.c + i * result.between + j;
        if (result.chain) {
          for (std::size_t r = 0; r < height; ++r) std::copy_n(c + r * result.between, wide, begin + r * width);
        }
        multiply_tile(of_a + i * k, of_b + (j - first) * k, leaves, result.chain ? begin : nullptr, tile);
        write(result, tile, width, height, wide, c);
      }
    }
  }
}

template <class T>
void multiply(const Product& p, T alpha, const T* a, const T* b, T beta, T* c, std::vector<T>& room) {
  if (p.m <= 0 || p.n <= 0) return;
  const auto between = static_cast<std::size_t>(p.lc);
  const bool single = p.k_leaf == 0 || p.k_leaf == p.k;
  if (p.k > 0) return run(p, a, b, {alpha, beta, c, between, single && alpha == T{1} && beta == T{1}}, room);
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.m); ++i, c += between) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(p.n); ++j) c[j] = beta == T{0} ? T{0} : beta * c[j];
  }
}

}  // namespace

void InvariantBlas::multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) {
  parallel::multiply(p, alpha, a, b, beta, c, panels_of_f32_);
}
void InvariantBlas::multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) {
  parallel::multiply(p, alpha, a, b, beta, c, panels_of_f64_);
}

}  // namespace sinew::parallel

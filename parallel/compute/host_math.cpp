#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>

#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/common/convert.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/compute/vector_kernels.hpp>

namespace sinew::parallel {
namespace {

using kernels::AttentionTile;
using kernels::Function;

std::size_t unsigned_count(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

/// Calls f(first element, elements) for runs that fit into `room`.
template <class T, class F>
void in_runs(std::array<T, 1024>& room, std::int64_t n, const F& f) {
  for (std::int64_t i = 0; i < n; i += std::ssize(room)) f(i, std::min<std::int64_t>(n - i, std::ssize(room)));
}

template <class T>
class HostMath final : public LayerMath<T> {
 public:
  void copy(const T* from, T* to, std::int64_t n) const override {
    if (from != to) std::copy_n(from, n, to);
  }
  void fill(T* to, T value, std::int64_t n) const override { std::fill_n(to, n, value); }
  void add(const T* x, T beta, T* to, std::int64_t n) const override {
    if (beta == T{1}) return kernels::add(to, x, unsigned_count(n));
    for (std::int64_t i = 0; i < n; ++i) to[i] = (beta == T{0} ? T{0} : beta * to[i]) + x[i];
  }

  void round_to(DType dtype, T* x, std::int64_t n) const override {
    std::array<T, 1024> room;
    auto* const bytes = reinterpret_cast<std::byte*>(room.data());
    in_runs(room, n, [&](std::int64_t i, std::int64_t some) {
      auto* const at = reinterpret_cast<std::byte*>(x + i);
      convert(at, kDTypeOf<T>, bytes, dtype, some);
      convert(bytes, dtype, at, kDTypeOf<T>, some);
    });
  }
  void widen(DType dtype, const std::byte* from, T* to, std::int64_t n) const override {
    convert(from, dtype, reinterpret_cast<std::byte*>(to), kDTypeOf<T>, n);
  }
  void add_to(DType dtype, std::byte* sums, const T* x, std::int64_t n) const override {
    if (dtype == kDTypeOf<T>) return kernels::add(reinterpret_cast<T*>(sums), x, unsigned_count(n));
    if (size_of(dtype) > sizeof(T)) {  // sums of f32 in f64
      auto* const wide = reinterpret_cast<double*>(sums);
      for (std::int64_t i = 0; i < n; ++i) wide[i] += double{x[i]};
      return;
    }
    std::array<T, 1024> room;
    auto* const wide = reinterpret_cast<std::byte*>(room.data());
    in_runs(room, n, [&](std::int64_t i, std::int64_t some) {
      std::byte* const at = sums + unsigned_count(i) * size_of(dtype);
      convert(at, dtype, wide, kDTypeOf<T>, some);
      kernels::add(room.data(), x + i, unsigned_count(some));
      convert(wide, kDTypeOf<T>, at, dtype, some);
    });
  }

  void apply(Function f, const T* x, T* y, std::int64_t n) const override {
    switch (f) {
      case Function::Gelu: return kernels::gelu(x, y, unsigned_count(n));
      case Function::Relu:
        for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : T{0};
        return;
      case Function::Tanh:
        for (std::int64_t i = 0; i < n; ++i) y[i] = std::tanh(x[i]);
        return;
    }
  }
  void apply_slope(Function f, const T* x, T* dy, std::int64_t n) const override {
    switch (f) {
      case Function::Gelu: return kernels::gelu_backward(x, dy, unsigned_count(n));
      case Function::Relu:
        for (std::int64_t i = 0; i < n; ++i) dy[i] = x[i] > 0 ? dy[i] : T{0};
        return;
      case Function::Tanh:
        for (std::int64_t i = 0; i < n; ++i) {
          const T y = std::tanh(x[i]);
          dy[i] *= 1 - y * y;
        }
        return;
    }
  }
  void drop(const kernels::DropOptions& o, const std::int64_t* numbers, std::int64_t rows, std::int64_t width,
            T* x) const override {
    const KeyedRandom random(o.key);
    const T factor = static_cast<T>(1 / (1 - o.probability));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < width; ++c, ++x) {
        const std::int64_t element = (o.first_row + numbers[r]) * o.columns + o.first_column + c;
        const auto number = (o.step << kernels::kDropElementBits) | static_cast<std::uint64_t>(element);
        *x = random.uniform(number) < o.probability ? T{0} : *x * factor;
      }
    }
  }

  void copy_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                 std::int64_t width) const override {
    parallel::copy_rows(from, from_stride, to, to_stride, rows, width);
  }
  void add_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                std::int64_t width) const override {
    for (std::int64_t r = 0; r < rows; ++r)
      kernels::add(to + r * to_stride, from + r * from_stride, unsigned_count(width));
  }
  void zero_rows(T* to, std::int64_t stride, std::int64_t rows, std::int64_t width) const override {
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(to + r * stride, width, T{0});
  }
  void add_to_rows(const T* row, std::int64_t rows, std::int64_t width, std::int64_t stride, T* to) const override {
    parallel::add_to_rows(row, rows, width, stride, to);
  }
  void sum_rows(const T* from, std::int64_t rows, std::int64_t width, std::int64_t stride, T beta,
                T* to) const override {
    parallel::sum_rows(from, rows, width, stride, beta, to);
  }
  void dot_rows(const T* a, const T* b, std::int64_t rows, std::int64_t width, T* to) const override {
    for (std::int64_t r = 0; r < rows; ++r) {
      T sum{0};
      for (std::int64_t i = r * width; i < (r + 1) * width; ++i) sum += a[i] * b[i];
      to[r] = sum;
    }
  }
  void gather_rows(const std::int64_t* index, std::int64_t first, std::int64_t last, const T* table, std::int64_t rows,
                   std::int64_t width, T beta, T* to) const override {
    for (std::int64_t r = 0; r < rows; ++r, to += width) {
      const bool is_here = index[r] >= first && index[r] < last;
      if (beta == T{0} && is_here) {
        std::copy_n(table + (index[r] - first) * width, width, to);
      } else if (beta == T{0}) {
        std::fill_n(to, width, T{0});
      } else if (is_here) {
        add(table + (index[r] - first) * width, beta, to, width);
      } else if (beta != T{1}) {
        kernels::scale(to, beta, unsigned_count(width));
      }
    }
  }
  void scatter_rows(const std::int64_t* index, std::int64_t first, std::int64_t last, const T* from, std::int64_t rows,
                    std::int64_t width, T* table) const override {
    for (std::int64_t r = 0; r < rows; ++r, from += width) {
      if (index[r] >= first && index[r] < last)
        kernels::add(table + (index[r] - first) * width, from, unsigned_count(width));
    }
  }

  void normalise(const T* x, const T* weight, const T* bias, std::int64_t rows, std::int64_t width, T epsilon, T* mean,
                 T* factor, T* y) const override {
    const std::size_t n = unsigned_count(width);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * width;
      mean[r] = kernels::sum(row, n) / static_cast<T>(width);
      const T variance = kernels::squares_around(mean[r], row, n) / static_cast<T>(width);
      factor[r] = 1 / std::sqrt(variance + epsilon);
      kernels::normalise(row, mean[r], factor[r], weight, bias, y + r * width, n);
    }
  }
  void renormalise(const T* x, const T* mean, const T* factor, const T* weight, const T* bias, std::int64_t rows,
                   std::int64_t width, T* y) const override {
    for (std::int64_t r = 0; r < rows; ++r)
      kernels::normalise(x + r * width, mean[r], factor[r], weight, bias, y + r * width, unsigned_count(width));
  }
  void normalise_input_gradient(const T* x, const T* mean, const T* factor, const T* weight, const T* dy,
                                std::int64_t rows, std::int64_t width, T* dx) const override {
    for (std::int64_t r = 0; r < rows; ++r)
      kernels::normalise_gradient(x + r * width, mean[r], factor[r], weight, dy + r * width, dx + r * width,
                                  unsigned_count(width));
  }
  void normalise_weight_gradient(const T* x, const T* mean, const T* factor, const T* dy, std::int64_t rows,
                                 std::int64_t width, T* dweight) const override {
    std::fill_n(dweight, width, T{0});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0, k = r * width; i < width; ++i, ++k) dweight[i] += dy[k] * (x[k] - mean[r]) * factor[r];
    }
  }

  void row_maxima(const T* logits, std::int64_t rows, std::int64_t columns, double* maxima,
                  double* not_numbers) const override {
    for (std::int64_t r = 0; r < rows; ++r, logits += columns) {
      double most = -std::numeric_limits<double>::infinity();
      bool sound = true;
      for (std::int64_t c = 0; c < columns; ++c) {
        most = std::max(most, static_cast<double>(logits[c]));
        sound = sound && !std::isnan(logits[c]);
      }
      maxima[r] = most;
      not_numbers[r] = sound ? 0 : 1;
    }
  }
  void exponentials(T* logits, std::int64_t rows, std::int64_t columns, const std::int64_t* targets, std::int64_t first,
                    const double* maxima, const double* not_numbers, double* sums) const override {
    for (std::int64_t r = 0; r < rows; ++r, logits += columns, sums += 3) {
      const std::int64_t at = targets[r] - first;
      sums[1] = at >= 0 && at < columns ? static_cast<double>(logits[at]) - maxima[r] : 0;
      double powers = 0, all = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        const double above = static_cast<double>(logits[c]) - maxima[r], power = std::exp(above);
        all += above;
        powers += power;
        logits[c] = static_cast<T>(power);
      }
      sums[0] = not_numbers[r] != 0 ? std::numeric_limits<double>::quiet_NaN() : powers;
      sums[2] = all;
    }
  }
  void divide_rows(T* of, std::int64_t rows, std::int64_t columns, const double* sums) const override {
    for (std::int64_t r = 0; r < rows; ++r, of += columns, sums += 3) {
      const double factor = 1 / sums[0];
      for (std::int64_t c = 0; c < columns; ++c) of[c] = static_cast<T>(static_cast<double>(of[c]) * factor);
    }
  }
  void cross_entropy_gradient(const kernels::CrossEntropyScale& s, const std::int64_t* targets, std::int64_t first,
                              std::int64_t rows, std::int64_t columns, T* softmax) const override {
    const double each = s.smoothing / static_cast<double>(s.vocabulary);
    for (std::int64_t r = 0; r < rows; ++r, softmax += columns) {
      if (targets[r] == s.ignored) {
        std::fill_n(softmax, columns, T{0});
        continue;
      }
      for (std::int64_t c = 0; c < columns; ++c)
        softmax[c] = static_cast<T>(s.scale * (static_cast<double>(softmax[c]) - each));
      const std::int64_t at = targets[r] - first;
      if (at >= 0 && at < columns) softmax[at] -= static_cast<T>(s.scale * (1 - s.smoothing));
    }
  }

  void attention_merge(const AttentionTile& tile, T* scores, T* out, T* lse) const override {
    for_each_row(tile, [&](std::int64_t head, std::int64_t query, std::int64_t row) {
      hide(tile, query, scores + row * tile.keys);
      merge_row(tile, scores + row * tile.keys, out + query * tile.row_width + head * tile.head_width,
                lse[query * tile.all_heads + head]);
    });
  }
  void attention_weights(const AttentionTile& tile, T* scores, const T* lse) const override {
    for_each_row(tile, [&](std::int64_t head, std::int64_t query, std::int64_t row) {
      const T all = lse[query * tile.all_heads + head];
      T* const of = scores + row * tile.keys;
      hide(tile, query, of);
      const bool sees = all != -std::numeric_limits<T>::infinity();
      for (std::int64_t k = 0; k < tile.keys; ++k) of[k] = sees ? std::exp(of[k] - all) : T{0};
    });
  }
  void attention_slopes(const AttentionTile& tile, const T* weights, T* slopes, const T* along) const override {
    for_each_row(tile, [&](std::int64_t head, std::int64_t query, std::int64_t row) {
      const T mean = along[query * tile.all_heads + head];
      for (std::int64_t k = row * tile.keys; k < (row + 1) * tile.keys; ++k)
        slopes[k] = weights[k] == T{0} ? T{0} : weights[k] * (slopes[k] - mean);  // what the mask hides has none
    });
  }

 private:
  /// f(head, query, row of the tile's arrays)
  template <class F>
  static void for_each_row(const AttentionTile& tile, const F& f) {
    for (std::int64_t head = 0; head < tile.heads; ++head) {
      for (std::int64_t query = 0; query < tile.queries; ++query) f(head, query, head * tile.queries + query);
    }
  }
  static void hide(const AttentionTile& tile, std::int64_t query, T* row) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const auto [first, last] = kernels::seen_keys(tile, query);
    std::fill(row, row + first, kHidden);
    std::fill(row + last, row + tile.keys, kHidden);
  }
  static void merge_row(const AttentionTile& tile, T* row, T* to, T& lse) {
    T most = lse;
    bool is_number = !std::isnan(lse);
    for (std::int64_t k = 0; k < tile.keys; ++k) {
      most = std::max(most, row[k]);
      is_number = is_number && !std::isnan(row[k]);
    }
    if (!is_number) most = std::numeric_limits<T>::quiet_NaN();
    if (most == -std::numeric_limits<T>::infinity()) {  // it sees none of these, and has seen none before
      std::fill_n(row, tile.keys, T{0});
      return;
    }
    const T before = std::exp(lse - most);
    T total = before;
    for (std::int64_t k = 0; k < tile.keys; ++k) {
      row[k] = std::exp(row[k] - most);
      total += row[k];
    }
    for (std::int64_t k = 0; k < tile.keys; ++k) row[k] /= total;
    for (std::int64_t d = 0; d < tile.head_width; ++d) to[d] *= before / total;
    lse = most + std::log(total);
  }
};

}  // namespace

template <class T>
std::shared_ptr<const LayerMath<T>> host_math() {
  static const std::shared_ptr<const LayerMath<T>> only = std::make_shared<HostMath<T>>();
  return only;
}

template std::shared_ptr<const LayerMath<float>> host_math();
template std::shared_ptr<const LayerMath<double>> host_math();

}  // namespace sinew::parallel

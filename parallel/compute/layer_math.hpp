#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

namespace sinew::parallel {

/// The arithmetic of layers beside products of matrices, on arrays in the memory of one place. On a device each
/// function enqueues work on the stream of the device and returns.
/// Shape:  arrays are row-major. `stride` is the distance in elements from one row to the next. Without it rows lie one
///         behind the other. Arrays that are read and written are the same array or do not overlap. Counts may be 0.
/// T:      float or double. Addresses, those of indices included, are in the memory of the place.
/// Thread: one at a time.
/// Errors: on a device Error{System} with the driver's text, and Error{Unavailable} if this build has no device
///         kernels.
template <class T>
class SINEW_API LayerMath {
 public:
  virtual ~LayerMath() = default;
  LayerMath() = default;
  LayerMath(const LayerMath&) = delete;
  LayerMath& operator=(const LayerMath&) = delete;

  // Elements.
  virtual void copy(const T* from, T* to, std::int64_t n) const = 0;
  virtual void fill(T* to, T value, std::int64_t n) const = 0;
  /// to = beta * to + x. With a beta of 0 `to` is not read.
  virtual void add(const T* x, T beta, T* to, std::int64_t n) const = 0;
  /// Rounds to the nearest number of this dtype, bf16 or f16.
  virtual void round_to(DType dtype, T* x, std::int64_t n) const = 0;
  /// to = from, where `from` is an array of f64, f32, bf16 or f16.
  virtual void widen(DType dtype, const std::byte* from, T* to, std::int64_t n) const = 0;
  /// sums += x, where `sums` is an array of f64, f32, bf16 or f16.
  virtual void add_to(DType dtype, std::byte* sums, const T* x, std::int64_t n) const = 0;
  /// y = f(x).
  virtual void apply(kernels::Function f, const T* x, T* y, std::int64_t n) const = 0;
  /// dy = dy * f'(x).
  virtual void apply_slope(kernels::Function f, const T* x, T* dy, std::int64_t n) const = 0;
  /// Sets each element to 0 with a probability, and multiplies the others by 1 / (1 - probability). x is
  /// [rows, width], a part of a larger matrix. Row r of the part has the number numbers[r] in the whole. The same
  /// elements are dropped in every place.
  virtual void drop(const kernels::DropOptions& options, const std::int64_t* numbers, std::int64_t rows,
                    std::int64_t width, T* x) const = 0;

  // Rows of `width` elements.
  virtual void copy_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                         std::int64_t width) const = 0;
  /// to += from.
  virtual void add_rows(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                        std::int64_t width) const = 0;
  virtual void zero_rows(T* to, std::int64_t stride, std::int64_t rows, std::int64_t width) const = 0;
  /// Adds `row` to each row of `to`.
  virtual void add_to_rows(const T* row, std::int64_t rows, std::int64_t width, std::int64_t stride, T* to) const = 0;
  /// to = beta * to + the sum of all rows. With a beta of 0 `to` is not read.
  virtual void sum_rows(const T* from, std::int64_t rows, std::int64_t width, std::int64_t stride, T beta,
                        T* to) const = 0;
  /// to[r] = the sum of a[r][i] * b[r][i].
  virtual void dot_rows(const T* a, const T* b, std::int64_t rows, std::int64_t width, T* to) const = 0;
  /// Row r of `to` becomes beta times itself plus row index[r] - first of the table, or zeros if index[r] is not in
  /// [first, last). With a beta of 0 `to` is not read. The table has last - first rows.
  virtual void gather_rows(const std::int64_t* index, std::int64_t first, std::int64_t last, const T* table,
                           std::int64_t rows, std::int64_t width, T beta, T* to) const = 0;
  /// Adds row r of `from` to row index[r] - first of the table, if index[r] is in [first, last). Rows are added in
  /// their order, so that the result does not depend on the place.
  virtual void scatter_rows(const std::int64_t* index, std::int64_t first, std::int64_t last, const T* from,
                            std::int64_t rows, std::int64_t width, T* table) const = 0;

  // Layer normalisation of rows. mean, factor [rows]; weight, bias [width]. y = (x - mean) * factor * weight + bias.
  /// Writes mean, factor = 1 / sqrt(variance + epsilon), and y.
  virtual void normalise(const T* x, const T* weight, const T* bias, std::int64_t rows, std::int64_t width, T epsilon,
                         T* mean, T* factor, T* y) const = 0;
  /// Writes y again.
  virtual void renormalise(const T* x, const T* mean, const T* factor, const T* weight, const T* bias,
                           std::int64_t rows, std::int64_t width, T* y) const = 0;
  virtual void normalise_input_gradient(const T* x, const T* mean, const T* factor, const T* weight, const T* dy,
                                        std::int64_t rows, std::int64_t width, T* dx) const = 0;
  /// dweight = the sum over rows of dy * (x - mean) * factor.
  virtual void normalise_weight_gradient(const T* x, const T* mean, const T* factor, const T* dy, std::int64_t rows,
                                         std::int64_t width, T* dweight) const = 0;

  // Cross-entropy over some columns of a vocabulary: logits [rows, columns]. Each row has three sums: of its
  // exponentials, of its target's logit, and of all its logits. The row's maximum is first subtracted from its logits.
  /// maxima [rows]; -infinity for rows of no columns. not_numbers [rows]: 1 if the row has a NaN, otherwise 0.
  virtual void row_maxima(const T* logits, std::int64_t rows, std::int64_t columns, double* maxima,
                          double* not_numbers) const = 0;
  /// logits = exp(logits - maxima). first: the number of the first column in the vocabulary. The first sum of a row
  /// that has a NaN is a NaN.
  virtual void exponentials(T* logits, std::int64_t rows, std::int64_t columns, const std::int64_t* targets,
                            std::int64_t first, const double* maxima, const double* not_numbers,
                            double* sums) const = 0;
  /// Divides each row by its first sum.
  virtual void divide_rows(T* rows_of, std::int64_t rows, std::int64_t columns, const double* sums) const = 0;
  /// softmax becomes the gradient of the logits.
  virtual void cross_entropy_gradient(const kernels::CrossEntropyScale& scale, const std::int64_t* targets,
                                      std::int64_t first, std::int64_t rows, std::int64_t columns,
                                      T* softmax) const = 0;

  // Attention, tile by tile (kernels::AttentionTile). Scores, weights and slopes of a tile are [heads, queries, keys].
  // `out` is [queries, row_width], from the tile's first query and head on. lse and along are [queries, all_heads].
  /// Adds a tile to `out` and lse, which have the earlier tiles. Scores that the mask hides become 0. The other scores
  /// become weights, and `out` is scaled to them. The caller then adds the products of weights and values to `out`.
  virtual void attention_merge(const kernels::AttentionTile& tile, T* scores, T* out, T* lse) const = 0;
  /// Scores become weights: exp(score - lse), or 0 if the mask hides them.
  virtual void attention_weights(const kernels::AttentionTile& tile, T* scores, const T* lse) const = 0;
  /// slopes = weights * (slopes - along), or 0 where the weight is 0.
  virtual void attention_slopes(const kernels::AttentionTile& tile, const T* weights, T* slopes,
                                const T* along) const = 0;
};

/// The arithmetic on the memory of the host.
template <class T>
SINEW_API std::shared_ptr<const LayerMath<T>> host_math();
/// The arithmetic on the memory of the device, or on that of the host if there is none.
/// Thread: as ComputeDevice.
template <class T>
SINEW_API std::shared_ptr<const LayerMath<T>> layer_math(const ComputeDevice& device);

extern template std::shared_ptr<const LayerMath<float>> host_math();
extern template std::shared_ptr<const LayerMath<double>> host_math();
extern template std::shared_ptr<const LayerMath<float>> layer_math(const ComputeDevice& device);
extern template std::shared_ptr<const LayerMath<double>> layer_math(const ComputeDevice& device);

}  // namespace sinew::parallel

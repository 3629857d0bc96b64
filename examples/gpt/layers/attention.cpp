#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "../math/vector_math.hpp"

namespace gpt {
namespace {

/// Where the parts of one head of one sequence are, in elements.
struct Spot {
  Spot(const Shape& shape, int sequence, int head)
      : rows(static_cast<std::size_t>(sequence) * static_cast<std::size_t>(shape.context)),
        queries(rows * 3 * static_cast<std::size_t>(shape.width) +
                static_cast<std::size_t>(head) * static_cast<std::size_t>(shape.head_width())),
        keys(queries + static_cast<std::size_t>(shape.width)),
        values(keys + static_cast<std::size_t>(shape.width)),
        out(rows * static_cast<std::size_t>(shape.width) +
            static_cast<std::size_t>(head) * static_cast<std::size_t>(shape.head_width())),
        weights(static_cast<std::size_t>(sequence * shape.heads + head) * static_cast<std::size_t>(shape.context) *
                static_cast<std::size_t>(shape.context)) {}

  std::size_t rows, queries, keys, values, out, weights;
};

/// f(spot of each head of each sequence).
template <class F>
void for_each_head(const Shape& shape, int sequences, const F& f) {
  for (int s = 0; s < sequences; ++s) {
    for (int h = 0; h < shape.heads; ++h) f(Spot(shape, s, h));
  }
}

}  // namespace

template <class T>
void Attention<T>::forward(Blas& blas, int sequences, const T* qkv, T* weights, T* out) const {
  again(blas, sequences, qkv, weights);
  const int t = shape.context, d = shape.head_width(), w = shape.width;
  for_each_head(shape, sequences, [&](const Spot& at) {
    blas.multiply({.m = t, .n = d, .k = t, .la = t, .lb = 3 * w, .lc = w}, T{1}, weights + at.weights, qkv + at.values,
                  T{0}, out + at.out);
  });
}

template <class T>
void Attention<T>::again(Blas& blas, int sequences, const T* qkv, T* weights) const {
  const int t = shape.context, d = shape.head_width(), w = shape.width;
  const T scale_by = 1 / std::sqrt(static_cast<T>(d));
  for_each_head(shape, sequences, [&](const Spot& at) {
    T* of_head = weights + at.weights;
    blas.multiply({.b_transposed = true, .m = t, .n = t, .k = d, .la = 3 * w, .lb = 3 * w, .lc = t}, scale_by,
                  qkv + at.queries, qkv + at.keys, T{0}, of_head);
    const auto length = static_cast<std::size_t>(t);
    for (std::size_t i = 0; i < length; ++i) {
      T* row = of_head + i * length;
      T largest;
      const T total = exponentials(row, row, i + 1, &largest);
      scale(row, 1 / total, i + 1);
      std::fill(row + i + 1, row + length, T{0});  // what comes later is not seen
    }
  });
}

template <class T>
void Attention<T>::backward(Blas& blas, int sequences, const T* qkv, const T* weights, const T* dout, T* room,
                            T* dqkv) const {
  const int t = shape.context, d = shape.head_width(), w = shape.width;
  const T scale_by = 1 / std::sqrt(static_cast<T>(d));
  for_each_head(shape, sequences, [&](const Spot& at) {
    const T* p = weights + at.weights;
    blas.multiply({.a_transposed = true, .m = t, .n = d, .k = t, .la = t, .lb = w, .lc = 3 * w}, T{1}, p, dout + at.out,
                  T{0}, dqkv + at.values);
    blas.multiply({.b_transposed = true, .m = t, .n = t, .k = d, .la = w, .lb = 3 * w, .lc = t}, T{1}, dout + at.out,
                  qkv + at.values, T{0}, room);
    const auto length = static_cast<std::size_t>(t);
    for (std::size_t i = 0; i < length; ++i) {  // through the softmax
      T* row = room + i * length;
      const T along = dot(row, p + i * length, i + 1);
      for (std::size_t j = 0; j <= i; ++j) row[j] = p[i * length + j] * (row[j] - along);
      std::fill(row + i + 1, row + length, T{0});
    }
    blas.multiply({.m = t, .n = d, .k = t, .la = t, .lb = 3 * w, .lc = 3 * w}, scale_by, room, qkv + at.keys, T{0},
                  dqkv + at.queries);
    blas.multiply({.a_transposed = true, .m = t, .n = d, .k = t, .la = t, .lb = 3 * w, .lc = 3 * w}, scale_by, room,
                  qkv + at.queries, T{0}, dqkv + at.keys);
  });
}

template struct Attention<float>;
template struct Attention<double>;

}  // namespace gpt

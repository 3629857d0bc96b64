#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/tensor/column_linear.hpp>
#include <sinew/parallel/tensor/row_linear.hpp>

#include "../math/blas.hpp"
#include "../model/store.hpp"
#include "replicated.hpp"
#include "weights.hpp"

namespace gpt {

/// A linear layer of which this rank makes some of the outputs. Shapes as ColumnLinear.
template <class T>
class Columns {
 public:
  /// bias: a parameter, or none: -1.
  Columns(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape, int weight, int bias)
      : layer_(group, "tp", blas, shape), shape_(shape), weight_(weight), bias_(bias) {}

  /// whole: room for all rows, or null where x has them.
  void forward(Store& store, Weights<T>& weights, const T* x, T* whole, T* out);
  /// Adds the gradients and reports them. whole: as in forward; partial: room for as much.
  void backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* partial, T* dx);

 private:
  sinew::parallel::ColumnLinear<T> layer_;
  sinew::parallel::LinearShape shape_;
  int weight_, bias_;
};

/// A linear layer of whose inputs this rank has some. Shapes as RowLinear.
template <class T>
class RowsOf {
 public:
  RowsOf(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape, int weight, int bias,
         Replicated<T> replicated)
      : layer_(group, "tp", blas, shape), shape_(shape), weight_(weight), bias_(bias), replicated_(replicated) {}

  void forward(Store& store, Weights<T>& weights, const T* x, T* partial, T* out);
  void backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* dx);

 private:
  sinew::parallel::RowLinear<T> layer_;
  sinew::parallel::LinearShape shape_;
  int weight_, bias_;
  Replicated<T> replicated_;
};

extern template class Columns<float>;
extern template class Columns<double>;
extern template class RowsOf<float>;
extern template class RowsOf<double>;

}  // namespace gpt

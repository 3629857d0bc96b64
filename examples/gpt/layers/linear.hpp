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

/// Some of the outputs that a rank makes: by rows [first, first + outputs) of a parameter of `rows` rows.
struct ColumnPart {
  int weight, bias;  ///< bias: a parameter, or none: -1
  std::int64_t rows, first, outputs;
  bool whole = false;  ///< every rank has all of the parameter
};

/// A linear layer of which this rank makes some of the outputs, by one parameter or several. Shapes as ColumnLinear.
template <class T>
class Columns {
 public:
  /// Parts of one parameter follow each other. whole: sums the gradients of those that every rank has.
  Columns(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape,
          std::vector<ColumnPart> parts, Replicated<T> whole = Replicated<T>{});
  /// All outputs by one parameter.
  Columns(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape, int weight, int bias);

  std::int64_t outputs() const noexcept { return layer_.outputs(); }
  /// whole: room for all rows, or null where x has them.
  void forward(Store& store, Weights<T>& weights, const T* x, T* whole, T* out);
  /// Adds the gradients and reports them. whole: as in forward; partial: as ColumnLinear.
  void backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* partial, T* dx);

 private:
  /// to = what all parts give to the gradient of the input, their leaf blocks side by side: a tree over all of them.
  void multiply_back_by_leaves(Store& store, Weights<T>& weights, const T* dout, T* to);
  /// Gradients of all parameters. x: as backward, dout of all rows.
  void report(Store& store, Weights<T>& weights, const T* x, const T* dout);
  /// f(part, its outputs).
  template <class F>
  void for_each_part(const F& f) const;
  /// Gradients of all parts of one parameter, the first of which is parts_[at]. Returns how many these are.
  std::size_t report(Store& store, Weights<T>& weights, const T* x, const T* dout, std::size_t at,
                     std::int64_t first_output);

  sinew::parallel::ColumnLinear<T> layer_;
  sinew::parallel::LinearShape shape_;
  std::vector<ColumnPart> parts_;
  Replicated<T> whole_;
};

/// A linear layer of whose inputs this rank has some. Shapes as RowLinear.
template <class T>
class RowsOf {
 public:
  /// bias: a parameter, or none: -1. x_stays: what it is given is there until gradients that are deferred are made.
  RowsOf(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape, int weight, int bias,
         Replicated<T> replicated, bool x_stays = true)
      : layer_(group, "tp", blas, shape),
        shape_(shape),
        weight_(weight),
        bias_(bias),
        replicated_(replicated),
        x_stays_(x_stays) {}

  std::int64_t inputs() const noexcept { return layer_.inputs(); }
  void forward(Store& store, Weights<T>& weights, const T* x, T* partial, T* out);
  void backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* dx);

 private:
  void report(Store& store, Weights<T>& weights, const T* x, const T* dout);

  sinew::parallel::RowLinear<T> layer_;
  sinew::parallel::LinearShape shape_;
  int weight_, bias_;
  Replicated<T> replicated_;
  bool x_stays_;
};

extern template class Columns<float>;
extern template class Columns<double>;
extern template class RowsOf<float>;
extern template class RowsOf<double>;

}  // namespace gpt

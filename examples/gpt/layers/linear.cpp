#include "linear.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace gpt {

using sinew::parallel::Exchange;
using sinew::parallel::Rows;

template <class T>
Columns<T>::Columns(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape,
                    std::vector<ColumnPart> parts, Replicated<T> whole)
    : layer_(group, "tp", blas, shape), shape_(shape), parts_(std::move(parts)), whole_(whole) {}

template <class T>
Columns<T>::Columns(sinew::Communicator& group, Blas& blas, const sinew::parallel::LinearShape& shape, int weight,
                    int bias)
    : Columns(group, blas, shape, std::vector<ColumnPart>{}) {
  parts_.push_back({weight, bias, layer_.outputs(), 0, layer_.outputs()});
}

template <class T>
template <class F>
void Columns<T>::for_each_part(const F& f) const {
  std::int64_t first = 0;
  for (const ColumnPart& part : parts_) {
    f(part, Rows{first, first + part.outputs});
    first += part.outputs;
  }
}

template <class T>
void Columns<T>::forward(Store& store, Weights<T>& weights, const T* x, T* whole, T* out) {
  layer_.gather(x, whole, [&](const T* all, const Rows& rows) {
    for_each_part([&](const ColumnPart& part, const Rows& outputs) {
      std::vector<T> room(part.bias < 0 ? 0 : static_cast<std::size_t>(part.rows));
      const T* offset = part.bias < 0 ? nullptr : weights.vector(store, part.bias, room) + part.first;
      layer_.multiply(all, weights.matrix(store, part.weight) + part.first * shape_.inputs, offset, rows, outputs, out);
    });
  });
}

template <class T>
std::size_t Columns<T>::report(Store& store, Weights<T>& weights, const T* x, const T* dout, std::size_t at,
                               std::int64_t first_output) {
  const ColumnPart head = parts_[at];
  std::size_t count = 0;
  while (at + count < parts_.size() && parts_[at + count].weight == head.weight) ++count;
  // f(part, its outputs, row `part.first` of `to`)
  const auto of_each = [&](T* to, std::int64_t columns, const auto& f) {
    std::int64_t first = first_output;
    for (std::size_t i = at; i < at + count; ++i) {
      f(Rows{first, first + parts_[i].outputs}, to + parts_[i].first * columns);
      first += parts_[i].outputs;
    }
  };
  if (weights.by_sample != nullptr) {
    SampleSums<T>& sums = *weights.by_sample;
    const std::int64_t n = layer_.outputs(), inputs = shape_.inputs;
    const auto add_samples = [&](int p, std::int64_t columns, const auto& gradient) {
      sums.add(store, p, head.rows * columns, [&](std::int64_t row, T* to) {
        of_each(to, columns, [&](const Rows& outputs, T* part) {
          gradient(row, dout + row * n + outputs.first, outputs.count(), part);
        });
      });
    };
    if (head.bias >= 0)
      add_samples(head.bias, 1, [&](std::int64_t, const T* d, std::int64_t m, T* to) { sums.sum_rows(d, m, n, to); });
    add_samples(head.weight, inputs, [&](std::int64_t row, const T* d, std::int64_t m, T* to) {
      sums.multiply(d, n, m, x + row * inputs, inputs, inputs, to);
    });
    return count;
  }
  const auto add = [&](int p, std::int64_t columns, const auto& gradient) {
    const auto elements = static_cast<std::size_t>(head.rows * columns);
    if (head.whole) {
      std::vector<T> all(elements);
      of_each(all.data(), columns, [&](const Rows& outputs, T* to) { gradient(outputs, T{0}, to); });
      whole_.sum(all);
      whole_.report(store, weights, p, all);
      return;
    }
    weights.add_gradient(store, p, elements, [&](T* sums, T beta) {
      of_each(sums, columns, [&](const Rows& outputs, T* to) { gradient(outputs, beta, to); });
    });
    store.gradient_ready(p);
  };
  if (head.bias >= 0) add(head.bias, 1, [&](const Rows& o, T beta, T* to) { layer_.bias_gradient(dout, o, beta, to); });
  add(head.weight, shape_.inputs, [&](const Rows& o, T beta, T* to) { layer_.weight_gradient(x, dout, o, beta, to); });
  return count;
}

template <class T>
void Columns<T>::report(Store& store, Weights<T>& weights, const T* x, const T* dout) {
  std::int64_t first = 0;
  for (std::size_t at = 0; at < parts_.size();) {
    const std::size_t count = report(store, weights, x, dout, at, first);
    for (std::size_t i = 0; i < count; ++i) first += parts_[at++].outputs;
  }
}

template <class T>
void Columns<T>::multiply_back_by_leaves(Store& store, Weights<T>& weights, const T* dout, T* to) {
  const std::int64_t n = layer_.outputs(), inputs = shape_.inputs, leaf = shape_.outputs / shape_.leaves;
  const std::int64_t leaves = n / leaf;  // of this rank
  std::vector<T> slopes(static_cast<std::size_t>(shape_.rows * n)), matrix(static_cast<std::size_t>(n * inputs));
  std::int64_t in_leaf = 0;  // elements of the parts before
  for_each_part([&](const ColumnPart& part, const Rows& outputs) {
    const T* rows = weights.matrix(store, part.weight) + part.first * inputs;
    const std::int64_t each = part.outputs / leaves;
    for (std::int64_t l = 0; l < leaves; ++l) {
      const std::int64_t at = l * leaf + in_leaf, from = l * each;
      std::copy_n(rows + from * inputs, each * inputs, matrix.data() + at * inputs);
      for (std::int64_t r = 0; r < shape_.rows; ++r)
        std::copy_n(dout + r * n + outputs.first + from, each, slopes.data() + r * n + at);
    }
    in_leaf += each;
  });
  layer_.multiply_back(slopes.data(), matrix.data(), {0, shape_.rows}, {0, n}, T{0}, to);
}

template <class T>
void Columns<T>::backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* partial, T* dx) {
  const bool gathers = shape_.sequence_parallel;
  std::optional<Exchange::Underway> rows_coming;
  if (gathers && weights.later == nullptr) rows_coming.emplace(layer_.begin_gather(x, whole));
  auto sum_coming = layer_.sum(
      [&](const Rows& rows, T* to) {
        if (shape_.leaves > 0 && parts_.size() > 1) return multiply_back_by_leaves(store, weights, dout, to);
        T beta{0};
        for_each_part([&](const ColumnPart& part, const Rows& outputs) {
          layer_.multiply_back(dout, weights.matrix(store, part.weight) + part.first * shape_.inputs, rows, outputs,
                               std::exchange(beta, T{1}), to);
        });
      },
      partial, dx);
  if (weights.later != nullptr) {
    const T* kept = weights.later->keep(dout, shape_.rows * layer_.outputs());
    weights.later->add([this, &store, &weights, x, kept, whole, gathers] {
      if (gathers) layer_.begin_gather(x, whole).get();
      report(store, weights, gathers ? whole : x, kept);
    });
  } else {
    if (rows_coming) rows_coming->get();
    report(store, weights, gathers ? whole : x, dout);
  }
  sum_coming.get();
}

template <class T>
void RowsOf<T>::forward(Store& store, Weights<T>& weights, const T* x, T* partial, T* out) {
  std::vector<T> room(bias_ < 0 ? 0 : static_cast<std::size_t>(shape_.outputs));
  const T* offset = bias_ < 0 ? nullptr : weights.vector(store, bias_, room);
  layer_.forward(x, weights.matrix(store, weight_), offset, partial, out);
}

template <class T>
void RowsOf<T>::backward(Store& store, Weights<T>& weights, const T* x, const T* dout, T* whole, T* dx) {
  const T* all = layer_.input_gradient(dout, weights.matrix(store, weight_), whole, dx);
  if (bias_ >= 0 && weights.by_sample != nullptr) {
    SampleSums<T>& sums = *weights.by_sample;
    sums.add(store, bias_, shape_.outputs, [&](std::int64_t row, T* to) {
      sums.sum_rows(all + row * shape_.outputs, shape_.outputs, shape_.outputs, to);
    });
  } else if (bias_ >= 0) {
    std::vector<T> for_bias(static_cast<std::size_t>(shape_.outputs));
    layer_.bias_gradient(dout, T{0}, for_bias.data());
    replicated_.sum(for_bias);
    replicated_.report(store, weights, bias_, for_bias);
  }
  if (weights.later == nullptr) return report(store, weights, x, all);
  const T* kept = weights.later->keep(all, shape_.rows * shape_.outputs);
  if (!x_stays_) x = weights.later->keep(x, shape_.rows * layer_.inputs());
  weights.later->add([this, &store, &weights, x, kept] { report(store, weights, x, kept); });
}

/// dout: of all rows.
template <class T>
void RowsOf<T>::report(Store& store, Weights<T>& weights, const T* x, const T* dout) {
  const std::int64_t outputs = shape_.outputs, inputs = layer_.inputs();
  if (weights.by_sample != nullptr) {
    SampleSums<T>& sums = *weights.by_sample;
    return sums.add(store, weight_, outputs * inputs, [&](std::int64_t row, T* to) {
      sums.multiply(dout + row * outputs, outputs, outputs, x + row * inputs, inputs, inputs, to);
    });
  }
  const auto elements = static_cast<std::size_t>(outputs * inputs);
  weights.add_gradient(store, weight_, elements, [&](T* to, T beta) { layer_.weight_gradient(dout, x, beta, to); });
  store.gradient_ready(weight_);
}

template class Columns<float>;
template class Columns<double>;
template class RowsOf<float>;
template class RowsOf<double>;

}  // namespace gpt

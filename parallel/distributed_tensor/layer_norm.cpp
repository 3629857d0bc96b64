#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/compute/vector_kernels.hpp>
#include <sinew/parallel/distributed_tensor/layer_norm.hpp>
#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>

namespace sinew::parallel {
namespace {

void require_norm_shape(std::string_view name, const TensorSpec& found, const std::vector<std::int64_t>& expected) {
  if (found.shape != expected)
    refuse_operation(name, fmt::format("{} has the shape {}; expected {}", found.to_string(), shape_text(found.shape),
                                       shape_text(expected)));
}

/// The labels of rows and of the dimension that is normalised.
struct NormLabels {
  std::string rows, all, last;
  std::vector<std::int64_t> row_shape;

  NormLabels(std::string_view name, const TensorSpec& x) {
    if (x.shape.empty() || x.shape.back() == 0)
      refuse_operation(name, fmt::format("{} has no elements in a last dimension; expected 1 or more", x.to_string()));
    LabelLetters letters;
    rows = letters.next(x.shape.size() - 1);
    last = letters.next(1);
    all = rows + last;
    row_shape.assign(x.shape.begin(), x.shape.end() - 1);
  }
};

/// The rows of a part.
struct NormRows {
  std::int64_t rows = 1;
  std::size_t columns;

  explicit NormRows(const std::vector<std::int64_t>& extents) : columns(static_cast<std::size_t>(extents.back())) {
    for (std::size_t d = 0; d + 1 < extents.size(); ++d) rows *= extents[d];
  }
  template <class T>
  const T* row(const T* data, std::int64_t r) const noexcept {
    return data + r * static_cast<std::int64_t>(columns);
  }
  template <class T>
  T* row(T* data, std::int64_t r) const noexcept {
    return data + r * static_cast<std::int64_t>(columns);
  }
};

/// The gradient of x. T is the type in which is computed.
template <class T>
void norm_input_gradient(LocalParts<T>& parts, std::int64_t extent) {
  const T *dout = parts.in(0), *x = parts.in(1), *weight = parts.in(2), *mean = parts.in(3), *factor = parts.in(4);
  const NormRows part(parts.in_extents(1));
  std::vector<T> sums(static_cast<std::size_t>(2 * part.rows), T{0});  // of slopes, and of slopes times normalised x
  const auto even = [&](std::int64_t r, std::size_t i) { return (part.row(x, r)[i] - mean[r]) * factor[r]; };
  for (std::int64_t r = 0; r < part.rows; ++r) {
    const auto k = static_cast<std::size_t>(2 * r);
    for (std::size_t i = 0; i < part.columns; ++i) {
      const T slope = part.row(dout, r)[i] * weight[i];
      sums[k] += slope;
      sums[k + 1] += slope * even(r, i);
    }
  }
  parts.combine(sums, ReduceOp::Sum);
  for (std::int64_t r = 0; r < part.rows; ++r) {
    const auto k = static_cast<std::size_t>(2 * r);
    T* to = part.row(parts.out(0), r);
    for (std::size_t i = 0; i < part.columns; ++i) {
      const T slope = part.row(dout, r)[i] * weight[i];
      to[i] = factor[r] * (slope - (sums[k] + even(r, i) * sums[k + 1]) / static_cast<T>(extent));
    }
  }
}

}  // namespace

Operation layer_norm_operation(const TensorSpec& x, const TensorSpec& weight, const TensorSpec& bias) {
  constexpr std::string_view kName = "layer_norm";
  require_float_dtypes(kName, std::array{x, weight, bias});
  const NormLabels labels(kName, x);
  for (const TensorSpec* parameter : {&weight, &bias}) require_norm_shape(kName, *parameter, {x.shape.back()});
  const DType dtype = computed_dtype(x.dtype);
  return {.name = std::string(kName),
          .rule = {.labels = join_labels(std::array{labels.all, labels.last, labels.last}, std::array{labels.all})},
          .operands = {x, weight, bias},
          .results = {{"layer_norm", x.dtype, x.shape, {}}},
          .exchanged_labels = labels.last,
          .exchanged = 2,
          .exchanged_dtype = dtype};
}

LayerNormResult layer_norm(const DistributedTensor& x, const DistributedTensor& weight, const DistributedTensor& bias,
                           double epsilon, const CallOptions& options) {
  const std::array operands{&x, &weight, &bias};
  require_one_mesh("layer_norm", operands);
  const Operation op = layer_norm_operation(x.spec(), weight.spec(), bias.spec());
  const std::int64_t extent = x.spec().shape.back();
  Bytes means, factors;
  DistributedTensor out = run_single(op, {&x, &weight, &bias}, options, [&]<class T>(LocalParts<T>& parts) {
    const NormRows part(parts.in_extents(0));
    const auto rows = static_cast<std::size_t>(part.rows);
    std::vector<T> mean(rows), factor(rows);
    const T *from = parts.in(0), *scales = parts.in(1), *shifts = parts.in(2);
    for (std::size_t r = 0; r < rows; ++r)
      mean[r] = kernels::sum(part.row(from, static_cast<std::int64_t>(r)), part.columns);
    parts.combine(mean, ReduceOp::Sum);
    for (std::size_t r = 0; r < rows; ++r) {
      mean[r] /= static_cast<T>(extent);
      factor[r] = kernels::squares_around(mean[r], part.row(from, static_cast<std::int64_t>(r)), part.columns);
    }
    parts.combine(factor, ReduceOp::Sum);
    for (std::size_t r = 0; r < rows; ++r) {
      factor[r] = 1 / std::sqrt(factor[r] / static_cast<T>(extent) + static_cast<T>(epsilon));
      const auto row = static_cast<std::int64_t>(r);
      kernels::normalise(part.row(from, row), mean[r], factor[r], scales, shifts, part.row(parts.out(0), row),
                         part.columns);
    }
    const auto bytes_of_numbers = [](const std::vector<T>& numbers) {
      const auto* first = reinterpret_cast<const std::byte*>(numbers.data());
      return Bytes(first, first + numbers.size() * sizeof(T));
    };
    means = bytes_of_numbers(mean);
    factors = bytes_of_numbers(factor);
  });
  // Every rank that shares a row has its numbers.
  const auto of_rows = [&](std::string_view name, const Bytes& numbers) {
    TensorSpec spec{std::string(name), computed_dtype(x.spec().dtype), {}, {}};
    spec.shape.assign(x.spec().shape.begin(), x.spec().shape.end() - 1);
    const int last = static_cast<int>(spec.shape.size());
    std::vector<Placements::Entry> entries;
    for (const auto& entry : out.placements().entries()) {
      const auto* shard = std::get_if<Shard>(&entry.placement);
      if (shard != nullptr && shard->dim != last) entries.push_back(entry);
    }
    spec.placements = Placements(std::move(entries));
    DistributedTensor made = DistributedTensor::unchecked(x.mesh(), std::move(spec));
    std::copy(numbers.begin(), numbers.end(), made.local().data);
    return made;
  };
  DistributedTensor mean = of_rows("layer_norm.mean", means), factor = of_rows("layer_norm.factor", factors);
  return {std::move(out), std::move(mean), std::move(factor)};
}

LayerNormGradients layer_norm_backward(const DistributedTensor& dout, const DistributedTensor& x,
                                       const DistributedTensor& weight, const LayerNormResult& result,
                                       const CallOptions& options) {
  constexpr std::string_view kName = "layer_norm_backward";
  const std::array all{&dout, &x, &weight, &result.mean, &result.factor};
  require_one_mesh(kName, all);
  require_float_dtypes(kName, std::array{dout.spec(), x.spec(), weight.spec()});
  const NormLabels labels(kName, x.spec());
  require_norm_shape(kName, dout.spec(), x.spec().shape);
  require_norm_shape(kName, weight.spec(), {x.spec().shape.back()});
  for (const DistributedTensor* rows : {&result.mean, &result.factor})
    require_norm_shape(kName, rows->spec(), labels.row_shape);
  const DType dtype = x.spec().dtype;
  Operation input{
      .name = std::string(kName),
      .rule = {.labels = join_labels(std::array{labels.all, labels.all, labels.last, labels.rows, labels.rows},
                                     std::array{labels.all}),
               .linear = {0}},
      .operands = {dout.spec(), x.spec(), weight.spec(), result.mean.spec(), result.factor.spec()},
      .results = {{x.spec().name + ".grad", dtype, x.spec().shape, {}}},
      .exchanged_labels = labels.last,
      .exchanged = 2,
      .exchanged_dtype = computed_dtype(dtype),
      .has_preferred = true,
      .preferred = x.placements()};
  DistributedTensor dx = run_single(input, {all[0], all[1], all[2], all[3], all[4]}, options,
                                    [&](auto& parts) { norm_input_gradient(parts, x.spec().shape.back()); });
  const std::vector<std::int64_t> row_of_weights{x.spec().shape.back()};
  const Operation weights{
      .name = std::string(kName),
      .rule = {.labels = join_labels(std::array{labels.all, labels.all, labels.rows, labels.rows},
                                     std::array{labels.last, labels.last}),
               .linear = {0}},
      .operands = {dout.spec(), x.spec(), result.mean.spec(), result.factor.spec()},
      .results = {{weight.spec().name + ".grad", dtype, row_of_weights, {}}, {"bias.grad", dtype, row_of_weights, {}}},
      .has_preferred = true,
      .preferred = weight.placements()};
  const std::array operands{&dout, &x, &result.mean, &result.factor};
  std::vector<DistributedTensor> of_weights =
      run_operation(weights, operands, options, [&]<class T>(LocalParts<T>& parts) {
        const NormRows part(parts.in_extents(1));
        const T *d = parts.in(0), *from = parts.in(1), *mean = parts.in(2), *factor = parts.in(3);
        T *scales = parts.out(0), *shifts = parts.out(1);
        for (std::int64_t r = 0; r < part.rows; ++r) {
          for (std::size_t i = 0; i < part.columns; ++i) {
            scales[i] += part.row(d, r)[i] * (part.row(from, r)[i] - mean[r]) * factor[r];
            shifts[i] += part.row(d, r)[i];
          }
        }
      });
  return {std::move(dx), std::move(of_weights[0]), std::move(of_weights[1])};
}

}  // namespace sinew::parallel

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>
#include <sinew/parallel/distributed_tensor/softmax.hpp>

namespace sinew::parallel {
namespace {

Operation operation_along(const std::string& name, const std::vector<TensorSpec>& operands, int dim, int exchanged,
                          const std::vector<std::size_t>& linear) {
  require_float_dtypes(name, operands);
  const TensorSpec& x = operands.front();
  const std::size_t d = dimension_of(name, x, dim);
  LabelLetters letters;
  const std::string labels = letters.next(x.shape.size());
  const std::vector<std::string> all(operands.size(), labels);
  return {.name = name,
          .rule = {.labels = join_labels(all, std::array{labels}), .linear = linear},
          .operands = operands,
          .results = {{name, x.dtype, x.shape, {}}},
          .exchanged_labels = std::string(1, labels[d]),
          .exchanged = exchanged,
          .exchanged_dtype = computed_dtype(x.dtype)};
}

/// A part as rows along one dimension: row r of `outer * inner` has its elements `inner` apart.
struct RowsAlong {
  std::int64_t outer = 1, along = 0, inner = 1;

  RowsAlong(const std::vector<std::int64_t>& extents, std::size_t dim) : along(extents[dim]) {
    for (std::size_t d = 0; d < extents.size(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : extents[d];
  }
  std::size_t rows() const noexcept { return static_cast<std::size_t>(outer * inner); }
  /// Calls visit(row, element) for each element.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t a = 0; a < along; ++a) {
        for (std::int64_t i = 0; i < inner; ++i)
          visit(static_cast<std::size_t>(o * inner + i), (o * along + a) * inner + i);
      }
    }
  }
};

}  // namespace

Operation softmax_operation(const TensorSpec& x, int dim) { return operation_along("softmax", {x}, dim, 2, {}); }

DistributedTensor softmax(const DistributedTensor& x, int dim, const CallOptions& options) {
  const Operation op = softmax_operation(x.spec(), dim);
  const std::size_t d = dimension_of("softmax", x.spec(), dim);
  return run_single(op, {&x}, options, [&]<class T>(LocalParts<T>& parts) {
    const RowsAlong rows(parts.in_extents(0), d);
    const T* from = parts.in(0);
    T* to = parts.out(0);
    std::vector<T> most(rows.rows(), -std::numeric_limits<T>::infinity()), sums(rows.rows(), T{0});
    rows.each([&](std::size_t r, std::int64_t e) { most[r] = std::max(most[r], from[e]); });
    parts.combine(most, ReduceOp::Max);
    rows.each([&](std::size_t r, std::int64_t e) {
      to[e] = std::exp(from[e] - most[r]);
      sums[r] += to[e];
    });
    parts.combine(sums, ReduceOp::Sum);
    rows.each([&](std::size_t r, std::int64_t e) { to[e] /= sums[r]; });
  });
}

DistributedTensor softmax_backward(const DistributedTensor& dout, const DistributedTensor& out, int dim,
                                   const CallOptions& options) {
  require_one_mesh("softmax_backward", std::array{&dout, &out});
  if (dout.spec().shape != out.spec().shape)
    refuse_operation("softmax_backward", fmt::format("{} and {} differ in shape; expected one shape",
                                                     dout.spec().to_string(), out.spec().to_string()));
  Operation op = operation_along("softmax_backward", {dout.spec(), out.spec()}, dim, 1, {0});
  op.has_preferred = true;
  op.preferred = out.placements();
  const std::size_t d = dimension_of("softmax_backward", out.spec(), dim);
  return run_single(op, {&dout, &out}, options, [&]<class T>(LocalParts<T>& parts) {
    const RowsAlong rows(parts.in_extents(1), d);
    const T *slope = parts.in(0), *y = parts.in(1);
    T* to = parts.out(0);
    std::vector<T> sums(rows.rows(), T{0});
    rows.each([&](std::size_t r, std::int64_t e) { sums[r] += slope[e] * y[e]; });
    parts.combine(sums, ReduceOp::Sum);
    rows.each([&](std::size_t r, std::int64_t e) { to[e] = y[e] * (slope[e] - sums[r]); });
  });
}

}  // namespace sinew::parallel

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/distributed_tensor/label_space.hpp>
#include <sinew/parallel/distributed_tensor/matmul.hpp>
#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>

namespace sinew::parallel {
namespace {

using ShapeOfBatch = std::vector<std::int64_t>;

/// A product of matrices of two tensors, either of which may be stored transposed.
struct MatrixProduct {
  Operation operation;
  MatmulOptions transposed;
  std::string batch;  ///< labels of batch dimensions, those of operands that are repeated left out
};

ShapeOfBatch batch_shape(const TensorSpec& spec) { return {spec.shape.begin(), spec.shape.end() - 2}; }

void require_matrix(std::string_view name, const TensorSpec& spec) {
  if (spec.shape.size() < 2)
    refuse_operation(name,
                     fmt::format("{} has {} dimensions; expected 2 or more", spec.to_string(), spec.shape.size()));
  for (const std::int64_t extent : spec.shape) {
    if (extent > std::numeric_limits<int>::max())
      refuse_operation(name, fmt::format("{} has an extent of {}; expected at most {}", spec.to_string(), extent,
                                         std::numeric_limits<int>::max()));
  }
}

/// result_batch: the batch dimensions of the result, for gradients of repeated dimensions. Null: those of both.
MatrixProduct matrix_product(const std::string& name, const TensorSpec& a, const TensorSpec& b,
                             MatmulOptions transposed, const ShapeOfBatch* result_batch) {
  for (const TensorSpec* spec : {&a, &b}) require_matrix(name, *spec);
  require_float_dtypes(name, std::array{a, b});
  const std::int64_t inner_a = a.shape[a.shape.size() - (transposed.a_transposed ? 2 : 1)];
  const std::int64_t inner_b = b.shape[b.shape.size() - (transposed.b_transposed ? 1 : 2)];
  if (inner_a != inner_b)
    refuse_operation(name, fmt::format("{} has {} as its inner dimension, and {} has {}; expected equal ones",
                                       a.to_string(), inner_a, b.to_string(), inner_b));
  LabelLetters letters;
  const std::string m = letters.next(1), n = letters.next(1), k = letters.next(1);
  std::vector<ShapeOfBatch> shapes{batch_shape(a), batch_shape(b)};
  if (result_batch != nullptr) shapes.push_back(*result_batch);
  const std::array specs{a, b, a};
  BroadcastLabels batch = broadcast_labels(name, std::span(specs).first(shapes.size()), shapes, letters);
  const std::string result = result_batch != nullptr ? batch.tensors[2] : batch.labels;
  MatrixProduct made{{.name = name, .operands = {a, b}}, transposed, batch.labels};
  const std::array operands{batch.tensors[0] + (transposed.a_transposed ? k + m : m + k),
                            batch.tensors[1] + (transposed.b_transposed ? n + k : k + n)};
  made.operation.rule = {
      .labels = join_labels(operands, std::array{result + m + n}), .whole = batch.whole, .linear = {0, 1}};
  TensorSpec out{name, a.dtype, result_batch != nullptr ? *result_batch : batch.shape, {}};
  out.shape.push_back(a.shape[a.shape.size() - (transposed.a_transposed ? 1 : 2)]);
  out.shape.push_back(b.shape[b.shape.size() - (transposed.b_transposed ? 2 : 1)]);
  made.operation.results.push_back(std::move(out));
  return made;
}

template <class T>
void multiply_parts(const MatrixProduct& product, LocalParts<T>& parts, Blas& blas) {
  const std::array<std::vector<std::int64_t>, 3> extents{parts.in_extents(0), parts.in_extents(1),
                                                         parts.out_extents(0)};
  const auto from_end = [&](std::size_t t, std::size_t d) { return as_int(extents[t][extents[t].size() - d]); };
  const auto [ta, tb] = product.transposed;
  Product p{.a_transposed = ta,
            .b_transposed = tb,
            .m = from_end(2, 2),
            .n = from_end(2, 1),
            .k = from_end(0, ta ? 2 : 1),
            .la = from_end(0, 1),
            .lb = from_end(1, 1),
            .lc = from_end(2, 1)};
  if (p.m == 0 || p.n == 0 || p.k == 0) return;  // the result is 0 already
  const T *a = parts.in(0), *b = parts.in(1);
  T* c = parts.out(0);
  const auto batches = [&](std::size_t t) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d + 2 < extents[t].size(); ++d) count *= extents[t][d];
    return count;
  };
  // Matrices that lie behind each other are one: rows of a times one b, or a sum over rows of both.
  const std::int64_t folded = batches(0) * extents[0][extents[0].size() - 2];
  if (folded <= std::numeric_limits<int>::max() && batches(0) > 1) {
    if (!ta && batches(1) == 1 && batches(2) == batches(0)) {
      p.m = as_int(folded);
      return blas.multiply(p, T{1}, a, b, T{0}, c);
    }
    if (ta && !tb && batches(1) == batches(0) && batches(2) == 1) {
      p.k = as_int(folded);
      return blas.multiply(p, T{1}, a, b, T{0}, c);
    }
  }
  if (product.batch.empty()) return blas.multiply(p, T{1}, a, b, T{0}, c);
  const LabelSpace space(product.operation.rule.labels, extents, product.batch);
  space.walk<3>({0, 1, 2}, [&](const auto& at) { blas.multiply(p, T{1}, a + at[0], b + at[1], T{1}, c + at[2]); });
}

DistributedTensor run_product(const MatrixProduct& product, const DistributedTensor& a, const DistributedTensor& b,
                              Blas& blas, const CallOptions& options) {
  return run_single(product.operation, {&a, &b}, options, [&](auto& parts) { multiply_parts(product, parts, blas); });
}

void require_gradient(const TensorSpec& dout, const TensorSpec& expected) {
  if (dout.shape != expected.shape)
    refuse_operation("matmul_backward",
                     fmt::format("the gradient {} has the shape {}; expected {}, the shape of the "
                                 "result",
                                 dout.to_string(), shape_text(dout.shape), shape_text(expected.shape)));
}

}  // namespace

Operation matmul_operation(const TensorSpec& a, const TensorSpec& b, MatmulOptions transposed) {
  return matrix_product("matmul", a, b, transposed, nullptr).operation;
}

DistributedTensor matmul(const DistributedTensor& a, const DistributedTensor& b, Blas& blas, MatmulOptions transposed,
                         const CallOptions& options) {
  require_one_mesh("matmul", std::array{&a, &b});
  return run_product(matrix_product("matmul", a.spec(), b.spec(), transposed, nullptr), a, b, blas, options);
}

MatmulGradients matmul_backward(const DistributedTensor& dout, const DistributedTensor& a, const DistributedTensor& b,
                                Blas& blas, MatmulOptions transposed, const CallOptions& options) {
  require_one_mesh("matmul_backward", std::array{&dout, &a, &b});
  const auto [ta, tb] = transposed;
  const MatrixProduct forward = matrix_product("matmul_backward", a.spec(), b.spec(), transposed, nullptr);
  require_gradient(dout.spec(), forward.operation.results.front());
  const auto gradient_of = [&](const DistributedTensor& whose, const DistributedTensor& left, bool tl,
                               const DistributedTensor& right, bool tr) {
    const ShapeOfBatch batch = batch_shape(whose.spec());
    MatrixProduct product = matrix_product("matmul_backward", left.spec(), right.spec(), {tl, tr}, &batch);
    product.operation.results.front().name = whose.spec().name + ".grad";
    product.operation.has_preferred = true;
    product.operation.preferred = whose.placements();
    return run_product(product, left, right, blas, options);
  };
  return {ta ? gradient_of(a, b, tb, dout, true) : gradient_of(a, dout, false, b, !tb),
          tb ? gradient_of(b, dout, true, a, ta) : gradient_of(b, a, !ta, dout, false)};
}

}  // namespace sinew::parallel

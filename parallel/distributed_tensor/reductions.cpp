#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <sinew/parallel/distributed_tensor/label_space.hpp>
#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/reductions.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>

namespace sinew::parallel {
namespace {

std::string name_of_reduction(Reduction reduction) {
  return reduction == Reduction::Sum ? "sum" : reduction == Reduction::Mean ? "mean" : "max";
}

/// The labels of a tensor and of what its reduction leaves.
struct ReducedLabels {
  std::string all, kept;
  std::string whole;                ///< labels of reduced dimensions that stay with one place
  std::vector<std::int64_t> shape;  ///< of the result
  std::int64_t reduced = 1;         ///< elements that one result is made of
};

ReducedLabels reduced_labels(const std::string& name, const TensorSpec& x, const ReductionOptions& options) {
  const std::size_t dims = x.shape.size();
  std::vector<bool> is_reduced(dims, options.dims.empty());
  for (const int dim : options.dims) {
    const std::size_t d = dimension_of(name, x, dim);
    if (is_reduced[d])
      refuse_operation(name, fmt::format("dimension {} of {} is named twice; expected each once", d, x.to_string()));
    is_reduced[d] = true;
  }
  LabelLetters letters;
  ReducedLabels made{.all = letters.next(dims)};
  for (std::size_t d = 0; d < dims; ++d) {
    if (is_reduced[d]) made.reduced *= x.shape[d];
    if (is_reduced[d] && !options.keep_dims) continue;
    made.kept += is_reduced[d] ? letters.next() : made.all[d];
    if (is_reduced[d]) made.whole += made.kept.back();
    made.shape.push_back(is_reduced[d] ? 1 : x.shape[d]);
  }
  return made;
}

void require_reduced_shape(const std::string& name, const TensorSpec& found, const ReducedLabels& labels) {
  if (found.shape != labels.shape)
    refuse_operation(name, fmt::format("{} has the shape {}; expected {}, the shape of the result", found.to_string(),
                                       shape_text(found.shape), shape_text(labels.shape)));
}

/// An operation from x and tensors of the reduced shape to one of them, or to a tensor of the shape of x.
/// small_first: how many tensors of the reduced shape come before x.
Operation reduced_operation(const std::string& name, const ReducedLabels& labels, std::vector<TensorSpec> operands,
                            const std::vector<bool>& is_reduced, const TensorSpec& result, bool result_is_reduced) {
  std::vector<std::string> texts;
  for (const bool reduced : is_reduced) texts.push_back(reduced ? labels.kept : labels.all);
  return {.name = name,
          .rule = {.labels = join_labels(texts, std::array{result_is_reduced ? labels.kept : labels.all}),
                   .whole = labels.whole,
                   .linear = {0}},
          .operands = std::move(operands),
          .results = {result}};
}

template <class T>
LabelSpace space_of_parts(const Operation& op, const LocalParts<T>& parts) {
  std::vector<std::vector<std::int64_t>> extents;
  for (std::size_t i = 0; i < op.operands.size(); ++i) extents.push_back(parts.in_extents(i));
  extents.push_back(parts.out_extents(0));
  return LabelSpace(op.rule.labels, extents);
}

/// Counts the elements of x that are the maximum, for each maximum.
DistributedTensor ties_of(const DistributedTensor& x, const DistributedTensor& out, const ReducedLabels& labels,
                          const CallOptions& options) {
  TensorSpec result{"ties", x.spec().dtype, labels.shape, {}};
  Operation op = reduced_operation("max_backward", labels, {x.spec(), out.spec()}, {false, true}, result, true);
  op.rule.linear = {};
  return run_single(op, {&x, &out}, options, [&]<class T>(LocalParts<T>& parts) {
    const T *values = parts.in(0), *most = parts.in(1);
    T* to = parts.out(0);
    space_of_parts(op, parts).template walk<3>({0, 1, 2}, [&](const auto& at) {
      if (values[at[0]] == most[at[1]]) to[at[2]] += 1;
    });
  });
}

DistributedTensor max_backward(const DistributedTensor& dout, const DistributedTensor& x, const DistributedTensor& out,
                               const ReducedLabels& labels, const CallOptions& options) {
  const DistributedTensor ties = ties_of(x, out, labels, options);
  TensorSpec result{x.spec().name + ".grad", x.spec().dtype, x.spec().shape, {}};
  Operation op = reduced_operation("max_backward", labels, {dout.spec(), x.spec(), out.spec(), ties.spec()},
                                   {true, false, true, true}, result, false);
  op.has_preferred = true;
  op.preferred = x.placements();
  return run_single(op, {&dout, &x, &out, &ties}, options, [&]<class T>(LocalParts<T>& parts) {
    const T *d = parts.in(0), *values = parts.in(1), *most = parts.in(2), *shared = parts.in(3);
    T* to = parts.out(0);
    space_of_parts(op, parts).template walk<5>({0, 1, 2, 3, 4}, [&](const auto& at) {
      to[at[4]] = values[at[1]] == most[at[2]] ? d[at[0]] / shared[at[3]] : T{0};
    });
  });
}

}  // namespace

Operation reduce_operation(Reduction reduction, const TensorSpec& x, const ReductionOptions& options) {
  const std::string name = name_of_reduction(reduction);
  require_float_dtypes(name, std::array{x});
  const ReducedLabels labels = reduced_labels(name, x, options);
  if (labels.reduced == 0 && reduction != Reduction::Sum)
    refuse_operation(
        name, fmt::format("{} has no elements in the dimensions that are reduced; expected 1 or more", x.to_string()));
  Operation op = reduced_operation(name, labels, {x}, {false}, {name, x.dtype, labels.shape, {}}, true);
  if (reduction == Reduction::Max) op.rule.combines = ReduceOp::Max;
  return op;
}

DistributedTensor reduce(Reduction reduction, const DistributedTensor& x, const ReductionOptions& options,
                         const CallOptions& call) {
  const Operation op = reduce_operation(reduction, x.spec(), options);
  const std::int64_t elements = reduced_labels(op.name, x.spec(), options).reduced;
  return run_single(op, {&x}, call, [&]<class T>(LocalParts<T>& parts) {
    const LabelSpace space = space_of_parts(op, parts);
    const T* values = parts.in(0);
    T* to = parts.out(0);
    if (reduction == Reduction::Max) {
      std::fill_n(to, parts.out_box(0).elements(), -std::numeric_limits<T>::infinity());
      return space.template walk<2>({0, 1}, [&](const auto& at) {
        if (values[at[0]] > to[at[1]] || std::isnan(values[at[0]])) to[at[1]] = values[at[0]];
      });
    }
    space.template walk<2>({0, 1}, [&](const auto& at) { to[at[1]] += values[at[0]]; });
    if (reduction == Reduction::Mean) {
      const std::int64_t n = parts.out_box(0).elements();
      for (std::int64_t i = 0; i < n; ++i) to[i] /= static_cast<T>(elements);
    }
  });
}

DistributedTensor reduce_backward(Reduction reduction, const DistributedTensor& dout, const DistributedTensor& x,
                                  const DistributedTensor& out, const ReductionOptions& options,
                                  const CallOptions& call) {
  const std::string name = name_of_reduction(reduction) + "_backward";
  require_one_mesh(name, std::array{&dout, &x, &out});
  require_float_dtypes(name, std::array{dout.spec(), x.spec(), out.spec()});
  const ReducedLabels labels = reduced_labels(name, x.spec(), options);
  require_reduced_shape(name, dout.spec(), labels);
  require_reduced_shape(name, out.spec(), labels);
  if (reduction == Reduction::Max) return max_backward(dout, x, out, labels, call);
  TensorSpec result{x.spec().name + ".grad", x.spec().dtype, x.spec().shape, {}};
  Operation op = reduced_operation(name, labels, {dout.spec()}, {true}, result, false);
  op.has_preferred = true;
  op.preferred = x.placements();
  return run_single(op, {&dout}, call, [&]<class T>(LocalParts<T>& parts) {
    const T* d = parts.in(0);
    const T factor = reduction == Reduction::Mean ? 1 / static_cast<T>(labels.reduced) : T{1};
    T* to = parts.out(0);
    space_of_parts(op, parts).template walk<2>({0, 1}, [&](const auto& at) { to[at[1]] = factor * d[at[0]]; });
  });
}

}  // namespace sinew::parallel

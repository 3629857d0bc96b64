#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/compute/vector_kernels.hpp>
#include <sinew/parallel/distributed_tensor/elementwise.hpp>
#include <sinew/parallel/distributed_tensor/label_space.hpp>
#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>

namespace sinew::parallel {
namespace {

std::string_view name_of_function(ElementFunction function) noexcept {
  switch (function) {
    case ElementFunction::Negate: return "negate";
    case ElementFunction::Exp: return "exp";
    case ElementFunction::Log: return "log";
    case ElementFunction::Sqrt: return "sqrt";
    case ElementFunction::Square: return "square";
    case ElementFunction::Tanh: return "tanh";
    case ElementFunction::Relu: return "relu";
    case ElementFunction::Gelu: return "gelu";
  }
  return "";
}

std::string_view name_of_function(BinaryFunction function) noexcept {
  switch (function) {
    case BinaryFunction::Add: return "add";
    case BinaryFunction::Subtract: return "subtract";
    case BinaryFunction::Multiply: return "multiply";
    case BinaryFunction::Divide: return "divide";
  }
  return "";
}

template <class T>
T function_at(ElementFunction function, T x) {
  switch (function) {
    case ElementFunction::Negate: return -x;
    case ElementFunction::Exp: return std::exp(x);
    case ElementFunction::Log: return std::log(x);
    case ElementFunction::Sqrt: return std::sqrt(x);
    case ElementFunction::Square: return x * x;
    case ElementFunction::Tanh: return std::tanh(x);
    case ElementFunction::Relu: return x > 0 ? x : T{0};
    case ElementFunction::Gelu: return x;  // has a kernel of its own
  }
  return x;
}

template <class T>
T slope_of(ElementFunction function, T x) {
  switch (function) {
    case ElementFunction::Negate: return T{-1};
    case ElementFunction::Exp: return std::exp(x);
    case ElementFunction::Log: return 1 / x;
    case ElementFunction::Sqrt: return T{0.5} / std::sqrt(x);
    case ElementFunction::Square: return 2 * x;
    case ElementFunction::Tanh: return 1 - std::tanh(x) * std::tanh(x);
    case ElementFunction::Relu: return x > 0 ? T{1} : T{0};
    case ElementFunction::Gelu: return x;  // has a kernel of its own
  }
  return x;
}

void require_shape_of(std::string_view name, const TensorSpec& found, const std::vector<std::int64_t>& expected) {
  if (found.shape != expected)
    refuse_operation(name, fmt::format("{} has the shape {}; expected {}", found.to_string(), shape_text(found.shape),
                                       shape_text(expected)));
}

/// An operation whose operands and result have one shape.
Operation operation_of_elements(const std::string& name, const std::vector<TensorSpec>& operands,
                                const std::vector<std::size_t>& linear) {
  require_float_dtypes(name, operands);
  for (const TensorSpec& operand : operands) require_shape_of(name, operand, operands.front().shape);
  LabelLetters letters;
  const std::string labels = letters.next(operands.front().shape.size());
  const std::vector<std::string> all(operands.size(), labels);
  return {.name = name,
          .rule = {.labels = join_labels(all, std::array{labels}), .linear = linear},
          .operands = operands,
          .results = {{name, operands.front().dtype, operands.front().shape, {}}}};
}

/// compute(x, out, n) for operands x.
template <class Compute>
DistributedTensor map_elements(const std::string& name, const DistributedTensor& x, bool linear,
                               const CallOptions& options, const Compute& compute) {
  const Operation op =
      operation_of_elements(name, {x.spec()}, linear ? std::vector<std::size_t>{0} : std::vector<std::size_t>{});
  return run_single(op, {&x}, options, [&](auto& parts) {
    compute(parts.in(0), parts.out(0), static_cast<std::size_t>(parts.out_box(0).elements()));
  });
}

/// compute(dout, x, dx, n).
template <class Compute>
DistributedTensor map_gradient(const std::string& name, const DistributedTensor& dout, const DistributedTensor& x,
                               const CallOptions& options, const Compute& compute) {
  require_one_mesh(name, std::array{&dout, &x});
  Operation op = operation_of_elements(name, {dout.spec(), x.spec()}, {0});
  op.has_preferred = true;
  op.preferred = x.placements();
  return run_single(op, {&dout, &x}, options, [&](auto& parts) {
    compute(parts.in(0), parts.in(1), parts.out(0), static_cast<std::size_t>(parts.out_box(0).elements()));
  });
}

/// Runs a callback of the user's, if the mesh has a group whose ranks could wait for this one.
template <class Code>
void run_callback(Mesh& mesh, const std::string& name, const Code& code) {
  const std::vector<std::string> groups = mesh.groups();
  if (groups.empty()) return code();
  run_user_code(
      mesh.along(groups.front()), [&] { return name + " of an element"; }, code);
}

/// Where a gradient of an operand of a binary function comes from: the slope of the function at a and b.
template <class T>
T slope_of(BinaryFunction function, bool of_a, T a, T b) {
  switch (function) {
    case BinaryFunction::Add: return T{1};
    case BinaryFunction::Subtract: return of_a ? T{1} : T{-1};
    case BinaryFunction::Multiply: return of_a ? b : a;
    case BinaryFunction::Divide: return of_a ? 1 / b : -a / (b * b);
  }
  return T{0};
}

/// The gradient of one operand. An Add or Subtract does not read the operands.
DistributedTensor gradient_of_operand(BinaryFunction function, const DistributedTensor& dout,
                                      const DistributedTensor& a, const DistributedTensor& b, bool of_a,
                                      const CallOptions& options) {
  const std::string name = fmt::format("{}_backward", name_of_function(function));
  const DistributedTensor& whose = of_a ? a : b;
  const bool reads = function == BinaryFunction::Multiply || function == BinaryFunction::Divide;
  LabelLetters letters;
  const std::array specs{dout.spec(), a.spec(), b.spec()};
  const std::array shapes{dout.spec().shape, a.spec().shape, b.spec().shape};
  const BroadcastLabels labels = broadcast_labels(name, specs, shapes, letters);
  std::vector<std::string> operands{labels.tensors[0]};
  Operation op{.name = name, .operands = {dout.spec()}};
  if (reads) {
    operands.insert(operands.end(), labels.tensors.begin() + 1, labels.tensors.end());
    op.operands.push_back(a.spec());
    op.operands.push_back(b.spec());
  }
  op.rule = {
      .labels = join_labels(operands, std::array{labels.tensors[of_a ? 1 : 2]}), .whole = labels.whole, .linear = {0}};
  op.results.push_back({whose.spec().name + ".grad", whose.spec().dtype, whose.spec().shape, {}});
  op.has_preferred = true;
  op.preferred = whose.placements();
  const auto compute = [&]<class T>(LocalParts<T>& parts) {
    std::vector<std::vector<std::int64_t>> extents;
    for (std::size_t i = 0; i < op.operands.size(); ++i) extents.push_back(parts.in_extents(i));
    extents.push_back(parts.out_extents(0));
    const LabelSpace space(op.rule.labels, extents);
    T* to = parts.out(0);
    const T* d = parts.in(0);
    if (!reads) {
      const T factor = slope_of(function, of_a, T{1}, T{1});
      return space.template walk<2>({0, 1}, [&](const auto& at) { to[at[1]] += factor * d[at[0]]; });
    }
    const T *x = parts.in(1), *y = parts.in(2);
    space.template walk<4>(
        {0, 1, 2, 3}, [&](const auto& at) { to[at[3]] += d[at[0]] * slope_of(function, of_a, x[at[1]], y[at[2]]); });
  };
  if (reads) return run_single(op, {&dout, &a, &b}, options, compute);
  return run_single(op, {&dout}, options, compute);
}

}  // namespace

DistributedTensor elementwise(ElementFunction function, const DistributedTensor& x, const CallOptions& options) {
  const std::string name(name_of_function(function));
  return map_elements(name, x, function == ElementFunction::Negate, options,
                      [&]<class T>(const T* from, T* to, std::size_t n) {
                        if (function == ElementFunction::Gelu) return kernels::gelu(from, to, n);
                        for (std::size_t i = 0; i < n; ++i) to[i] = function_at(function, from[i]);
                      });
}

DistributedTensor elementwise_backward(ElementFunction function, const DistributedTensor& dout,
                                       const DistributedTensor& x, const CallOptions& options) {
  const std::string name = fmt::format("{}_backward", name_of_function(function));
  return map_gradient(name, dout, x, options, [&]<class T>(const T* d, const T* from, T* to, std::size_t n) {
    if (function == ElementFunction::Gelu) {
      std::copy_n(d, n, to);
      return kernels::gelu_backward(from, to, n);
    }
    for (std::size_t i = 0; i < n; ++i) to[i] = d[i] * slope_of(function, from[i]);
  });
}

DistributedTensor elementwise(const UserElementFunction& function, const DistributedTensor& x,
                              const CallOptions& options) {
  return map_elements(function.name, x, false, options, [&]<class T>(const T* from, T* to, std::size_t n) {
    run_callback(x.mesh(), function.name, [&] {
      for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<T>(function.value(static_cast<double>(from[i])));
    });
  });
}

DistributedTensor elementwise_backward(const UserElementFunction& function, const DistributedTensor& dout,
                                       const DistributedTensor& x, const CallOptions& options) {
  const std::string name = function.name + "_backward";
  return map_gradient(name, dout, x, options, [&]<class T>(const T* d, const T* from, T* to, std::size_t n) {
    run_callback(x.mesh(), name, [&] {
      for (std::size_t i = 0; i < n; ++i) to[i] = d[i] * static_cast<T>(function.slope(static_cast<double>(from[i])));
    });
  });
}

DistributedTensor scale(const DistributedTensor& x, double factor, const CallOptions& options) {
  return map_elements("scale", x, true, options, [&]<class T>(const T* from, T* to, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<T>(factor) * from[i];
  });
}

Operation elementwise_operation(BinaryFunction function, const TensorSpec& a, const TensorSpec& b) {
  const std::string name(name_of_function(function));
  const std::array specs{a, b};
  require_float_dtypes(name, specs);
  LabelLetters letters;
  const BroadcastLabels labels = broadcast_labels(name, specs, std::array{a.shape, b.shape}, letters);
  Operation op{.name = name, .operands = {a, b}, .results = {{name, a.dtype, labels.shape, {}}}};
  // A sum with repeated dimensions of one place is not written as a sum, whose operands' labels all reach the result.
  const bool adds = function == BinaryFunction::Add || function == BinaryFunction::Subtract;
  const bool is_sum = adds && labels.whole.empty();
  op.rule = {.labels = join_labels(labels.tensors, std::array{labels.labels}, is_sum ? '+' : ','),
             .whole = labels.whole};
  if (function == BinaryFunction::Multiply) op.rule.linear = {0, 1};
  if (function == BinaryFunction::Divide) op.rule.linear = {0};
  return op;
}

DistributedTensor elementwise(BinaryFunction function, const DistributedTensor& a, const DistributedTensor& b,
                              const CallOptions& options) {
  require_one_mesh(name_of_function(function), std::array{&a, &b});
  const Operation op = elementwise_operation(function, a.spec(), b.spec());
  return run_single(op, {&a, &b}, options, [&]<class T>(LocalParts<T>& parts) {
    const std::array extents{parts.in_extents(0), parts.in_extents(1), parts.out_extents(0)};
    const LabelSpace space(op.rule.labels, extents);
    const T *x = parts.in(0), *y = parts.in(1);
    T* to = parts.out(0);
    const auto walk = [&](const auto& f) {
      space.template walk<3>({0, 1, 2}, [&](const auto& at) { to[at[2]] = f(x[at[0]], y[at[1]]); });
    };
    switch (function) {
      case BinaryFunction::Add: return walk([](T p, T q) { return p + q; });
      case BinaryFunction::Subtract: return walk([](T p, T q) { return p - q; });
      case BinaryFunction::Multiply: return walk([](T p, T q) { return p * q; });
      case BinaryFunction::Divide: return walk([](T p, T q) { return p / q; });
    }
  });
}

BinaryGradients elementwise_backward(BinaryFunction function, const DistributedTensor& dout, const DistributedTensor& a,
                                     const DistributedTensor& b, const CallOptions& options) {
  const std::string name = fmt::format("{}_backward", name_of_function(function));
  require_one_mesh(name, std::array{&dout, &a, &b});
  require_float_dtypes(name, std::array{dout.spec(), a.spec(), b.spec()});
  require_shape_of(name, dout.spec(), elementwise_operation(function, a.spec(), b.spec()).results.front().shape);
  return {gradient_of_operand(function, dout, a, b, true, options),
          gradient_of_operand(function, dout, a, b, false, options)};
}

void add_scaled(DistributedTensor& to, double factor, const DistributedTensor& x, const CallOptions& options) {
  require_one_mesh("add_scaled", std::array<const DistributedTensor*, 2>{&to, &x});
  require_float_dtypes("add_scaled", std::array{to.spec(), x.spec()});
  require_shape_of("add_scaled", x.spec(), to.spec().shape);
  for (const auto& [axis, placement] : to.placements().entries()) {
    const auto* partial = std::get_if<Partial>(&placement);
    if (partial != nullptr && partial->op != ReduceOp::Sum)
      refuse_operation("add_scaled", fmt::format("{} is {} along {}; expected no Partial but of a sum",
                                                 to.spec().to_string(), to_string(placement), axis));
  }
  const DistributedTensor moved = redistribute(x, to.placements(), options);
  const DType dtype = to.spec().dtype;
  const auto add_numbers = [&]<class T>(T* sum, const T* added, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<T>(factor) * added[i];
  };
  if (dtype == DType::F64) {
    const std::span<double> sum = to.values<double>();
    return add_numbers(sum.data(), moved.values<double>().data(), sum.size());
  }
  const std::size_t n = to.local().bytes / size_of(dtype);
  std::vector<float> sum(n), added(n);
  const auto count = static_cast<std::int64_t>(n);
  convert(to.local().data, dtype, reinterpret_cast<std::byte*>(sum.data()), DType::F32, count);
  convert(moved.local().data, dtype, reinterpret_cast<std::byte*>(added.data()), DType::F32, count);
  add_numbers(sum.data(), added.data(), n);
  convert(reinterpret_cast<const std::byte*>(sum.data()), DType::F32, to.local().data, dtype, count);
}

}  // namespace sinew::parallel

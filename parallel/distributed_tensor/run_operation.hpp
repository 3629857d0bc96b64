#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/convert.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

namespace sinew::parallel {

/// An operation whose operands have been brought to the placements of its plan, and room for its results.
struct ArrivedOperation {
  std::shared_ptr<const OperationPlan> plan;
  std::vector<DistributedTensor> moved;            // those that had to move
  std::vector<const DistributedTensor*> operands;  // into `moved`, or the caller's
  std::vector<DistributedTensor> results;
  CallOptions options;
};

/// Plans the operation, and moves its operands.
/// Errors: as the collectives.
ArrivedOperation arrive(const Operation& operation, std::span<const DistributedTensor* const> operands,
                        const CallOptions& options);

/// Throws unless all operands are on one mesh. InvalidArgument on all ranks alike.
void require_one_mesh(std::string_view name, std::span<const DistributedTensor* const> operands);

/// This rank's parts of operands and results as numbers of type T (float or double), to compute with.
template <class T>
class LocalParts {
 public:
  explicit LocalParts(ArrivedOperation& arrived) : arrived_(arrived) {
    for (const DistributedTensor* operand : arrived.operands) inputs_.push_back(widened(*operand));
    for (DistributedTensor& result : arrived.results) {
      const auto elements = result.local().bytes / size_of(result.spec().dtype);
      outputs_.emplace_back(result.spec().dtype == kDTypeOf<T> ? 0 : elements);
    }
  }
  /// Rounds the results to their dtypes.
  void finish() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      DistributedTensor& result = arrived_.results[i];
      if (result.spec().dtype == kDTypeOf<T>) continue;
      convert(reinterpret_cast<const std::byte*>(outputs_[i].data()), kDTypeOf<T>, result.local().data,
              result.spec().dtype, static_cast<std::int64_t>(outputs_[i].size()));
    }
  }

  const T* in(std::size_t i) const noexcept {
    const DistributedTensor& operand = *arrived_.operands[i];
    return operand.spec().dtype == kDTypeOf<T> ? reinterpret_cast<const T*>(operand.local().data) : inputs_[i].data();
  }
  /// The values of an operand of dtype i64.
  const std::int64_t* integers(std::size_t i) const noexcept {
    return reinterpret_cast<const std::int64_t*>(arrived_.operands[i]->local().data);
  }
  /// All elements are 0 at first.
  T* out(std::size_t i) noexcept {
    DistributedTensor& result = arrived_.results[i];
    return result.spec().dtype == kDTypeOf<T> ? reinterpret_cast<T*>(result.local().data) : outputs_[i].data();
  }
  /// The extents of this rank's parts.
  std::vector<std::int64_t> in_extents(std::size_t i) const { return extents(arrived_.operands[i]->box()); }
  std::vector<std::int64_t> out_extents(std::size_t i) const { return extents(arrived_.results[i].box()); }
  Box in_box(std::size_t i) const { return arrived_.operands[i]->box(); }
  Box out_box(std::size_t i) const { return arrived_.results[i].box(); }

  /// Combines numbers over the ranks that share a label over which the operation exchanges.
  void combine(std::span<T> numbers, ReduceOp op) {
    for (const std::string& axis : arrived_.plan->exchange_axes()) {
      const ConstBuffer in{reinterpret_cast<const std::byte*>(numbers.data()), numbers.size_bytes()};
      const Buffer out{reinterpret_cast<std::byte*>(numbers.data()), numbers.size_bytes(), {}};
      arrived_.results.front().mesh().along(axis).all_reduce(in, out, kDTypeOf<T>, op, arrived_.options).get();
    }
  }

 private:
  static std::vector<std::int64_t> extents(const Box& box) {
    std::vector<std::int64_t> all;
    for (std::size_t d = 0; d < box.first.size(); ++d) all.push_back(box.extent(d));
    return all;
  }
  static std::vector<T> widened(const DistributedTensor& tensor) {
    const DType dtype = tensor.spec().dtype;
    if (dtype == kDTypeOf<T> || is_integer(dtype)) return {};
    std::vector<T> numbers(tensor.local().bytes / size_of(dtype));
    convert(tensor.local().data, dtype, reinterpret_cast<std::byte*>(numbers.data()), kDTypeOf<T>,
            static_cast<std::int64_t>(numbers.size()));
    return numbers;
  }

  ArrivedOperation& arrived_;
  std::vector<std::vector<T>> inputs_, outputs_;
};

/// Runs an operation. `compute` is called with LocalParts<double> if the first floating-point result is f64, and with
/// LocalParts<float> otherwise. It writes the results.
template <class Compute>
std::vector<DistributedTensor> run_operation(const Operation& operation,
                                             std::span<const DistributedTensor* const> operands,
                                             const CallOptions& options, const Compute& compute) {
  ArrivedOperation arrived = arrive(operation, operands, options);
  const auto run = [&]<class T>(std::type_identity<T>) {
    LocalParts<T> parts(arrived);
    compute(parts);
    parts.finish();
  };
  if (operation.results.front().dtype == DType::F64) {
    run(std::type_identity<double>{});
  } else {
    run(std::type_identity<float>{});
  }
  return std::move(arrived.results);
}

/// For operations of one result.
template <class Compute>
DistributedTensor run_single(const Operation& operation, std::initializer_list<const DistributedTensor*> operands,
                             const CallOptions& options, const Compute& compute) {
  return std::move(run_operation(operation, std::span(operands.begin(), operands.size()), options, compute).front());
}

}  // namespace sinew::parallel

#pragma once

#include <exception>
#include <memory>

#include <sinew/core/numeric/reduce.hpp>

#include "buffers.hpp"
#include "python.hpp"

namespace sinew::python {

/// A reduction by a function of Python: `function(a, b)` gets two arrays of NumPy and returns one of the same shape.
/// Lifetime: until the calls that use it have ended.
class UserReduction {
 public:
  /// Errors: InvalidArgument if `function` cannot be called or the elements are complex. Unavailable without NumPy.
  UserReduction(const char* call, nb::handle function, Element element);
  ~UserReduction();
  UserReduction(const UserReduction&) = delete;
  UserReduction& operator=(const UserReduction&) = delete;

  const Reducer& reducer() const noexcept { return reducer_; }
  /// The exception of the first call of the function that threw. Null: none did.
  std::exception_ptr take_exception() noexcept { return std::exchange(thrown_, nullptr); }

 private:
  static void reduce(void* dst, const void* a, const void* b, std::size_t count, const void* context) noexcept;
  void apply(void* dst, const void* a, const void* b, std::size_t count);

  nb::object function_;
  nb::object apply_;  ///< sinew._reductions.apply
  DType dtype_;
  std::exception_ptr thrown_;
  Reducer reducer_;
};

/// An operator as Python gives it: a name, or a function.
struct Operator {
  ReduceOp op = ReduceOp::Sum;
  std::shared_ptr<UserReduction> user;
};

/// Errors: InvalidArgument with the names.
Operator operator_of(const char* call, nb::handle given, Element element);

}  // namespace sinew::python

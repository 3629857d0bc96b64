#include "reductions.hpp"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "errors.hpp"
#include "python.hpp"

namespace sinew::python {
namespace {

std::string names() {
  std::string all;
  for (const ReduceOp op : all_reduce_ops()) all += fmt::format("{}{}", all.empty() ? "" : ", ", name_of(op));
  return all;
}

bool keeps_complex(ReduceOp op) noexcept {
  return op == ReduceOp::Sum || op == ReduceOp::Average || op == ReduceOp::PreMulSum;
}

nb::object memory(void* data, std::size_t bytes, int flags) {
  PyObject* view = PyMemoryView_FromMemory(static_cast<char*>(data), static_cast<Py_ssize_t>(bytes), flags);
  if (view == nullptr) throw nb::python_error();
  return nb::steal(view);
}

}  // namespace

UserReduction::UserReduction(const char* call, nb::handle function, Element element)
    : function_(nb::borrow(function)), dtype_(element.dtype) {
  if (element.lanes != 1) reject(call, "op is a function, and the elements are complex; expected another dtype");
  apply_ = nb::module_::import_("sinew._reductions").attr("applier")(call);
  reducer_ = {&UserReduction::reduce, this, static_cast<std::uint32_t>(size_of(dtype_))};
}

UserReduction::~UserReduction() = default;

void UserReduction::reduce(void* dst, const void* a, const void* b, std::size_t count, const void* context) noexcept {
  if (Py_IsInitialized() == 0) return;
  auto& self = *static_cast<UserReduction*>(const_cast<void*>(context));
  const nb::gil_scoped_acquire lock;
  if (self.thrown_) {
    std::memmove(dst, a, count * self.reducer_.element_bytes);
    return;
  }
  try {
    self.apply(dst, a, b, count);
  } catch (...) {
    self.thrown_ = std::current_exception();
  }
}

void UserReduction::apply(void* dst, const void* a, const void* b, std::size_t count) {
  const std::size_t bytes = count * reducer_.element_bytes;
  apply_(function_, numpy_name(dtype_), memory(dst, bytes, PyBUF_WRITE),
         memory(const_cast<void*>(a), bytes, PyBUF_READ), memory(const_cast<void*>(b), bytes, PyBUF_READ));
}

Operator operator_of(const char* call, nb::handle given, Element element) {
  if (!PyUnicode_Check(given.ptr())) {
    if (PyCallable_Check(given.ptr()) == 0)
      reject(call, fmt::format("op is a {}, expected a function or one of {}",
                               nb::cast<std::string>(nb::type_name(given.type())), names()));
    return {ReduceOp::User, std::make_shared<UserReduction>(call, given, element)};
  }
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(given.ptr(), &length);
  if (text == nullptr) reject(call, fmt::format("op is no text: {}", take_error_text()));
  const std::string_view name(text, static_cast<std::size_t>(length));
  if (name == "sum") [[likely]]
    return {};
  const auto op = reduce_op_from_name(name);
  if (!op || *op == ReduceOp::User)
    reject(call, fmt::format("op is '{}', expected a function or one of {}", name, names()));
  if (element.lanes != 1 && !keeps_complex(*op))
    reject(call, fmt::format("op is {} and the elements are complex, expected sum, average or pre_mul_sum", name));
  return {*op, nullptr};
}

}  // namespace sinew::python

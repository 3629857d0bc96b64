#pragma once

#include <string>
#include <string_view>

#include <sinew/core/error.hpp>

#include "python.hpp"

namespace sinew::python {

/// From here on sinew's errors become exceptions of Python: for each Code its class in sinew/_errors.py.
void translate_errors();

/// The exception of Python for a status that is neither Ok nor Pending.
nb::object exception_of(const Status& status);

/// Throws InvalidArgument. `call` is the method that was called.
[[noreturn]] void reject(std::string_view call, const std::string& why);

/// Clears the exception of Python that is set, and returns its text. Precondition: one is set.
std::string take_error_text();

}  // namespace sinew::python

#pragma once

#include <string_view>

#include <sinew/core/call/call_options.hpp>

#include "call.hpp"
#include "python.hpp"

namespace sinew::python {

/// The keywords that every call takes, as Python gives them.
struct OptionArguments {
  nb::handle timeout;      ///< seconds as a number or a timedelta; None: the World's
  nb::handle determinism;  ///< a name
  nb::handle codec;        ///< a name
  nb::handle label;        ///< a text, or None
  nb::handle after;        ///< a CUDA stream as a number, or None
};

/// The characters of a Python str, which lives longer than the result.
/// Errors: InvalidArgument that names the call and the argument.
std::string_view text_of(const char* call, const char* argument, nb::handle given);
/// Seconds as Python gives them: a number or a timedelta. Infinity is the longest Duration.
/// Errors: InvalidArgument if it is neither, or not above 0.
Duration duration_of(const char* call, const char* argument, nb::handle seconds);
/// The deadline after a duration, which may be the longest one.
Deadline deadline_after(Duration duration) noexcept;

/// The options of a call. `place` is where its memory lies.
/// Errors: InvalidArgument that names the keyword.
CallOptions options_of(Call& call, const OptionArguments& given, Place place);

}  // namespace sinew::python

#include "options.hpp"

#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/call/determinism.hpp>

#include "errors.hpp"
#include "python.hpp"

namespace sinew::python {

std::string_view text_of(const char* call, const char* argument, nb::handle given) {
  if (!PyUnicode_Check(given.ptr()))
    reject(call,
           fmt::format("{} is a {}, expected a name", argument, nb::cast<std::string>(nb::type_name(given.type()))));
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(given.ptr(), &length);
  if (text == nullptr) reject(call, fmt::format("{} is no text: {}", argument, take_error_text()));
  return {text, static_cast<std::size_t>(length)};
}

Duration duration_of(const char* call, const char* argument, nb::handle given) {
  double seconds = 0;
  if (nb::hasattr(given, "total_seconds")) {
    seconds = nb::cast<double>(given.attr("total_seconds")());
  } else {
    seconds = PyFloat_AsDouble(given.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      reject(call, fmt::format("{} is a {}, expected seconds as a number or a timedelta", argument,
                               nb::cast<std::string>(nb::type_name(given.type()))));
    }
  }
  if (!(seconds > 0)) reject(call, fmt::format("{} is {} s, expected more than 0", argument, seconds));
  constexpr double kMost = 1e9;  // 31 years: the clock's nanoseconds do not overflow
  if (seconds > kMost) return Duration::max();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

Deadline deadline_after(Duration duration) noexcept {
  return duration == Duration::max() ? Deadline::never() : Deadline::after(duration);
}

CallOptions options_of(Call& call, const OptionArguments& given, Place place) {
  CallOptions options{.where = {}};
  const char* const name = call.name();
  options.deadline =
      deadline_after(given.timeout.is_none() ? call.session().timeout() : duration_of(name, "timeout", given.timeout));
  if (!given.determinism.is_none()) [[unlikely]] {
    const std::string_view text = text_of(name, "determinism", given.determinism);
    const auto level = determinism_from_name(text);
    if (!level) reject(name, fmt::format("determinism is '{}', expected fast, reproducible or layout_invariant", text));
    options.determinism = *level;
  }
  if (!given.codec.is_none()) [[unlikely]] {
    const std::string_view text = text_of(name, "codec", given.codec);
    const auto codec = codec_from_name(text);
    if (!codec) reject(name, fmt::format("codec is '{}', expected none, bf16, f16, int8 or f8e4m3", text));
    options.codec = *codec;
  }
  options.label = call.session().names_calls() ? call.use_line(given.label) : call.use_label(given.label);
  if (!given.after.is_none()) [[unlikely]] {
    void* const stream = PyLong_Check(given.after.ptr()) ? PyLong_AsVoidPtr(given.after.ptr()) : nullptr;
    if (PyErr_Occurred() != nullptr || !PyLong_Check(given.after.ptr())) {
      PyErr_Clear();
      reject(name, "after is no CUDA stream: expected its handle as a whole number");
    }
    if (place.kind != MemoryKind::Device) reject(name, "after is a CUDA stream, but the arrays lie on the host");
    options.after = {stream, place.device};
  }
  if (call.reduction()) options.user = &call.reduction()->reducer();
  return options;
}

}  // namespace sinew::python

#include "errors.hpp"

#include <cstdint>

#include "../../csrc/unknown_lines.hpp"

namespace sinew::torch_backend {
namespace {

c10::SourceLocation here(const char* function) { return {function, __FILE__, static_cast<std::uint32_t>(__LINE__)}; }

}  // namespace

c10::DistBackendError error_of(const Status& status, const std::string& doing) {
  const std::string verdict = python::with_hint_at_lines(status.message());
  const std::string text = status.code() == Code::Timeout
                               ? c10::str("Timed out in ", doing, ": ", verdict)
                               : c10::str(doing, " failed: ", verdict, " [", name_of(status.code()), "]");
  return {here(__func__), "sinew: " + text};
}

void require(const Status& status, const char* doing) {
  if (!status.ok()) throw error_of(status, doing);
}

void rethrow(const Error& error, const char* doing) {
  if (error.code() == Code::InvalidArgument) {
    // Most of these texts begin with the name of the call.
    const std::string text = error.what();
    throw c10::ValueError(here(__func__),
                          text.starts_with(doing) ? "sinew: " + text : c10::str("sinew: ", doing, ": ", text));
  }
  throw error_of(Status(error.code(), error.what(), error.rank()), doing);
}

void reject(const char* function, const std::string& why) {
  throw c10::Error(here(__func__), c10::str("SinewBackend::", function, ": ", why));
}

}  // namespace sinew::torch_backend

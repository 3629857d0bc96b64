#include <dlfcn.h>

#include <string>
#include <variant>

#include <fmt/format.h>

#include <sinew/core/base/made_once.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/driver.hpp>

namespace sinew::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::string text_of(const Driver& d, Result result) {
  const char* text = nullptr;
  if (d.error_text(result, &text) != kSuccess || text == nullptr) return fmt::format("CUDA error {}", result);
  return text;
}

/// The driver, or why there is none.
std::variant<Driver, std::string> load() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fmt::format("no CUDA driver: {}", ::dlerror());
  Driver d;
#define SINEW_CUDA_FIND(name, symbol, arguments)                          \
  d.name = reinterpret_cast<decltype(d.name)>(::dlsym(library, #symbol)); \
  if (d.name == nullptr) return fmt::format("{} has no {}", kLibrary, #symbol);
  SINEW_CUDA_FUNCTIONS(SINEW_CUDA_FIND)
#undef SINEW_CUDA_FIND
  if (const Result r = d.init(0); r != kSuccess)
    return fmt::format("the CUDA driver does not start: {}", text_of(d, r));
  int devices = 0;
  if (const Result r = d.device_count(&devices); r != kSuccess)
    return fmt::format("the CUDA driver: {}", text_of(d, r));
  if (devices == 0) return std::string("the CUDA driver sees no device");
  return d;
}

const std::variant<Driver, std::string>& loaded() {
  static constinit MadeOnce<std::variant<Driver, std::string>> outcome;
  return outcome.get(load);
}

}  // namespace

const Driver& driver() {
  if (const auto* why = std::get_if<std::string>(&loaded())) throw Error(Code::Unavailable, *why);
  return std::get<Driver>(loaded());
}

Availability available() {
  const auto* why = std::get_if<std::string>(&loaded());
  return why == nullptr ? Availability::yes() : Availability::no(*why);
}

void check(Result result, const char* call) {
  if (result != kSuccess) throw Error(Code::System, fmt::format("{}: {}", call, text_of(driver(), result)));
}

}  // namespace sinew::cuda

#include <dlfcn.h>

#include <fmt/format.h>

#include <sinew/topology/nvml.hpp>

namespace sinew::nvml {

std::variant<Library, std::string> load() {
  constexpr const char* kLibrary = "libnvidia-ml.so.1";
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fmt::format("no NVIDIA driver: {}", ::dlerror());
  Functions f;
#define SINEW_NVML_FIND(name, symbol)                                     \
  f.name = reinterpret_cast<decltype(f.name)>(::dlsym(library, #symbol)); \
  if (f.name == nullptr) return fmt::format("{} has no {}: the driver is too old", kLibrary, #symbol);
#define SINEW_NVML_FIND_ROW(name, symbol, arguments) SINEW_NVML_FIND(name, symbol)
  SINEW_NVML_FUNCTIONS(SINEW_NVML_FIND_ROW)
  SINEW_NVML_FIND(error_text, nvmlErrorString)
#undef SINEW_NVML_FIND_ROW
#undef SINEW_NVML_FIND
  if (const Result r = f.init(); r != kSuccess) return fmt::format("nvmlInit_v2: {}", f.error_text(r));
  return Library(f);
}

}  // namespace sinew::nvml

#include <dlfcn.h>

#include <fmt/format.h>

#include <sinew/topology/discover/verbs.hpp>

namespace sinew::verbs {

std::variant<Functions, std::string> load() {
  constexpr const char* kLibrary = "libibverbs.so.1";
  constexpr const char* kVersion = "IBVERBS_1.1";
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fmt::format("no libibverbs: {}", ::dlerror());
  Functions f;
  std::string missing;
  const auto need = [&]<class Function>(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(::dlvsym(library, symbol, kVersion));
    if (function == nullptr) missing = symbol;
  };
  need("ibv_get_device_list", f.device_list);
  need("ibv_free_device_list", f.free_device_list);
  need("ibv_get_device_name", f.device_name);
  need("ibv_open_device", f.open);
  need("ibv_close_device", f.close);
  need("ibv_query_port", f.query_port);
  if (!missing.empty()) return fmt::format("{} has no {} of version {}", kLibrary, missing, kVersion);
  return f;
}

}  // namespace sinew::verbs

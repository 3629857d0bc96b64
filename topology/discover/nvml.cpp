#include <dlfcn.h>

#include <fmt/format.h>

#include <sinew/topology/discover/nvml.hpp>

namespace sinew::nvml {
namespace {

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
}

}  // namespace

std::variant<Library, std::string> load() {
  constexpr const char* kLibrary = "libnvidia-ml.so.1";
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fmt::format("no NVIDIA driver: {}", ::dlerror());
  Functions f;
  std::string missing;
  const auto need = [&](const char* symbol, auto& function) {
    find(library, symbol, function);
    if (function == nullptr) missing = symbol;
  };
  need("nvmlInit_v2", f.init);
  need("nvmlShutdown", f.shutdown);
  need("nvmlErrorString", f.error_text);
  need("nvmlDeviceGetCount_v2", f.device_count);
  need("nvmlDeviceGetHandleByIndex_v2", f.device);
  need("nvmlDeviceGetName", f.name);
  need("nvmlDeviceGetUUID", f.uuid);
  need("nvmlDeviceGetPciInfo_v3", f.pci_info);
  need("nvmlDeviceGetMemoryInfo", f.memory);
  need("nvmlDeviceGetCudaComputeCapability", f.compute_capability);
  need("nvmlDeviceGetMigMode", f.mig_mode);
  need("nvmlDeviceGetNvLinkState", f.nvlink_state);
  need("nvmlDeviceGetNvLinkRemotePciInfo_v2", f.nvlink_remote);
  need("nvmlDeviceGetFieldValues", f.field_values);
  find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", f.nvlink_remote_type);
  find(library, "nvmlDeviceGetP2PStatus", f.peer_status);
  if (!missing.empty()) return fmt::format("{} has no {}: the driver is too old", kLibrary, missing);
  if (const Result r = f.init(); r != kSuccess) return fmt::format("nvmlInit_v2: {}", f.error_text(r));
  return Library(f);
}

}  // namespace sinew::nvml

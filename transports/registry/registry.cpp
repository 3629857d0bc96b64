#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/cuda/runtime.hpp>
#include <sinew/transports/inproc/inproc.hpp>
#include <sinew/transports/module_file.hpp>
#include <sinew/transports/registry.hpp>
#include <sinew/transports/shm/shm.hpp>
#include <sinew/transports/tcp/tcp.hpp>

namespace sinew {
namespace {

namespace files = std::filesystem;

constexpr std::array<Module& (*)(), 3> kBuiltIn = {inproc::module, shm::module, tcp::module};
/// Modules that belong to this library and may be left out of a package.
constexpr std::array<std::string_view, 4> kOwn = {"ucx", "ofi", "cuda_ipc", "nccl"};

constexpr std::array<std::string_view, 2> kOfDevices = {"cuda_ipc", "nccl"};

constexpr std::string_view kPrefix = "sinew_";
constexpr std::string_view kSuffix = ".so";

std::string file_name(std::string_view name) { return fmt::format("{}{}{}", kPrefix, name, kSuffix); }

Module* built_in(std::string_view name) {
  for (auto* module : kBuiltIn) {
    if (module().name() == name) return &module();
  }
  return nullptr;
}

/// The names of the modules in a folder of the user's, in order.
std::vector<std::string> names_in(const std::string& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  for (const auto& entry : files::directory_iterator(folder, failed)) {
    const std::string file = entry.path().filename();
    if (file.size() > kPrefix.size() + kSuffix.size() && file.starts_with(kPrefix) && file.ends_with(kSuffix))
      names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
  }
  if (failed) {
    throw Error(Code::InvalidArgument,
                fmt::format("SINEW_TRANSPORT_PATH: cannot read the folder {}: {}", folder, failed.message()));
  }
  std::ranges::sort(names);
  return names;
}

/// Once per file and process.
void warn_of_shadowed(std::string_view name, const std::string& folder, std::string_view by) {
  const std::string file = files::path(folder) / file_name(name);
  const ProcessLock lock(OfProcess::ShadowedModules);
  static std::set<std::string> said;
  if (said.insert(file).second) {
    log::warning("SINEW_TRANSPORT_PATH: {} is not used: {} has a transport '{}' of its own", file, by, name);
  }
}

bool holds_anything(const char* folder) {
  std::error_code failed;
  return files::directory_iterator(folder, failed) != files::directory_iterator();
}

}  // namespace

std::vector<std::string> module_names(const Config& config) {
  std::vector<std::string> names;
  for (auto* module : kBuiltIn) names.emplace_back(module().name());
  names.insert(names.end(), kOwn.begin(), kOwn.end());
  std::set<std::string> of_earlier;
  for (const std::string& folder : config.transport_path) {
    for (std::string& name : names_in(folder)) {
      if (built_in(name) != nullptr) {
        warn_of_shadowed(name, folder, "sinew");
      } else if (!of_earlier.insert(name).second) {
        warn_of_shadowed(name, folder, "an earlier folder");
      }
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

Module* find_module(std::string_view name, const Config& config) {
  if (Module* module = built_in(name)) return module;
  for (const std::string& folder : config.transport_path) {
    const std::vector<std::string> here = names_in(folder);
    if (std::ranges::find(here, name) != here.end()) return &load_module(name, files::path(folder) / file_name(name));
  }
  if (std::ranges::find(kOwn, name) == kOwn.end()) return nullptr;
  return &load_module(name, module_folder() / file_name(name));
}

std::unique_ptr<DeviceRuntime> make_device_runtime() { return std::make_unique<cuda::Runtime>(); }

std::span<const std::string_view> device_offload_names() noexcept { return kOfDevices; }

bool is_covered_by_tls(std::string_view name) {
  constexpr std::array<std::string_view, 4> kCovered = {"shm", "tcp", "inproc", "cuda_ipc"};
  return std::ranges::find(kCovered, name) != kCovered.end();
}

std::string left_alone(std::string_view name, const Config& config) {
  if (config.tls.wanted && !is_covered_by_tls(name)) return "SINEW_TLS=1, and it does not encrypt what it sends";
  if (name != "ucx" && name != "ofi") return {};
  std::error_code failed;
  if (!files::exists(module_folder() / file_name(name), failed)) return {};
  const bool rdma = holds_anything("/sys/class/infiniband") || holds_anything("/sys/class/cxi");
  return rdma ? "" : "no RDMA device here, so shm and tcp serve as well";
}

}  // namespace sinew

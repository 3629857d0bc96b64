#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/module_file.hpp>

namespace sinew {
namespace {

namespace files = std::filesystem;

/// Stands where a module should be.
class AbsentModule final : public Module {
 public:
  AbsentModule(std::string name, std::string reason) : name_(std::move(name)), reason_(std::move(reason)) {}
  std::string_view name() const noexcept override { return name_; }
  Availability available() const override { return Availability::no(reason_); }
  std::unique_ptr<Fabric> open(const FabricContext& /*context*/) override { throw Error(Code::Unavailable, reason_); }

 private:
  std::string name_;
  std::string reason_;
};

/// A module, or why there is none. Whatever was loaded stays: threads and handlers of its libraries may be alive.
std::pair<Module*, std::string> open_file(std::string_view name, const files::path& file) {
  std::error_code failed;
  if (!files::exists(file, failed)) {
    return {nullptr, fmt::format("not in this package: there is no {}", file.native())};
  }
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, fmt::format("cannot be loaded: {}", ::dlerror())};
  const auto* entry = static_cast<const ModuleEntry*>(::dlsym(library, "sinew_module_entry"));
  if (entry == nullptr) return {nullptr, fmt::format("{} is no sinew module: no sinew_module_entry", file.native())};
  if (std::string_view(entry->abi_id) != kAbiId) {
    return {nullptr, fmt::format("{} was built for another sinew: it has ABI {}, expected {}", file.native(),
                                 entry->abi_id, kAbiId)};
  }
  Module* module = entry->module();
  if (module == nullptr || module->name() != name) {
    return {nullptr, fmt::format("{} calls itself '{}', expected '{}' by its file name", file.native(),
                                 module == nullptr ? "" : module->name(), name)};
  }
  return {module, {}};
}

}  // namespace

files::path module_folder() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&module_folder), &self) == 0) return SINEW_MODULE_FOLDER;
  return files::path(self.dli_fname).parent_path() / SINEW_MODULE_FOLDER;
}

Module& load_module(std::string_view name, const files::path& file) {
  static std::mutex mutex;
  static std::map<std::string, std::pair<Module*, std::unique_ptr<Module>>> loaded;
  const std::lock_guard lock(mutex);
  auto& [module, absent] = loaded[file.native()];
  if (module == nullptr) {
    auto [found, reason] = open_file(name, file);
    if (found == nullptr) absent = std::make_unique<AbsentModule>(std::string(name), std::move(reason));
    module = found == nullptr ? absent.get() : found;
  }
  return *module;
}

}  // namespace sinew

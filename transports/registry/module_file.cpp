#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/module_file.hpp>
#include <sinew/transports/saved_signal_handlers.hpp>

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

/// The loader maps what the headers say, and reading a page that the file does not have ends the process.
bool is_cut_off(const files::path& file) {
  std::ifstream in(file, std::ios::binary);
  ElfW(Ehdr) head{};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return false;  // the loader says what it is
  std::error_code failed;
  const std::uint64_t bytes = files::file_size(file, failed);
  in.seekg(static_cast<std::streamoff>(head.e_phoff));
  for (int i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) part{};
    if (!in.read(reinterpret_cast<char*>(&part), sizeof part)) return true;
    if (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > bytes) return true;
  }
  return false;
}

bool is_open_to_all(const files::path& path) {
  std::error_code failed;
  const files::perms allowed = files::status(path, failed).permissions();
  return !failed && (allowed & files::perms::others_write) != files::perms::none;
}

/// Why loading it would run what any user of this host has written; empty: it would not.
std::string exposed_by(const files::path& file) {
  const files::path folder = file.has_parent_path() ? file.parent_path() : files::path(".");
  for (const files::path& path : {file, folder}) {
    if (is_open_to_all(path)) {
      return fmt::format("{0} can be written by every user of this host, who could run anything here; chmod o-w {0}",
                         path.native());
    }
  }
  return {};
}

/// As the library's symbol table says; 0: it does not.
std::size_t size_of_symbol(const void* address) {
  Dl_info info{};
  void* symbol = nullptr;
  if (::dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr) return 0;
  return static_cast<const ElfW(Sym)*>(symbol)->st_size;
}

/// The Debian package of a library that a module of sinew's takes from the system.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPackages = {{
    {"libfabric.so.1", "libfabric1"},
    {"libibverbs.so.1", "libibverbs1"},
    {"librdmacm.so.1", "librdmacm1"},
    {"libucm.so.0", "libucx0"},
    {"libucp.so.0", "libucx0"},
    {"libucs.so.0", "libucx0"},
    {"libuct.so.0", "libucx0"},
}};

/// Why the loader did not load a module. `said` are its words. A missing library of the system comes with the command
/// that installs it.
std::string not_loaded(std::string_view said) {
  const std::string_view library = said.substr(0, said.find(':'));
  const auto* package = std::ranges::find(kPackages, library, &std::pair<std::string_view, std::string_view>::first);
  if (package == kPackages.end()) return fmt::format("cannot be loaded: {}", said);
  return fmt::format("cannot be loaded: {}; on Debian: apt-get install {}", said, package->second);
}

/// A module, or why there is none. Whatever was loaded stays: threads and handlers of its libraries may be alive.
std::pair<Module*, std::string> open_file(std::string_view name, const files::path& file) {
  std::error_code failed;
  const files::file_status status = files::status(file, failed);
  if (status.type() == files::file_type::not_found) {
    return {nullptr, fmt::format("not in this package: there is no {}", file.native())};
  }
  if (failed) return {nullptr, fmt::format("{}: {}", file.native(), failed.message())};
  if (!files::is_regular_file(status)) return {nullptr, fmt::format("{} is no regular file", file.native())};
  if (const std::string why = exposed_by(file); !why.empty()) return {nullptr, why};
  if (is_cut_off(file)) return {nullptr, fmt::format("{} is cut off: shorter than its own headers say", file.native())};
  void* library = [&] {
    const SavedSignalHandlers kept;
    return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  if (library == nullptr) return {nullptr, not_loaded(::dlerror())};
  const auto* entry = static_cast<const ModuleEntry*>(::dlsym(library, "sinew_module_entry"));
  if (entry == nullptr) return {nullptr, fmt::format("{} is no sinew module: no sinew_module_entry", file.native())};
  if (size_of_symbol(entry) < sizeof(ModuleEntry) || entry->abi_id == nullptr || entry->module == nullptr) {
    return {nullptr,
            fmt::format("{} is no sinew module: what its sinew_module_entry holds is no ModuleEntry", file.native())};
  }
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
  const ProcessLock lock(OfProcess::Modules);
  static std::map<std::string, std::pair<Module*, std::unique_ptr<Module>>> loaded;
  auto& [module, absent] = loaded[file.native()];
  if (module == nullptr) {
    auto [found, reason] = open_file(name, file);
    if (found == nullptr) absent = std::make_unique<AbsentModule>(std::string(name), std::move(reason));
    module = found == nullptr ? absent.get() : found;
  }
  return *module;
}

}  // namespace sinew

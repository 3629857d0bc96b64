#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/nccl/library/library.hpp>

namespace sinew::nccl {
namespace {

namespace files = std::filesystem;

constexpr const char* kFileName = "libnccl.so.2";

/// Where Python keeps packages that this user, environment or machine has.
std::vector<files::path> python_prefixes() {
  std::vector<files::path> prefixes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* folder = std::getenv(variable)) prefixes.emplace_back(folder);
  }
  if (const char* home = std::getenv("HOME")) prefixes.push_back(files::path(home) / ".local");
  for (const char* folder : {"/usr/local", "/opt/conda", "/usr"}) prefixes.emplace_back(folder);
  return prefixes;
}

/// One library's functions, by name.
class Symbols {
 public:
  Symbols(void* library, const std::string& file) : library_(library), file_(file) {}

  template <class F>
  void need(F*& to, const char* name) const {
    look(to, name);
    if (to == nullptr) throw Error(Code::Unavailable, fmt::format("{} is no NCCL: it has no {}", file_, name));
  }
  template <class F>
  void look(F*& to, const char* name) const {
    to = reinterpret_cast<F*>(::dlsym(library_, name));
  }

 private:
  void* library_;
  const std::string& file_;
};

int version_of(const Symbols& symbols, Api& api, const std::string& file) {
  symbols.need(api.get_version, "ncclGetVersion");
  int version = 0;
  if (api.get_version(&version) != Result::Success) {
    throw Error(Code::Unavailable, fmt::format("{} does not tell its version", file));
  }
  if (version < kOldest) {
    throw Error(Code::Unavailable,
                fmt::format("found NCCL {} in {}, expected 2.18 or later", version_text(version), file));
  }
  return version;
}

Api functions_of(const Symbols& symbols, int version, Api api) {
  symbols.need(api.get_unique_id, "ncclGetUniqueId");
  symbols.need(api.comm_init_rank_config, "ncclCommInitRankConfig");
  symbols.need(api.comm_finalize, "ncclCommFinalize");
  symbols.need(api.comm_destroy, "ncclCommDestroy");
  symbols.need(api.comm_abort, "ncclCommAbort");
  symbols.need(api.comm_get_async_error, "ncclCommGetAsyncError");
  symbols.need(api.get_error_string, "ncclGetErrorString");
  symbols.need(api.get_last_error, "ncclGetLastError");
  symbols.need(api.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
  symbols.need(api.red_op_destroy, "ncclRedOpDestroy");
  symbols.need(api.reduce, "ncclReduce");
  symbols.need(api.broadcast, "ncclBroadcast");
  symbols.need(api.all_reduce, "ncclAllReduce");
  symbols.need(api.reduce_scatter, "ncclReduceScatter");
  symbols.need(api.all_gather, "ncclAllGather");
  symbols.need(api.send, "ncclSend");
  symbols.need(api.recv, "ncclRecv");
  symbols.need(api.group_start, "ncclGroupStart");
  symbols.need(api.group_end, "ncclGroupEnd");
  symbols.look(api.comm_split, "ncclCommSplit");
  if (version >= kFirstWithRegistration) {
    symbols.look(api.mem_alloc, "ncclMemAlloc");
    symbols.look(api.mem_free, "ncclMemFree");
    symbols.look(api.comm_register, "ncclCommRegister");
    symbols.look(api.comm_deregister, "ncclCommDeregister");
  }
  if (version >= kFirstWithWindows) {
    symbols.look(api.comm_window_register, "ncclCommWindowRegister");
    symbols.look(api.comm_window_deregister, "ncclCommWindowDeregister");
  }
  if (version >= kFirstWithAllToAll) {
    symbols.look(api.all_to_all, "ncclAlltoAll");
    symbols.look(api.gather, "ncclGather");
    symbols.look(api.scatter, "ncclScatter");
  }
  return api;
}

Library open_library(const std::string& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw Error(Code::Unavailable, fmt::format("cannot be loaded: {}", ::dlerror()));
  const Symbols symbols(handle, file);
  Api api{};
  const int version = version_of(symbols, api, file);
  return {functions_of(symbols, version, api), file, version};
}

}  // namespace

std::vector<files::path> packaged_libraries(const std::vector<files::path>& prefixes) {
  std::vector<files::path> found;
  std::error_code failed;
  for (const files::path& prefix : prefixes) {
    std::vector<files::path> pythons;
    for (const auto& entry : files::directory_iterator(prefix / "lib", failed)) {
      if (entry.path().filename().native().starts_with("python3")) pythons.push_back(entry.path());
    }
    // python3.11 comes before python3.9, and both before Debian's python3.
    std::ranges::sort(pythons, std::ranges::greater{}, [](const files::path& p) {
      return std::pair(p.filename().native().size(), p.filename().native());
    });
    for (const files::path& python : pythons) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        files::path library = python / packages / "nvidia/nccl/lib" / kFileName;
        if (files::exists(library, failed)) found.push_back(std::move(library));
      }
    }
  }
  return found;
}

Library load_library(const std::string& wanted) {
  if (!wanted.empty()) return open_library(wanted);
  std::vector<std::string> candidates{kFileName};
  for (const files::path& p : packaged_libraries(python_prefixes())) candidates.push_back(p);
  std::string reasons;
  for (const std::string& file : candidates) {
    try {
      return open_library(file);
    } catch (const Error& e) {
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", e.what());
    }
  }
  std::vector<std::string> folders;
  for (const files::path& prefix : python_prefixes()) folders.push_back(prefix / "lib");
  throw Error(Code::Unavailable,
              fmt::format("{}; looked where the loader does and for Python's nvidia-nccl packages in {}; "
                          "SINEW_NCCL_LIBRARY names another one",
                          reasons, fmt::join(folders, ", ")));
}

std::string version_text(int version) {
  // Up to 2.8 the minor version had one digit less.
  const int major_unit = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

}  // namespace sinew::nccl

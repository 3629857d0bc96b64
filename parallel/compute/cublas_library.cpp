#include <dlfcn.h>

#include <iterator>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/compute/cublas_library.hpp>

namespace sinew::parallel {
namespace {

/// The functions that are used have not changed from one of these major versions to the next.
constexpr const char* kFiles[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};

std::string name_of(int status) {
  switch (status) {
    case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7: return "CUBLAS_STATUS_INVALID_VALUE";
    case 8: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11: return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case 15: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case 16: return "CUBLAS_STATUS_LICENSE_ERROR";
    default: return fmt::format("status {}", status);
  }
}

}  // namespace

CublasLibrary::CublasLibrary(const std::string& file) {
  std::vector<std::string> files(std::begin(kFiles), std::end(kFiles));
  if (!file.empty()) files = {file};
  std::vector<std::string> reasons;
  for (const std::string& each : files) {
    reasons.push_back(load(each));
    if (reasons.back().empty()) return;
  }
  throw Error(Code::Unavailable, fmt::format("cuBLAS: no library was found; expected {}: {}", fmt::join(files, " or "),
                                             fmt::join(reasons, "; ")));
}

std::string CublasLibrary::load(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return why != nullptr ? why : file + ": the loader gives no reason";
  }
  std::string missing;
  const auto find = [&](auto*& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = fmt::format("{}: it has no {}", file, name);
  };
  find(create, "cublasCreate_v2");
  find(destroy, "cublasDestroy_v2");
  find(set_stream, "cublasSetStream_v2");
  find(set_workspace, "cublasSetWorkspace_v2");
  find(set_math_mode, "cublasSetMathMode");
  find(f32.one, "cublasSgemm_v2");
  find(f64.one, "cublasDgemm_v2");
  find(f32.several, "cublasSgemmStridedBatched");
  find(f64.several, "cublasDgemmStridedBatched");
  return missing;
}

void CublasLibrary::require(int status, const std::string& call, Code code) {
  if (status != 0) throw Error(code, fmt::format("cuBLAS: {} ends with {}", call, name_of(status)));
}

}  // namespace sinew::parallel

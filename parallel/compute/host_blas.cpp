#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/host_blas.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kBlasLibraries[] = {"libopenblas.so.0", "libmkl_rt.so.3", "libmkl_rt.so.2",
                                          "libblis.so.4",     "libcblas.so.3",  "libblas.so.3"};
/// Each library has its own function that sets the number of its threads.
constexpr const char* kSetThreads[] = {"openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads"};

// Values of the C interface of BLAS.
constexpr int kRowMajor = 101, kAsStored = 111, kTransposed = 112;

struct OpenedBlas {
  std::string name;
  void* handle = nullptr;
};

/// The libraries stay loaded: their threads cannot be unloaded.
OpenedBlas open_blas(const std::string& wanted) {
  std::vector<std::string> names(std::begin(kBlasLibraries), std::end(kBlasLibraries));
  if (!wanted.empty()) names = {wanted};
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      const char* const why = ::dlerror();
      reasons.emplace_back(why != nullptr ? why : name + ": the loader gives no reason");
    } else if (::dlsym(handle, "cblas_sgemm") == nullptr || ::dlsym(handle, "cblas_dgemm") == nullptr) {
      reasons.push_back(name + ": it has no cblas_sgemm or no cblas_dgemm");
    } else {
      return {name, handle};
    }
  }
  throw Error(
      Code::Unavailable,
      fmt::format("HostBlas: no BLAS library with a C interface was found; expected {}: {}",
                  wanted.empty() ? "one that the loader finds, for example of the Debian package libopenblas0" : wanted,
                  fmt::join(reasons, "; ")));
}

int transposition(bool is_transposed) noexcept { return is_transposed ? kTransposed : kAsStored; }

/// The distance between rows. BLAS wants one also of a matrix without columns.
int row_distance(int given) noexcept { return std::max(given, 1); }

}  // namespace

HostBlas::HostBlas(const HostBlasOptions& options) {
  if (options.threads < 1)
    throw Error(Code::InvalidArgument, fmt::format("HostBlas: {} threads, expected 1 or more", options.threads));
  const OpenedBlas blas = open_blas(options.library);
  library_ = blas.name;
  sgemm_ = reinterpret_cast<Gemm<float>*>(::dlsym(blas.handle, "cblas_sgemm"));
  dgemm_ = reinterpret_cast<Gemm<double>*>(::dlsym(blas.handle, "cblas_dgemm"));
  for (const char* const name : kSetThreads) {
    if (auto* const set = reinterpret_cast<void (*)(int)>(::dlsym(blas.handle, name))) set(options.threads);
  }
}

void HostBlas::multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) {
  sgemm_(kRowMajor, transposition(p.a_transposed), transposition(p.b_transposed), p.m, p.n, p.k, alpha, a,
         row_distance(p.la), b, row_distance(p.lb), beta, c, row_distance(p.lc));
}

void HostBlas::multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) {
  dgemm_(kRowMajor, transposition(p.a_transposed), transposition(p.b_transposed), p.m, p.n, p.k, alpha, a,
         row_distance(p.la), b, row_distance(p.lb), beta, c, row_distance(p.lc));
}

}  // namespace sinew::parallel

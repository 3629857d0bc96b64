#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/cublas.hpp>

namespace sinew::parallel {
namespace {

/// What is used of two libraries, by their stable C interfaces: no header of theirs is needed to build this.
struct Library {
  void* handle = nullptr;
  std::string reason;

  /// The newest major version that the loader finds: what is used of them has not changed from one to the next.
  explicit Library(const std::string& name) {
    for (const char* version : {".so.13", ".so.12", ".so.11"}) {
      handle = dlopen((name + version).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) return;
      const char* why = dlerror();
      reason += fmt::format("{}{}", reason.empty() ? "" : "; ", why != nullptr ? why : "dlopen gives no reason");
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }
  template <class F>
  void find(F*& function, const char* name) {
    if (handle == nullptr) throw Error(Code::Unavailable, fmt::format("blas cublas: {}", reason));
    function = reinterpret_cast<F*>(dlsym(handle, name));
    if (function == nullptr) throw Error(Code::Unavailable, fmt::format("blas cublas: there is no {}", name));
  }
};

constexpr int kToDevice = 1, kToHost = 2;  // cudaMemcpyKind

template <class T>
using Gemm = int(void*, int, int, int, int, int, const T*, const T*, int, const T*, int, const T*, T*, int);

/// Memory of the device that grows as operands do.
struct DeviceRoom {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Copies operands to the device and the result back: right for any memory, and slower than keeping them there.
class CuBlas final : public Blas {
 public:
  CuBlas() {
    runtime_.find(malloc_, "cudaMalloc");
    runtime_.find(free_, "cudaFree");
    runtime_.find(copy_, "cudaMemcpy");
    blas_.find(create_, "cublasCreate_v2");
    blas_.find(destroy_, "cublasDestroy_v2");
    blas_.find(sgemm_, "cublasSgemm_v2");
    blas_.find(dgemm_, "cublasDgemm_v2");
    if (const int status = create_(&handle_); status != 0)
      throw Error(Code::Unavailable,
                  fmt::format("blas cublas: cublasCreate ends with status {}: is there a GPU?", status));
  }
  CuBlas(const CuBlas&) = delete;
  CuBlas& operator=(const CuBlas&) = delete;
  ~CuBlas() override {
    for (const DeviceRoom& room : rooms_) free_(room.data);
    destroy_(handle_);
  }

  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override {
    run(p, alpha, a, b, beta, c, sgemm_);
  }
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override {
    run(p, alpha, a, b, beta, c, dgemm_);
  }

 private:
  static void require(int status, const char* call) {
    if (status != 0) throw Error(Code::System, fmt::format("blas cublas: {} ends with status {}", call, status));
  }

  void* room(std::size_t which, std::size_t bytes) {
    DeviceRoom& held = rooms_[which];
    if (held.bytes < bytes) {
      free_(held.data);
      held = {};
      require(malloc_(&held.data, bytes), "cudaMalloc");
      held.bytes = bytes;
    }
    return held.data;
  }

  /// From the first element of a stored matrix to its last.
  static std::size_t span_of(int rows, int columns, int between) {
    if (rows == 0) return 0;
    return static_cast<std::size_t>(rows - 1) * static_cast<std::size_t>(between) + static_cast<std::size_t>(columns);
  }

  /// A row-major product is the column-major one of the operands in turn.
  template <class T>
  void run(const Product& p, T alpha, const T* a, const T* b, T beta, T* c, Gemm<T>* gemm) {
    if (p.m == 0 || p.n == 0) return;
    const std::size_t a_bytes = sizeof(T) * (p.a_transposed ? span_of(p.k, p.m, p.la) : span_of(p.m, p.k, p.la));
    const std::size_t b_bytes = sizeof(T) * (p.b_transposed ? span_of(p.n, p.k, p.lb) : span_of(p.k, p.n, p.lb));
    const std::size_t c_bytes = sizeof(T) * span_of(p.m, p.n, p.lc);
    void *of_a = room(0, a_bytes), *of_b = room(1, b_bytes), *of_c = room(2, c_bytes);
    require(copy_(of_a, a, a_bytes, kToDevice), "cudaMemcpy");
    require(copy_(of_b, b, b_bytes, kToDevice), "cudaMemcpy");
    require(copy_(of_c, c, c_bytes, kToDevice), "cudaMemcpy");  // beta, and what lies between its rows
    require(
        gemm(handle_, p.b_transposed ? 1 : 0, p.a_transposed ? 1 : 0, p.n, p.m, p.k, &alpha,
             static_cast<const T*>(of_b), p.lb, static_cast<const T*>(of_a), p.la, &beta, static_cast<T*>(of_c), p.lc),
        "a product");
    require(copy_(c, of_c, c_bytes, kToHost), "cudaMemcpy");
  }

  Library runtime_{"libcudart"}, blas_{"libcublas"};
  int (*malloc_)(void**, std::size_t) = nullptr;
  int (*free_)(void*) = nullptr;
  int (*copy_)(void*, const void*, std::size_t, int) = nullptr;
  int (*create_)(void**) = nullptr;
  int (*destroy_)(void*) = nullptr;
  Gemm<float>* sgemm_ = nullptr;
  Gemm<double>* dgemm_ = nullptr;
  void* handle_ = nullptr;
  std::array<DeviceRoom, 3> rooms_{};
};

}  // namespace

std::unique_ptr<Blas> make_cublas() { return std::make_unique<CuBlas>(); }

}  // namespace sinew::parallel

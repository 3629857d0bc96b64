#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/transport/current_device.hpp>
#include <sinew/parallel/compute/cublas.hpp>
#include <sinew/parallel/compute/cublas_library.hpp>
#include <sinew/parallel/compute/opened_device.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/compute/staged_blas.hpp>

namespace sinew::parallel {
namespace {

/// The workspace that NVIDIA recommends. Without one, cuBLAS allocates memory while a stream is captured, and products
/// of one stream may differ from run to run.
/// Source: "cuBLAS Library" by NVIDIA, cublasSetWorkspace().
std::size_t workspace_bytes(int compute_capability) { return std::size_t{compute_capability >= 90 ? 32U : 4U} << 20U; }

class Cublas final : public Blas {
 public:
  Cublas(const ComputeDevice& device, const CublasOptions& options)
      : device_(device),
        library_(options.library),
        workspace_(device, workspace_bytes(device.runtime->traits(device.stream.device).compute_capability)),
        handle_(*this) {
    const CurrentDevice current(*device_.runtime, device_.stream.device);
    const auto require = [](int status, const char* call) { CublasLibrary::require(status, call, Code::Unavailable); };
    require(library_.set_stream(handle_.value, device_.stream.stream), "cublasSetStream");
    // After the stream: cublasSetStream() takes the workspace away.
    require(library_.set_workspace(handle_.value, workspace_.data(), workspace_.size()), "cublasSetWorkspace");
    require(library_.set_math_mode(handle_.value,
                                   options.tf32 ? CublasLibrary::kTf32TensorMath : CublasLibrary::kDefaultMath),
            "cublasSetMathMode");
  }

  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override {
    run(library_.f32, p, {}, alpha, a, b, beta, c);
  }
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override {
    run(library_.f64, p, {}, alpha, a, b, beta, c);
  }
  ComputeDevice device() const override { return device_; }
  void multiply_all(const Product& p, const Batch& batch, float alpha, const float* a, const float* b, float beta,
                    float* c) override {
    run(library_.f32, p, batch, alpha, a, b, beta, c);
  }
  void multiply_all(const Product& p, const Batch& batch, double alpha, const double* a, const double* b, double beta,
                    double* c) override {
    run(library_.f64, p, batch, alpha, a, b, beta, c);
  }

 private:
  struct Handle {
    explicit Handle(Cublas& of) : cublas(of) {
      const CurrentDevice current(*of.device_.runtime, of.device_.stream.device);
      CublasLibrary::require(of.library_.create(&value),
                             fmt::format("cublasCreate on device {}", of.device_.stream.device), Code::Unavailable);
    }
    ~Handle() {
      const CurrentDevice current(*cublas.device_.runtime, cublas.device_.stream.device);
      cublas.library_.destroy(value);
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    Cublas& cublas;
    CublasLibrary::Handle value = nullptr;
  };

  /// A row-major matrix is the transposed one for cuBLAS, whose matrices are column-major. So c = a * b is made as
  /// transposed c = transposed b * transposed a.
  template <class T>
  void run(const CublasLibrary::Products<T>& products, const Product& p, const Batch& batch, T alpha, const T* a,
           const T* b, T beta, T* c) {
    if (p.m == 0 || p.n == 0 || batch.products == 0) return;
    const int of_a = p.a_transposed ? CublasLibrary::kTransposed : CublasLibrary::kAsStored;
    const int of_b = p.b_transposed ? CublasLibrary::kTransposed : CublasLibrary::kAsStored;
    // cuBLAS checks the distances between rows also of matrices without elements.
    const int la = p.k == 0 ? std::max(p.la, p.m) : p.la, lb = p.k == 0 ? std::max(p.lb, p.n) : p.lb;
    const CurrentDevice current(*device_.runtime, device_.stream.device);
    const int status =
        batch.products == 1
            ? products.one(handle_.value, of_b, of_a, p.n, p.m, p.k, &alpha, b, lb, a, la, &beta, c, p.lc)
            : products.several(handle_.value, of_b, of_a, p.n, p.m, p.k, &alpha, b, lb, batch.b, a, la, batch.a, &beta,
                               c, p.lc, batch.c, batch.products);
    if (status == 0) return;
    CublasLibrary::require(status,
                           fmt::format("{} product(s) of [{}, {}] and [{}, {}]", batch.products, p.m, p.k, p.k, p.n),
                           Code::System);
  }

  ComputeDevice device_;
  CublasLibrary library_;
  PlacedArray<std::byte> workspace_;
  Handle handle_;  // after what it uses
};

}  // namespace

std::unique_ptr<Blas> make_cublas(const ComputeDevice& device, const CublasOptions& options) {
  if (!device.exists()) throw Error(Code::InvalidArgument, "cuBLAS: found the host, expected a device");
  return std::make_unique<Cublas>(device, options);
}

std::unique_ptr<Blas> make_cublas(const CublasOptions& options) {
  struct Opened {
    explicit Opened(const CublasOptions& options) : blas(device.device(), options) {}
    OpenedDevice device{"cuda:0"};
    Cublas blas;
  };
  const auto opened = std::make_shared<Opened>(options);
  return std::make_unique<StagedBlas>(std::shared_ptr<Blas>(opened, &opened->blas));
}

}  // namespace sinew::parallel

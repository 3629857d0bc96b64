#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>

namespace sinew::parallel {

struct HostBlasOptions {
  /// The threads that multiply. They are the process's: a HostBlas that is made later may change their number.
  int threads = 1;
  /// A shared library with the C interface of BLAS. Empty: the first of libopenblas, libmkl_rt, libblis, libcblas and
  /// libblas that the loader finds.
  std::string library{};
};

/// Multiplies matrices on the host with a BLAS library of the system. The library is loaded when the first object is
/// made, so a program that has a Blas of its own does not need one.
/// Thread:   one call at a time, as Blas.
/// Errors:   Unavailable, with what was looked for and the loader's reasons, if there is no such library.
///           InvalidArgument for less than one thread.
/// Source:   the C interface of BLAS, with 32-bit integers (LP64).
class SINEW_API HostBlas final : public Blas {
 public:
  explicit HostBlas(const HostBlasOptions& options = {});

  void multiply(const Product& p, float alpha, const float* a, const float* b, float beta, float* c) override;
  void multiply(const Product& p, double alpha, const double* a, const double* b, double beta, double* c) override;
  /// The file name under which the loader found the library.
  const std::string& library() const noexcept { return library_; }

 private:
  template <class T>
  using Gemm = void(int order, int a_transposed, int b_transposed, int m, int n, int k, T alpha, const T* a, int la,
                    const T* b, int lb, T beta, T* c, int lc);

  std::string library_;
  Gemm<float>* sgemm_ = nullptr;
  Gemm<double>* dgemm_ = nullptr;
};

}  // namespace sinew::parallel

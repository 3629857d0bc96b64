#pragma once

#include <cstddef>
#include <string>

#include <sinew/core/error.hpp>

namespace sinew::parallel {

/// The functions of cuBLAS that are used, by its stable C interface. No header of NVIDIA is needed to build this.
/// Source: "cuBLAS Library" by NVIDIA, of CUDA 11 to 13.
class CublasLibrary {
 public:
  using Handle = void*;
  template <class T>
  using Gemm = int(Handle, int a_operation, int b_operation, int m, int n, int k, const T* alpha, const T* a, int la,
                   const T* b, int lb, const T* beta, T* c, int lc);
  template <class T>
  using BatchedGemm = int(Handle, int a_operation, int b_operation, int m, int n, int k, const T* alpha, const T* a,
                          int la, long long a_distance, const T* b, int lb, long long b_distance, const T* beta, T* c,
                          int lc, long long c_distance, int products);
  template <class T>
  struct Products {
    Gemm<T>* one = nullptr;
    BatchedGemm<T>* several = nullptr;
  };
  static constexpr int kAsStored = 0, kTransposed = 1;         // cublasOperation_t
  static constexpr int kDefaultMath = 0, kTf32TensorMath = 3;  // cublasMath_t

  /// Loads the library. It stays loaded: the driver knows its kernels.
  /// file: empty for those that CublasOptions::library names.
  /// Errors: Unavailable with the loader's reasons, or with the function that a library does not have.
  explicit CublasLibrary(const std::string& file);

  /// Throws Error{code} with the name of the status unless the call succeeded.
  static void require(int status, const std::string& call, Code code);

  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_stream)(Handle, void* stream) = nullptr;
  int (*set_workspace)(Handle, void* memory, std::size_t bytes) = nullptr;
  int (*set_math_mode)(Handle, int mode) = nullptr;
  Products<float> f32;
  Products<double> f64;

 private:
  /// Returns why the file is of no use. Empty: all functions are found.
  std::string load(const std::string& file);
};

}  // namespace sinew::parallel

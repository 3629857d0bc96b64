// libcublas.so.13 over the fake devices. It checks its arguments by the column-major convention of BLAS.
#include "fakes/fake_cublas.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "fakes/fake_device.hpp"

#define FAKE __attribute__((visibility("default"))) int

namespace {

using sinew::MemoryKind;
namespace fake = sinew::fake;

// cublasStatus_t
constexpr int kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15;
constexpr int kTf32 = 3;  // of cublasMath_t

struct Handle {
  int device;  // that was current when it was made
  void* stream = nullptr;
  const void* workspace = nullptr;
  int math_mode = 0;
};

std::mutex mutex;
std::set<Handle*> handles;
std::string failing;
int failure = kSuccess;
std::atomic<int> products{0}, tf32_products{0};

/// The status that a test asked for, or that of a handle that does not belong here.
int refusal(const char* function, Handle* handle) {
  const std::scoped_lock lock(mutex);
  if (failing == function) return failing.clear(), failure;
  if (!handles.contains(handle)) return kNotInitialized;
  return handle->device == fake::current_device() ? kSuccess : kExecutionFailed;
}

bool is_device_memory(const void* address, int device) {
  const sinew::Place place = fake::Device().place_of(address);
  return place.kind == MemoryKind::Device && place.device == device;
}

/// One operand as cuBLAS sees it: columns of `rows` elements that begin `column_distance` elements apart.
template <class T>
struct Operand {
  T* first;
  int rows, columns, column_distance;
  long long distance;  // between the matrices of a batch

  bool is_valid() const { return column_distance >= std::max(rows, 1) && distance >= 0; }
  /// Where the host may touch it.
  /// Errors: std::out_of_range where it is not within one allocation of the device.
  T* touchable(int device, int matrices) const {
    if (rows == 0 || columns == 0) return nullptr;
    if (!is_device_memory(first, device)) throw std::out_of_range("no memory of the device");
    const long long elements = (matrices - 1) * distance + (columns - 1LL) * column_distance + rows;
    return reinterpret_cast<T*>(fake::bytes_of(first, static_cast<std::size_t>(elements) * sizeof(T)));
  }
};

template <class T>
int gemm(const char* function, void* of, int a_operation, int b_operation, int m, int n, int k, const T* alpha,
         Operand<const T> a, Operand<const T> b, const T* beta, Operand<T> c, int matrices) {
  auto* const handle = static_cast<Handle*>(of);
  if (const int status = refusal(function, handle); status != kSuccess) return status;
  const bool a_is_transposed = a_operation == 1, b_is_transposed = b_operation == 1;
  if (m < 0 || n < 0 || k < 0 || matrices < 0 || a_operation < 0 || a_operation > 1 || b_operation < 0 ||
      b_operation > 1)
    return kInvalidValue;
  a.rows = a_is_transposed ? k : m, a.columns = a_is_transposed ? m : k;
  b.rows = b_is_transposed ? n : k, b.columns = b_is_transposed ? k : n;
  c.rows = m, c.columns = n;
  if (!a.is_valid() || !b.is_valid() || !c.is_valid()) return kInvalidValue;
  if (matrices > 1 && c.distance == 0) return kInvalidValue;  // the products would write the same matrix
  if (handle->workspace == nullptr)
    return kNotSupported;  // the real one would allocate memory, and may break a capture
  if (m == 0 || n == 0 || matrices == 0) return kSuccess;
  try {
    const auto* const x = a.touchable(handle->device, matrices);
    const auto* const y = b.touchable(handle->device, matrices);
    auto* const z = c.touchable(handle->device, matrices);
    fake::enqueue(handle->stream, [=, alpha = *alpha, beta = *beta] {
      for (long long i = 0; i < matrices; ++i) {
        for (long long column = 0; column < n; ++column) {
          for (long long row = 0; row < m; ++row) {
            T sum{0};
            for (long long l = 0; l < k; ++l) {
              const long long in_a = a_is_transposed ? l + row * a.column_distance : row + l * a.column_distance;
              const long long in_b = b_is_transposed ? column + l * b.column_distance : l + column * b.column_distance;
              sum += x[i * a.distance + in_a] * y[i * b.distance + in_b];
            }
            T& to = z[i * c.distance + row + column * c.column_distance];
            to = (beta == T{0} ? T{0} : beta * to) + alpha * sum;
          }
        }
      }
      return true;
    });
  } catch (const std::out_of_range&) {
    return kExecutionFailed;
  }
  ++products;
  if (handle->math_mode == kTf32) ++tf32_products;
  return kSuccess;
}

}  // namespace

extern "C" {

FAKE cublasCreate_v2(void** handle) {
  const std::scoped_lock lock(mutex);
  if (failing == "cublasCreate_v2") return failing.clear(), failure;
  if (fake::current_device() < 0) return kNotInitialized;
  *handle = *handles.insert(new Handle{.device = fake::current_device()}).first;
  return kSuccess;
}

FAKE cublasDestroy_v2(void* of) {
  auto* const handle = static_cast<Handle*>(of);
  if (const int status = refusal("cublasDestroy_v2", handle); status != kSuccess) return status;
  const std::scoped_lock lock(mutex);
  handles.erase(handle);
  delete handle;
  return kSuccess;
}

FAKE cublasSetStream_v2(void* of, void* stream) {
  auto* const handle = static_cast<Handle*>(of);
  if (const int status = refusal("cublasSetStream_v2", handle); status != kSuccess) return status;
  handle->stream = stream;
  handle->workspace = nullptr;
  return kSuccess;
}

FAKE cublasSetWorkspace_v2(void* of, void* memory, std::size_t bytes) {
  auto* const handle = static_cast<Handle*>(of);
  if (const int status = refusal("cublasSetWorkspace_v2", handle); status != kSuccess) return status;
  if (bytes == 0 || reinterpret_cast<std::size_t>(memory) % 256 != 0 || !is_device_memory(memory, handle->device))
    return kInvalidValue;
  handle->workspace = memory;
  return kSuccess;
}

FAKE cublasSetMathMode(void* of, int mode) {
  auto* const handle = static_cast<Handle*>(of);
  if (const int status = refusal("cublasSetMathMode", handle); status != kSuccess) return status;
  handle->math_mode = mode;
  return kSuccess;
}

#define SINEW_FAKE_GEMM(T, name)                                                                                      \
  FAKE name(void* handle, int a_operation, int b_operation, int m, int n, int k, const T* alpha, const T* a, int la,  \
            const T* b, int lb, const T* beta, T* c, int lc) {                                                        \
    return gemm<T>(#name, handle, a_operation, b_operation, m, n, k, alpha, {a, 0, 0, la, 0}, {b, 0, 0, lb, 0}, beta, \
                   {c, 0, 0, lc, 0}, 1);                                                                              \
  }
SINEW_FAKE_GEMM(float, cublasSgemm_v2)
SINEW_FAKE_GEMM(double, cublasDgemm_v2)
#undef SINEW_FAKE_GEMM

#define SINEW_FAKE_GEMMS(T, name)                                                                                    \
  FAKE name(void* handle, int a_operation, int b_operation, int m, int n, int k, const T* alpha, const T* a, int la, \
            long long a_distance, const T* b, int lb, long long b_distance, const T* beta, T* c, int lc,             \
            long long c_distance, int matrices) {                                                                    \
    return gemm<T>(#name, handle, a_operation, b_operation, m, n, k, alpha, {a, 0, 0, la, a_distance},               \
                   {b, 0, 0, lb, b_distance}, beta, {c, 0, 0, lc, c_distance}, matrices);                            \
  }
SINEW_FAKE_GEMMS(float, cublasSgemmStridedBatched)
SINEW_FAKE_GEMMS(double, cublasDgemmStridedBatched)
#undef SINEW_FAKE_GEMMS

__attribute__((visibility("default"))) void fake_cublas_fail(const char* function, int status) {
  const std::scoped_lock lock(mutex);
  failing = function;
  failure = status;
}
FAKE fake_cublas_handles() {
  const std::scoped_lock lock(mutex);
  return static_cast<int>(handles.size());
}
FAKE fake_cublas_products() { return products; }
FAKE fake_cublas_tf32_products() { return tf32_products; }
}

#pragma once

#include <memory>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>

namespace sinew::parallel {

struct CublasOptions {
  /// Multiplies f32 matrices with TF32: ten bits of each factor's mantissa, on tensor cores. Without it all 23 bits are
  /// used. Sums are f32 either way. f64 products do not change.
  bool tf32 = false;
  /// The file of the library. Empty: the newest of libcublas.so.13, libcublas.so.12 and libcublas.so.11 that the loader
  /// finds.
  std::string library{};
};

/// Products of matrices in the device's memory, made by NVIDIA's cuBLAS. A call enqueues them on the device's stream
/// and returns. The stream may be captured into a graph. The library is loaded when this is called.
/// Lifetime: the device's runtime and stream outlive the Blas. The Blas outlives graphs that captured its calls,
///           because they use its workspace.
/// Errors:   Unavailable, with the reason, if there is no cuBLAS or if it does not start on the device. A product
///           throws System with the name of cuBLAS's status.
SINEW_API std::unique_ptr<Blas> make_cublas(const ComputeDevice& device, const CublasOptions& options = {});

/// Products of matrices in host memory, made by cuBLAS on the first device of CUDA. Operands are copied to the device
/// and back, so this is for trying devices, not for speed.
/// Errors: as above, and Unavailable if there is no device.
SINEW_API std::unique_ptr<Blas> make_cublas(const CublasOptions& options = {});

}  // namespace sinew::parallel

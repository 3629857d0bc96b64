#pragma once

#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/blas.hpp>

namespace sinew::parallel {

/// Products of matrices in host memory, made by NVIDIA's cuBLAS. Operands are copied to the device and back, so this is
/// for trying devices, not for speed. The library is loaded when this is called.
/// Errors: Unavailable, with the reason, if there is no cuBLAS or no device.
SINEW_API std::unique_ptr<Blas> make_cublas();

}  // namespace sinew::parallel

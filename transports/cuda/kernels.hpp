#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/transports/cuda/driver.hpp>

namespace sinew::cuda {

/// As many contributions as one kernel combines.
inline constexpr int kMostSources = 16;

/// Why this build has no kernels, or yes.
SINEW_API Availability kernels_available();

/// Our kernels on one device. Thread: one at a time. Lifetime: the device's context.
class SINEW_API Kernels {
 public:
  /// With the device's context current. Errors: Error{Unavailable} where the build has none; System.
  explicit Kernels(Device device);
  /// With the same context current.
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// dst[i] = (sources[0][i] (op) sources[1][i] (op) ...) * scale, 16-bit and 8-bit floats computed in f32 and rounded
  /// once. Any alignment. Cost: one launch.
  void combine(void* dst, std::span<const void* const> sources, std::size_t count, ReduceOp op, DType dtype,
               double scale, Stream stream);

 private:
  Function find(ReduceOp op, DType dtype);

  Library image_ = nullptr;
  unsigned blocks_ = 1;
  std::array<std::array<Function, kDTypeCount>, kReduceOpCount> found_{};
};

}  // namespace sinew::cuda

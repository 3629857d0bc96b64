#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>
#include <sinew/parallel/kernels/launcher.hpp>
#include <sinew/parallel/optim/update_rule/kernels.hpp>

namespace sinew::parallel {

/// Starts the kernels of an optimizer on the stream of a device. No function waits.
/// Shape:  as the arguments of the kernels (kernels/update_kernels.hpp).
/// Errors: as Launcher. Error{InvalidArgument} for dtypes for which there is no kernel.
class SINEW_API DeviceKernels {
 public:
  explicit DeviceKernels(const ComputeDevice& device) : launcher_(device) {}

  /// state: as the optimizer lays it out (update_rule/state_layout.hpp). Gradients are of the dtype of the value, or of
  /// f32 if values have 16 bits.
  void adam(DType value, DType gradient, void* values, const void* gradients, void* state, std::int64_t count,
            const AdamStep& step);
  void sgd(DType value, DType gradient, void* values, const void* gradients, void* state, std::int64_t count,
           const SgdStep& step);
  /// Between f32 and a dtype of 16 bits, or to a wider dtype.
  void convert(DType from, DType to, const void* in, void* out, std::int64_t count);
  /// Writes sums of squares, one for each team: as many as square_sums(count) says.
  void squares(DType dtype, const void* in, std::int64_t count, double* partial);
  static std::int64_t square_sums(std::int64_t count);

 private:
  Launcher launcher_;
};

}  // namespace sinew::parallel

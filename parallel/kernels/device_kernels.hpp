#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>
#include <sinew/parallel/optim/update_rule/kernels.hpp>

namespace sinew::parallel {

/// Starts our kernels on the stream of a device. No function waits.
/// Shape:  as the arguments of the kernels (kernels/arguments.hpp).
/// Errors: Error{Unavailable} if this build has no device kernels. Error{InvalidArgument} for dtypes for which there
///         is no kernel. Error{System} with the driver's text.
class SINEW_API DeviceKernels {
 public:
  explicit DeviceKernels(const ComputeDevice& device);

  /// state: as the optimizer lays it out (update_rule/state_layout.hpp). Gradients are of the dtype of the value, or of
  /// f32 if values have 16 bits.
  void adam(DType value, DType gradient, void* values, const void* gradients, void* state, std::int64_t count,
            const AdamStep& step);
  void sgd(DType value, DType gradient, void* values, const void* gradients, void* state, std::int64_t count,
           const SgdStep& step);
  /// Between f32 and a dtype of 16 bits.
  void convert(DType from, DType to, const void* in, void* out, std::int64_t count);
  /// Writes sums of squares, one for each team: as many as square_sums(count) says.
  void squares(DType dtype, const void* in, std::int64_t count, double* partial);
  static std::int64_t square_sums(std::int64_t count);

 private:
  template <class Argument>
  void start(const std::string& kernel, std::int64_t teams, const Argument& argument);
  std::int64_t teams_for(std::int64_t count) const;

  ComputeDevice device_;
  std::int64_t most_teams_ = 1;
};

}  // namespace sinew::parallel

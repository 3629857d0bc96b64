#pragma once

#include <cstdint>
#include <type_traits>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

namespace sinew::parallel {

/// A kernel of the image, whose argument has this type (kernel_table.hpp).
template <class Argument>
struct Kernel {
  const char* name = nullptr;
};

/// Starts our kernels on the stream of a device. No function waits.
/// Thread: as ComputeDevice.
/// Errors: Error{Unavailable} if this build has no device kernels. Error{System} with the driver's text.
class SINEW_API Launcher {
 public:
  explicit Launcher(const ComputeDevice& device);

  const ComputeDevice& device() const noexcept { return device_; }

  /// 0 teams start nothing.
  template <class Argument>
  void start(Kernel<Argument> kernel, std::int64_t teams, const std::type_identity_t<Argument>& argument) const {
    if (teams > 0) launch(kernel.name, teams, &argument);
  }
  /// Returns the number of teams that share so many elements, rows or columns. 0 if there are none.
  std::int64_t teams_for(std::int64_t elements) const noexcept;
  std::int64_t teams_for_rows(std::int64_t rows, std::int64_t width) const noexcept;
  std::int64_t teams_for_columns(std::int64_t columns) const noexcept;

 private:
  void launch(const char* kernel, std::int64_t teams, const void* argument) const;

  ComputeDevice device_;
  std::int64_t most_teams_ = 1;  // that run at the same time
};

}  // namespace sinew::parallel

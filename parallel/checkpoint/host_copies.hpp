#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

namespace sinew::parallel {

/// Parts of a checkpoint whose buffers are in device memory, once more in host memory: checkpoints and carry_over()
/// read and write host memory only. Parts that are in host memory already are taken as they are.
///     HostCopies here(device, parts_to_save(data, optimizer));
///     here.bring_down();  save_checkpoint(all, folder, here.parts(), metadata);
///     HostCopies wanted(device, parts_to_load(data, optimizer));
///     load_checkpoint(all, folder, wanted.parts());  wanted.send_up();
/// Shape:    parts lie in the host memory so that their elements are aligned.
/// Lifetime: the buffers of the parts outlive it.
/// Errors:   Error{System} with the driver's text. InvalidArgument if a part is on a device and there is no `device`.
/// Cost:     host memory for all parts that are on the device.
class SINEW_API HostCopies {
 public:
  /// device: the device whose stream uses the buffers.
  HostCopies(const ComputeDevice& device, std::vector<CheckpointPart> parts);
  /// Copies from the device. Returns when everything has arrived.
  void bring_down();
  /// Copies to the device. Returns when everything has arrived.
  void send_up();
  std::span<const CheckpointPart> parts() const noexcept { return here_; }

 private:
  ComputeDevice device_;
  std::vector<Buffer> there_;  // by part; empty where the part is in host memory already
  std::vector<CheckpointPart> here_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace sinew::parallel

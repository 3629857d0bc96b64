#pragma once

// The optimizer. It updates the parts of parameters that this rank owns. The room also holds the LossScaler, which
// chooses the scale of gradients. It may include the memory of data parallelism, the step graph's protocol, and its own
// update rules.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/memory/owned_part.hpp>
#include <sinew/parallel/kernels/device_kernels.hpp>
#include <sinew/parallel/optim/update_rule/options.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {

/// A part of the optimizer's state, for elements [first, last) of a parameter. The kind is "moment1" or "moment2" for
/// Adam, "momentum" for SGD, and "master" if the parameter has 16 bits.
struct StatePart {
  std::int32_t parameter = 0;
  std::int64_t first = 0, last = 0;
  std::string kind{};
  DType dtype = DType::F32;
  Buffer values{};
};

/// Updates the parts of parameters that this rank owns. Its state is therefore sharded as the row says.
/// Values of f32 and f64 are updated in their own precision. For bf16 and f16 the optimizer keeps the values in f32
/// (master values), computes in f32, and rounds once per step. Their gradients may be f32. Parts in device memory are
/// updated there, in the order of the engine's stream: state and parts are used by work of that stream only.
/// Units: bytes of state per element. Adam: 8 for f32, 16 for f64, 12 for 16 bits. SGD: the momentum and the master
///        values.
class SINEW_API Optimizer {
 public:
  /// If the memory is that of a DataParallel, the optimizer has a call in each of its steps: update().
  /// Lifetime: `memory` outlives the optimizer.
  /// Errors:   InvalidArgument that lists all options out of range.
  Optimizer(HeldMemory& memory, const SgdOptions& options);
  Optimizer(HeldMemory& memory, const AdamOptions& options);

  /// Makes one step. Gradients are first multiplied by `scale`, which comes from clipping and loss scaling.
  /// Errors: InvalidArgument if the parts are not those of the first step. InvalidArgument naming the parameter's
  ///         number if its dtype is not a float of 16, 32 or 64 bits. As StepProtocol if the call is not due: for parts
  ///         without gradients, for gradients of another step, and for a second call in a step.
  void update(std::span<const OwnedPart> parts, double scale = 1);

  void set_rate(double rate) noexcept { rate_ = rate; }
  std::int64_t steps() const noexcept { return steps_; }

  /// The optimizer's state for these parts, which are those of every step. It can be saved, or filled before the first
  /// step. If the state does not exist yet, it is made: zeros, and the master values from the parts.
  /// Lifetime: of the optimizer.
  /// Errors:   as update.
  std::vector<StatePart> state(std::span<const OwnedPart> parts);
  /// Sets the number of steps made so far. Call it between two steps.
  /// Errors: InvalidArgument for a number below 0; as StepProtocol.
  void restore_steps(std::int64_t steps);

 private:
  struct Slot {
    std::int32_t parameter;
    std::int64_t first, last;
    DType dtype{};
    std::size_t offset;  // of its state, in bytes
  };

  void make_state(std::span<const OwnedPart> parts);
  void require_same(std::span<const OwnedPart> parts) const;
  void require_gradients(std::span<const OwnedPart> parts) const;

  HeldMemory* memory_;
  std::shared_ptr<StepProtocol::Member> member_;  // null: the memory is of nobody's steps
  std::variant<SgdOptions, AdamOptions> options_;
  double rate_;
  std::int64_t steps_ = 0;
  std::vector<Slot> slots_;
  HeldMemory::Piece state_;
  std::optional<DeviceKernels> kernels_;  // where parts are in device memory
};

}  // namespace sinew::parallel

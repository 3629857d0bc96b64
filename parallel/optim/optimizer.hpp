#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/held_memory.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {

/// value -= rate * (momentum * velocity + gradient), and so on.
/// Source: as torch.optim.SGD: velocity = momentum * velocity + gradient, which starts as the first gradient.
struct SgdOptions {
  double rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;  ///< times the value, added to the gradient
  bool nesterov = false;
};

/// Source: Kingma and Ba, arXiv 1412.6980; decoupled weight decay: Loshchilov and Hutter, arXiv 1711.05101 (AdamW).
struct AdamOptions {
  double rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;  ///< decay takes its part of the value, else it is added to the gradient
};

/// What the optimizer keeps for elements [first, last) of a parameter: "moment1" and "moment2" of Adam, "momentum" of
/// SGD, and "master" where the parameter has 16 bits.
struct StatePart {
  std::int32_t parameter = 0;
  std::int64_t first = 0, last = 0;
  std::string kind;
  DType dtype = DType::F32;
  Buffer values;
};

/// Updates the parts of parameters that this rank owns; so its state is sharded as the row says.
/// f32 and f64 are computed as they are. Of bf16 and f16 it keeps the values in f32 (master weights), computes in f32
/// and rounds once per step; their gradients may be f32.
/// Units: bytes of state per element. Adam: 8 for f32, 16 for f64, 12 for 16 bits; SGD: the momentum and the master.
class SINEW_API Optimizer {
 public:
  /// Of the memory of a DataParallel it has a call in each of its steps: update().
  /// Lifetime: `memory` outlives it.
  /// Errors: InvalidArgument that lists all options out of range.
  Optimizer(HeldMemory& memory, const SgdOptions& options);
  Optimizer(HeldMemory& memory, const AdamOptions& options);

  /// One step. Gradients are multiplied by `scale` first: what clipping and loss scaling ask for.
  /// Errors: InvalidArgument where the parts are not those of the first step, or of a dtype that is no float of 16, 32
  ///         or 64 bits, naming the parameter's number; of a call that is not due, as StepProtocol: parts without
  ///         gradients, or with those of another step, a second call in a step.
  void update(std::span<const OwnedPart> parts, double scale = 1);

  void set_rate(double rate) noexcept { rate_ = rate; }
  std::int64_t steps() const noexcept { return steps_; }

  /// Its state for these parts, which are those of every step: to be saved, or to be filled before the first step from
  /// what was. Made here where it is not there yet: zeros, and of master values those of the parts.
  /// Lifetime: the optimizer's.
  /// Errors:   as update.
  std::vector<StatePart> state(std::span<const OwnedPart> parts);
  /// As if there had been so many steps, between two of them. Errors: InvalidArgument for less than 0; as StepProtocol.
  void restore_steps(std::int64_t steps);

 private:
  struct Slot {
    std::int32_t parameter;
    std::int64_t first, last;
    DType dtype;
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
};

}  // namespace sinew::parallel

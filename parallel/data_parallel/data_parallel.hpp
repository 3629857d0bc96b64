#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/parallel/data_parallel/copies.hpp>
#include <sinew/parallel/data_parallel/gradient_wire.hpp>
#include <sinew/parallel/data_parallel/held_memory.hpp>
#include <sinew/parallel/data_parallel/row.hpp>
#include <sinew/parallel/data_parallel/step_plan.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {

struct MemoryPlan;

struct DataParallelOptions {
  DataOptions step{};
  ReduceOp gradients = ReduceOp::Average;  ///< or Sum
  Determinism determinism = Determinism::Fast;
  GradientWire wire{};  ///< how gradients travel
  /// Parameters whose gradient was not reported when the backward pass ends count as reported, with what their
  /// gradient holds: zero. Otherwise they are an error.
  bool unused_are_zero = false;
  /// Buckets follow the order in which gradients came in the first step, as rank 0 saw it. Rows that shard nothing.
  bool rebuild_buckets = true;
  /// The engine's device, with DataOptions::offload: parameter(p) and gradient(p) are there, each OwnedPart is in host
  /// memory, which `allocate` gives.
  DataDevice device{};
};

/// Writes elements [first, last) of a parameter's initial values. The same whoever asks: ranks ask for what they hold.
using InitialValues = std::function<void(std::int32_t parameter, std::int64_t first, std::int64_t last, Buffer into)>;

/// What this rank's optimizer updates: elements [first, last) of a parameter, and their summed gradient.
struct OwnedPart {
  std::int32_t parameter = 0;
  std::int64_t first = 0, last = 0;
  DType dtype = DType::F32;
  Buffer value, gradient;
  std::optional<DType> of_gradient{};  ///< {}: as the value
  std::uint64_t sum = 0;               ///< which sum of gradients this is, as DataParallel counts them; 0: of none

  DType gradient_dtype() const noexcept { return of_gradient.value_or(dtype); }
};

/// For a call that reads the gradients of parts: they are summed, and of the present step.
/// Errors: as StepProtocol, whose communicators end then, too.
SINEW_API void require_sums(StepProtocol& step, std::string_view call, std::span<const OwnedPart> parts);

/// Data parallelism over somebody's own engine: it holds parameters and gradients, the engine says what it is about to
/// do and what it has done. A step:
///
///     for each unit:            before_forward(u); ...; after_forward(u);
///     for each unit, backwards: before_backward(u); ... gradient(p) += ...; gradient_ready(p); ...; after_backward(u);
///     for (OwnedPart& part : finish_backward()) ... update part.value by part.gradient ...;
///     updated();
///
/// These calls, and those of whatever belongs to a step beside them, come in the order of StepProtocol. A call that is
/// not due is refused, and ends the step on all ranks, where every later call says so; abandon_step() on all ranks is
/// the way on.
/// Rows that shard no parameters need none of the calls per unit. Gradients are added to: they are zero after
/// updated().
/// Shape:    a buffer of parameter(p) holds `elements` of its dtype, one of gradient(p) as many of gradient_dtype().
/// Thread:   the World's. With Threads::Multiple exchanges go on while the engine computes.
/// Lifetime: ends before mesh and World; by an exception, after the step has ended for a call that was not due, it ends
///           the groups of the mesh, too. parameter(p), where parameters are sharded, is there from before_forward or
///           before_backward of its unit to the end of that, and between both where it is not resharded; gradient(p)
///           until finish_backward, which may move it.
///           Units run forward in the order of their first parameters, and backward the other way. Where parameters
///           are sharded each runs once in a step: what runs twice, or is used by two, belongs to one unit. Passes
///           of DataOptions::outer_unit begin before all others and end after them.
/// Errors:   InvalidArgument for the number of a parameter or unit that is not there; of a call that is not due, as
///           StepProtocol, and on the other ranks Aborted with the same text; what an exchange ends with, from the next
///           call that waits on.
class SINEW_API DataParallel {
  struct State;
  struct Start;  // what the values of parameters come from

 public:
  /// values: of each parameter, copied; equal on all ranks along the row's axes. Collective over these. The mesh has a
  /// group for the sharded axis, one for all others together ("dp-cp"), and one for reshard_axes.
  /// Errors: as plan_step; InvalidArgument for a wire that does not suit, for a buffer of another length than its
  ///         parameter, and on all ranks alike for rows, options or parameters that differ between them, naming the
  ///         first.
  /// Cost:   a communicator of its own for each group that it exchanges along, and a hash of all values.
  DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, std::span<const ConstBuffer> values,
               const DataRow& row, Allocate allocate, const DataParallelOptions& options = {},
               const std::source_location& where = std::source_location::current());
  /// The same where no rank has, or compares, the whole of all values.
  /// Errors: as above. An exception from `initial`, or from `allocate` here or later, ends the World
  ///         (Communicator::abort_world_by_exception) and is rethrown.
  /// Cost: of values only this rank's part is ever made.
  DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const InitialValues& initial, const DataRow& row,
               Allocate allocate, const DataParallelOptions& options = {},
               const std::source_location& where = std::source_location::current());
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;
  ~DataParallel();

  /// Units by name, in the order in which their first parameters come.
  std::int32_t unit(std::string_view name) const;

  void before_forward(std::int32_t unit);
  void after_forward(std::int32_t unit);
  void before_backward(std::int32_t unit);
  void after_backward(std::int32_t unit);

  /// Errors: InvalidArgument where it is sharded and its unit was not gathered.
  Buffer parameter(std::int32_t parameter);
  Buffer gradient(std::int32_t parameter);
  /// The gradient is complete, or, of a parameter that is used several times, has had one more contribution.
  void gradient_ready(std::int32_t parameter);

  /// Returns when all gradients are summed; by parameter, ascending. Within no_sync(): empty, and the next forward pass
  /// may begin.
  std::vector<OwnedPart> finish_backward();
  /// Gives the step up, wherever each rank is in it: the next one begins anew, and gradients that were added up since
  /// the last update are gone, with what their codec has lost. All ranks along the row's axes call it before any of
  /// them ends the step: as all skip a batch. Ranks may be in different passes of it where parameters are whole, and
  /// otherwise are in the same one: those ahead would wait for what they gather.
  /// Errors: what an exchange ends with. The step is given up all the same.
  /// Cost:   the exchanges that this rank has not started yet, as others may wait in them; under no_sync() those of
  ///         sums, too, where parameters are whole; 8 bytes of each rank; after a refused call new communicators.
  void abandon_step();
  /// The optimizer is through: others get what it has changed. Returns when this rank has everybody's.
  void updated();

  /// What passes are made of while it lives; then again of what they were before. Of several the last one ends first.
  /// It ends between two passes; where an exception ended it in one, abandon_step() is the way on.
  class [[nodiscard]] SINEW_API Scope {
   public:
    ~Scope();
    Scope(Scope&& other) noexcept : of_(std::exchange(other.of_, nullptr)), before_(other.before_) {}
    Scope& operator=(Scope&&) = delete;

   private:
    friend class DataParallel;
    Scope(State& of, PassKind kind);

    State* of_;
    PassKind before_;
  };
  /// Gradients are only added up on this rank, over as many backward passes as there are.
  /// Errors: InvalidArgument in the middle of a step.
  Scope no_sync();
  /// Passes have no backward half, as for evaluation: each ends with finish_forward(). What is gathered is freed behind
  /// its unit.
  /// Errors: as no_sync.
  Scope forward_only();
  /// Errors: InvalidArgument outside forward_only(), and naming the units whose after_forward was not called.
  void finish_forward();

  const std::vector<DataParameter>& parameters() const noexcept;
  /// Who says which call of a step is due: for others that have a call in it.
  StepProtocol& protocol() noexcept;
  /// For what saves or fills parameters between two steps, `call`. Collective along the row's axes.
  /// Errors: of a call that is not due; InvalidArgument or Mismatch where ranks are in different calls.
  void begin_checkpoint(std::string_view call);
  /// The communicator of the step's own for the ranks of mesh.along(axes), which ends with the step; the mesh's where
  /// the step communicates along other axes, or along those of another mesh. For what all ranks call between
  /// finish_backward and updated.
  Communicator& along(Mesh& mesh, std::string_view axes);
  /// What finish_backward returns, without gradients: at any time.
  std::vector<OwnedPart> owned_values();
  /// Between two steps parameter(p) is there, of all.
  bool keeps_whole_parameters() const noexcept;
  /// The axis along which ranks own different parts; empty where each owns all.
  const std::string& sharded_axis() const noexcept;
  /// Where the optimizer's state comes from, too.
  HeldMemory& memory() noexcept;
  const HeldBytes& held() const noexcept;
  /// What this rank will have held at most, without the optimizer; with whole gradients under way since the first
  /// no_sync(). Of an engine that asks for gradients of a unit within its backward pass where units are gathered, and
  /// where they are not reports what it has asked for before that fills the room; a step that is given up may take one
  /// exchange more.
  const MemoryPlan& planned() const noexcept;
  /// The graph of a step as it runs now.
  const StepGraph& graph() const noexcept;

 private:
  DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const Start& start, const DataRow& row,
               Allocate allocate, const DataParallelOptions& options, const std::source_location& where);

  std::unique_ptr<State> state_;
};

}  // namespace sinew::parallel

#pragma once

// Data parallelism over an engine of the user's. The room holds DataParallel and the checks of its arguments. It also
// holds what is computed from gradients: their norm, and a loss with its weight. It may include its sub-rooms `plan`
// and `memory`. It may also include the mesh, the step graph and exact sums. It does not include the optimizer, whose
// room comes after it.

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
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/memory/owned_part.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/step_graph/graph.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {

struct MemoryPlan;

/// Data parallelism over an engine of the user's. DataParallel holds parameters and gradients. The engine says what it
/// is about to do, and what it has done. A step:
///
///     for each unit:            before_forward(u); ...; after_forward(u);
///     for each unit, backwards: before_backward(u); ... gradient(p) += ...; gradient_ready(p); ...; after_backward(u);
///     for (OwnedPart& part : finish_backward()) ... update part.value by part.gradient ...;
///     updated();
///
/// StepProtocol defines the order of these calls, and of other calls that belong to a step. A call that is not due is
/// refused. The step then ends on all ranks, and every later call says so. To go on, all ranks call abandon_step().
/// Only rows that shard parameters need the calls per unit. The engine adds to gradients: they are zero after
/// updated().
/// In a stage of a pipeline a schedule decides when units are gathered, freed and summed (DataOptions::order). Then a
/// step is:
///
///     in the order of the schedule: unshard(u); ... parameter(p) ...; reshard(u); ... gradient(p) += ...; reduce(u);
///     finish_backward(), the update and updated() as above
///
/// Exchanges go on while the engine computes. parameter(p) and reshard() wait for the gather that unshard() has begun,
/// and gradient(p) and reduce() for an earlier sum of the same memory. The engine reports no gradients: those of a unit
/// are complete when reduce() is called.
/// Units run forward in the order of their first parameters, and backward in the reverse order. Where parameters are
/// sharded, each unit runs once in a step. Layers that run twice, or that share parameters, therefore belong to one
/// unit. The passes of DataOptions::outer_unit begin before all others and end after them.
/// Shape:    a buffer of parameter(p) holds `elements` of the parameter's dtype, and one of gradient(p) as many of
///           gradient_dtype().
/// Thread:   the World's. With Threads::Multiple exchanges go on while the engine computes.
/// Lifetime: ends before mesh and World. If an exception destroys it after a refused call has ended the step, it also
///           ends the groups of the mesh. If parameters are sharded, the buffer of parameter(p) is valid from
///           before_forward or before_backward of its unit to the end of that pass, and between both passes if the unit
///           is not resharded. The buffer of gradient(p) is valid until finish_backward, which may move it.
/// Errors:   InvalidArgument for the number of a parameter or unit that does not exist. For a call that is not due, as
///           StepProtocol; the other ranks get Aborted with the same text. The error of an exchange is thrown by the
///           next call that waits, and by all later ones. On a device an exchange may fail after its step has ended.
///           Then parameters are lost, and all later calls throw its error, also after abandon_step().
class SINEW_API DataParallel {
  struct State;
  struct Start;  // the source of the initial values of parameters

 public:
  /// values: one buffer for each parameter. The values are copied, and must be equal on all ranks along the row's axes.
  /// Collective over these axes. The mesh has a group for the sharded axis, one for all others together ("dp-cp"), and
  /// one for reshard_axes. With scatter_axes it has one for these, and one for the other axes that shard.
  /// Errors: those of complete_parameters() and plan_step(). InvalidArgument for a wire that does not suit the
  ///         gradients, for a `spread` along which the mesh has no group, and for a buffer of another length than its
  ///         parameter. InvalidArgument on all ranks alike if ranks differ in rows, options or parameters; it names the
  ///         first difference.
  /// Cost:   a communicator of its own for each group along which it exchanges, and a hash of all values.
  DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, std::span<const ConstBuffer> values,
               const DataRow& row, Allocate allocate, const DataParallelOptions& options = {},
               const std::source_location& where = std::source_location::current());
  /// As above, but no rank ever has all values, and the values are not compared.
  /// Errors: as above. An exception from `initial`, or from `allocate` here or later, ends the World
  ///         (Communicator::abort_world_by_exception) and is rethrown.
  /// Cost:   only the values of this rank's part are made.
  DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const InitialValues& initial, const DataRow& row,
               Allocate allocate, const DataParallelOptions& options = {},
               const std::source_location& where = std::source_location::current());
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;
  ~DataParallel();

  /// The number of a unit. Units are numbered in the order of their first parameters.
  std::int32_t unit(std::string_view name) const;

  void before_forward(std::int32_t unit);
  void after_forward(std::int32_t unit);
  void before_backward(std::int32_t unit);
  void after_backward(std::int32_t unit);

  /// The calls of a step whose order a schedule decides. unshard() begins to gather a unit, reshard() frees what was
  /// gathered, and reduce() begins to sum what was added to the unit's gradients. Rows that keep whole parameters have
  /// nothing to gather, and take these calls too. Under no_sync() reduce() sums nothing.
  void unshard(std::int32_t unit);
  void reshard(std::int32_t unit);
  void reduce(std::int32_t unit);
  /// For units that are gathered one after the other within a stage (UnitGathers::ByUnit). begin_use() makes the calls
  /// of the schedule that come before the next use of the unit, and end_use() those up to its reshard.
  /// Errors: begin_use() as StepProtocol if another unit is due.
  void begin_use(std::int32_t unit);
  void end_use(std::int32_t unit);

  /// Errors: InvalidArgument if the parameter is sharded and its unit was not gathered.
  Buffer parameter(std::int32_t parameter);
  Buffer gradient(std::int32_t parameter);
  /// Returns the same memory as elements of T, such as double or BFloat16. T must be the type of the dtype, and the
  /// memory must be the host's.
  /// Errors: as above. InvalidArgument for another type.
  template <class T>
  std::span<T> parameter(std::int32_t number) {
    require_type(number, kDTypeOf<T>, false);
    return elements_of<T>(parameter(number));
  }
  template <class T>
  std::span<T> gradient(std::int32_t number) {
    require_type(number, kDTypeOf<T>, true);
    return elements_of<T>(gradient(number));
  }
  /// Reports that the gradient is complete. A parameter with several `uses` is reported once for each contribution.
  void gradient_ready(std::int32_t parameter);

  /// Waits until all gradients are summed. Returns the parts that this rank owns, in ascending order of parameters.
  /// Under no_sync() the result is empty, and the next forward pass may begin.
  std::vector<OwnedPart> finish_backward();
  /// Gives the step up, wherever each rank is in it. The next step begins anew. Gradients that were added up since the
  /// last update are lost, and so is what error feedback has kept. All ranks along the row's axes call it before any of
  /// them ends the step. Where parameters are whole, ranks may be in different passes of the step. Where parameters are
  /// sharded, all ranks must be in the same pass, because a rank that is ahead waits for gathers of the others.
  /// Errors: the error of an exchange. The step is given up all the same.
  /// Cost:   the exchanges that this rank has not started yet, because other ranks may wait in them. Where parameters
  ///         are whole, also the sums that no_sync() left out. 8 bytes from each rank. After a refused call, new
  ///         communicators.
  void abandon_step();
  /// Multiplies what error feedback has kept of this rank's gradients. Call it between two steps if the scale of the
  /// loss changes, because the kept errors are in the units of the earlier gradients. Does not communicate. Without
  /// GradientWire::error_feedback it does nothing.
  /// Errors: InvalidArgument for a factor that is not a finite number above 0; as StepProtocol if a step has begun.
  /// Cost:   a pass over the kept errors. None for a factor of 1.
  void scale_feedback(double factor);
  /// The optimizer has updated the owned parts. Returns when this rank has the updates of all ranks.
  void updated();

  /// A Scope changes the kind of passes when it begins, and restores the earlier kind when it ends. If there are many
  /// scopes, the last one ends first. A scope ends between two passes. If an exception ends it within a pass, call
  /// abandon_step().
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
  /// Gradients are only added up on this rank, over any number of backward passes.
  /// Errors: InvalidArgument in the middle of a step.
  Scope no_sync();
  /// Passes have no backward half, as for evaluation. Each pass ends with finish_forward(). Gathered parameters are
  /// freed after their unit.
  /// Errors: as no_sync.
  Scope forward_only();
  /// Errors: InvalidArgument outside forward_only(), and for units whose after_forward was not called, naming them.
  void finish_forward();

  /// The parameters as complete_parameters() makes them.
  /// DataParallelOptions::device.
  const ComputeDevice& device() const noexcept;
  const std::vector<DataParameter>& parameters() const noexcept;
  Mesh& mesh() const noexcept;
  /// The order of the calls of a step, for other objects that have a call in it.
  StepProtocol& protocol() noexcept;
  /// Begins `call`, which saves or fills parameters between two steps. Collective along the row's axes. Waits until the
  /// exchanges of earlier steps have ended, on a device too.
  /// Errors: as StepProtocol if the call is not due; InvalidArgument or Mismatch if ranks make different calls; the
  ///         error of an exchange.
  void begin_checkpoint(std::string_view call);
  /// Waits until the exchanges for which only the device's stream has waited have ended. Called before the host waits
  /// for the stream, which a dead rank would hang. On the host it does nothing.
  /// Errors: that of an exchange.
  void settle();
  /// Waits as settle(). Returns false if an exchange has failed from whose result the parameters or the optimizer's
  /// state were computed: then this rank holds no state. May be called at any time.
  bool keeps_state() noexcept;
  /// The step's own communicator for the ranks of mesh.along(axes). It ends with the step. If the step does not
  /// communicate along these axes, or `mesh` is another mesh, it is the mesh's communicator. For calls that all ranks
  /// make between finish_backward and updated.
  Communicator& along(Mesh& mesh, std::string_view axes);
  /// The parts that this rank owns, without gradients. May be called at any time.
  std::vector<OwnedPart> owned_values();
  /// Returns whether all parameters are whole on this rank between two steps.
  bool keeps_whole_parameters() const noexcept;
  /// The row under which the parameters are held.
  const DataRow& row() const noexcept;
  /// The option DataParallelOptions::gradients.
  ReduceOp gradient_reduction() const noexcept;
  /// The axis along which ranks own different parts. Empty: each rank owns everything.
  const std::string& sharded_axis() const noexcept;
  /// The memory of this object. The optimizer's state comes from it too.
  HeldMemory& memory() noexcept;
  const HeldBytes& held() const noexcept;
  /// The most that this rank will have held, without the optimizer. It counts whole gradients as in flight after the
  /// first no_sync(). It assumes two things of the engine. If units are gathered, the engine asks for the gradients of
  /// a unit within its backward pass. If they are not, the engine reports gradients before those that it has asked for
  /// fill the room. A step that is given up may take one exchange more.
  const MemoryPlan& planned() const noexcept;
  /// The graph of a step as it runs now.
  const StepGraph& graph() const noexcept;
  /// Lists what the optimizer of exchanges did to the graph (ExchangeReport::to_string). Times are those that the
  /// selector of this step's communicators predicts for host memory. Does not communicate.
  /// Cost: plans the step and its collectives again.
  std::string explain();

 private:
  void require_type(std::int32_t parameter, DType asked, bool is_gradient) const;
  template <class T>
  static std::span<T> elements_of(Buffer memory) noexcept {
    return {reinterpret_cast<T*>(memory.data), memory.bytes / sizeof(T)};
  }
  DataParallel(Mesh& mesh, std::vector<DataParameter> parameters, const Start& start, const DataRow& row,
               Allocate allocate, const DataParallelOptions& options, const std::source_location& where);

  std::unique_ptr<State> state_;
};

}  // namespace sinew::parallel

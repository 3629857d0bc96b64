#pragma once

#include <cstdint>
#include <map>
#include <source_location>
#include <string>
#include <vector>

#include <sinew/parallel/data_parallel/memory/coded_exchanges.hpp>
#include <sinew/parallel/data_parallel/memory/group_memory.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/data_parallel/memory/owned_part.hpp>
#include <sinew/parallel/data_parallel/memory/scatter_stage.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

namespace sinew::parallel {

/// The memory of all parameters and gradients of a row, and what the nodes of its graph do to this memory.
class StepMemory final : public StepActions {
 public:
  /// allocate, kept: as of HeldMemory.
  StepMemory(Mesh& mesh, const std::vector<DataParameter>& parameters, const DataRow& row, Allocate allocate,
             Allocate kept, const DataParallelOptions& options, const std::source_location& where);

  /// Makes a communicator of this step's own for each group along which it exchanges. Exchanges start whenever their
  /// inputs are ready, so on the mesh's communicators they would mix with calls of others. Collective.
  void make_groups(const StepGraph& graph);
  /// Ends the communicators of this step on all their ranks. The communicators of the mesh stay.
  void end_groups(const std::string& why);
  /// This step's communicator for the ranks of the mesh's group along `axes`. null: there is none.
  Communicator* group_along(std::string_view axes);
  /// Calls that all ranks make together.
  enum class Agreed : std::int64_t { Abandon, Checkpoint };
  /// Returns when all ranks have made this call. Collective.
  /// Errors: InvalidArgument naming a rank that makes the other call; as all_gather.
  void agree(Agreed call);
  /// As agree(). If the communicators of this step have ended, because a rank ended them for a reason, it makes new
  /// ones.
  void agree_or_regroup(Agreed call, const StepGraph& graph);
  /// Gives the first rank's `order` to all ranks. For rows that shard nothing.
  void take_from_first(std::vector<std::int32_t>& order);
  /// Lays parameters out by `groups`, and fills them with the values of this rank's elements.
  void place_values(const std::vector<std::vector<std::int32_t>>& groups, const InitialValues& initial);
  /// Lays gradients out by `groups`. Earlier gradients are lost.
  void place_gradients(const std::vector<std::vector<std::int32_t>>& groups);

  /// Reserves the memory that the plan says steps will need. From now on no more parameters may be gathered than
  /// planned.
  void keep_to(MemoryPlan plan);
  const MemoryPlan& planned() const noexcept { return plan_; }
  /// Returns whether memory that does not depend on the engine is held as planned.
  bool is_as_planned() const noexcept;
  /// This rank's index along the sharded axis.
  int index() const noexcept { return index_; }

  Buffer value(std::int32_t parameter) { return at(values_, value_places_, parameter); }
  /// Returns whether the whole parameter is here.
  bool has_value(std::int32_t parameter) const noexcept {
    return values_[value_places_[static_cast<std::size_t>(parameter)].group].memory.has_whole();
  }
  Buffer gradient(std::int32_t parameter) { return at(gradients_, gradient_places_, parameter); }
  /// The parts that this rank owns, by parameter, ascending.
  std::vector<OwnedPart> owned();
  /// The same parts without gradients.
  std::vector<OwnedPart> owned_values();
  /// Sets to zero the gradients that stay whole between steps, for the next step.
  void clear_gradients();
  /// Multiplies what error feedback has kept.
  void scale_residuals(double factor);
  /// Drops everything in flight, and the gradients that were added up.
  void abandon();
  /// Returns whether the whole gradient of the parameter is here.
  bool has_gradient(std::int32_t parameter) const noexcept {
    return gradients_[gradient_places_[static_cast<std::size_t>(parameter)].group].memory.has_whole();
  }
  /// Bytes of the gradients that are sent together with this one.
  std::int64_t gradient_bytes(std::int32_t parameter) const noexcept {
    return gradients_[gradient_places_[static_cast<std::size_t>(parameter)].group].memory.group().bytes();
  }
  HeldMemory& memory() noexcept { return memory_; }
  const HeldBytes& held() const noexcept { return memory_.held(); }

  Work start(const Node& exchange) override;
  void await(Work& work) override;
  void end(const Node& exchange) override;
  void free(const Node& node) override;

 private:
  struct Spot {
    std::size_t group = 0, member = 0;
  };
  /// A group of parameters or gradients that one exchange carries.
  struct Bucket {
    GroupMemory memory;
    std::string label;  ///< CallOptions::label of its exchanges: "bucket 2 of gradients ('a.w' and 3 more)"
  };

  /// The parts that this rank owns. `gradient(group, part)` returns the gradient of a part of the group with that
  /// index.
  template <class Gradient>
  std::vector<OwnedPart> owned_with(const Gradient& gradient);
  std::vector<Bucket> laid_out(const std::vector<std::vector<std::int32_t>>& groups, Held held, Purpose purpose,
                               std::vector<Spot>& places);
  Buffer at(std::vector<Bucket>& memory, const std::vector<Spot>& places, std::int32_t parameter);
  Bucket& bucket_of(TensorId tensor);
  GroupMemory& group_of(TensorId tensor) { return bucket_of(tensor).memory; }
  void require_room_for(const GroupMemory& parameters) const;
  /// Returns whether the exchange gathers int8 parameters from the shards of all ranks.
  bool gathers_codes(const Node& exchange) const noexcept;
  /// The stage of a sum of int4 gradients. null: the exchange is another one.
  const ScatterStage* scatter_stage_of(const Node& exchange);
  Work gather(const Node& exchange, Bucket& bucket, Communicator& ranks);
  /// For error feedback: replaces the gradients by the values that the codec sends for them, and keeps the rounding
  /// errors for the next step. Every `part_bytes` are encoded by themselves, as in the exchange.
  void feed_back_into(std::int32_t exchange, Buffer gradients, std::size_t part_bytes);

  Mesh* mesh_;
  std::source_location where_;                  // CallOptions::where of all calls
  std::map<std::string, Communicator> groups_;  // by axes; groups of one rank are absent
  const std::vector<DataParameter>* parameters_;
  DataAxis sharded_;
  int shards_ = 1, index_ = 0;  // along the sharded axis; without such an axis, the whole is one shard
  DataParallelOptions options_;
  HeldMemory memory_;
  CodedExchanges coded_{memory_};
  std::map<std::string, ScatterStage> stages_;  // by axes: of sums of int4 gradients
  MemoryPlan plan_;
  std::vector<Bucket> values_, gradients_;
  std::vector<Spot> value_places_, gradient_places_;     // by parameter
  std::map<std::int32_t, HeldMemory::Piece> residuals_;  // by exchange
};

}  // namespace sinew::parallel

#pragma once

#include <cstdint>
#include <map>
#include <source_location>
#include <string>
#include <vector>

#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/group_memory.hpp>
#include <sinew/parallel/data_parallel/memory_plan.hpp>
#include <sinew/parallel/step_graph/runner.hpp>

namespace sinew::parallel {

/// The memory of all parameters and gradients of a row, and what the nodes of its graph do to it.
class StepMemory final : public StepActions {
 public:
  StepMemory(Mesh& mesh, const std::vector<DataParameter>& parameters, const DataRow& row, Allocate allocate,
             const DataParallelOptions& options, const std::source_location& where);

  /// A communicator of this step's own for each group that exchanges go along: started whenever what they need is
  /// there, they would get between the calls that others make on the mesh's. Collective.
  void make_groups(const StepGraph& graph);
  /// Ends the communicators of this step, on all their ranks, and not those of the mesh.
  void end_groups(const std::string& why);
  /// The communicator of this step's own for the ranks of the mesh's group along `axes`; null: there is none.
  Communicator* group_along(std::string_view axes);
  /// The calls that all ranks make together.
  enum class Agreed : std::int64_t { Abandon, Checkpoint };
  /// Returns where all ranks make this call now. Collective.
  /// Errors: InvalidArgument naming a rank that makes the other call; as all_gather.
  void agree(Agreed call);
  /// The same, and makes new communicators where these have ended for a reason of somebody's.
  void agree_or_regroup(Agreed call, const StepGraph& graph);
  /// What the first rank has, on all ranks. Of rows that shard nothing.
  void take_from_first(std::vector<std::int32_t>& order);
  /// Lays parameters out by `groups`, with what this rank holds of their values.
  void place_values(const std::vector<std::vector<std::int32_t>>& groups, const InitialValues& initial);
  /// Lays gradients out; those that there were are gone.
  void place_gradients(const std::vector<std::vector<std::int32_t>>& groups);

  /// Takes what steps will have under way, and gathers no more than that from now on.
  void keep_to(MemoryPlan plan);
  const MemoryPlan& planned() const noexcept { return plan_; }
  /// Of what the engine has no part in.
  bool is_as_planned() const noexcept;
  /// Along the sharded axis.
  int index() const noexcept { return index_; }

  Buffer value(std::int32_t parameter) { return at(values_, value_places_, parameter); }
  /// Is the whole of it here?
  bool has_value(std::int32_t parameter) const noexcept {
    return values_[value_places_[static_cast<std::size_t>(parameter)].group].memory.has_whole();
  }
  Buffer gradient(std::int32_t parameter) { return at(gradients_, gradient_places_, parameter); }
  /// By parameter, ascending.
  std::vector<OwnedPart> owned();
  /// The same without gradients.
  std::vector<OwnedPart> owned_values();
  /// Gradients that are whole between steps start the next one from zero.
  void clear_gradients();
  /// What is under way, and what has been added up, is gone.
  void abandon();
  /// Is the whole of its gradient here?
  bool has_gradient(std::int32_t parameter) const noexcept {
    return gradients_[gradient_places_[static_cast<std::size_t>(parameter)].group].memory.has_whole();
  }
  /// Bytes of the gradients that travel with it.
  std::int64_t gradient_bytes(std::int32_t parameter) const noexcept {
    return gradients_[gradient_places_[static_cast<std::size_t>(parameter)].group].memory.group().bytes();
  }
  HeldMemory& memory() noexcept { return memory_; }
  const HeldBytes& held() const noexcept { return memory_.held(); }

  Work start(const Node& exchange) override;
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

  /// gradient(group, part, offset, bytes): the part's, which lies there in the group's shard.
  template <class Gradient>
  std::vector<OwnedPart> owned_with(const Gradient& gradient);
  std::vector<Bucket> laid_out(const std::vector<std::vector<std::int32_t>>& groups, Held held, Purpose purpose,
                               std::vector<Spot>& places);
  Buffer at(std::vector<Bucket>& memory, const std::vector<Spot>& places, std::int32_t parameter);
  Bucket& bucket_of(TensorId tensor);
  GroupMemory& group_of(TensorId tensor) { return bucket_of(tensor).memory; }
  void require_room_for(const GroupMemory& parameters) const;
  /// With error feedback: what is sent in place of these gradients, of which each part is coded by itself.
  void feed_back_into(std::int32_t exchange, Buffer gradients, std::size_t part_bytes);

  Mesh* mesh_;
  std::source_location where_;                  // CallOptions::where of all its calls
  std::map<std::string, Communicator> groups_;  // by axes; those of one rank are the mesh's
  const std::vector<DataParameter>* parameters_;
  DataAxis sharded_;
  int shards_ = 1, index_ = 0;  // along it; of rows that shard nothing the whole is one shard
  DataParallelOptions options_;
  HeldMemory memory_;
  MemoryPlan plan_;
  std::vector<Bucket> values_, gradients_;
  std::vector<Spot> value_places_, gradient_places_;     // by parameter
  std::map<std::int32_t, HeldMemory::Piece> residuals_;  // by exchange
};

}  // namespace sinew::parallel

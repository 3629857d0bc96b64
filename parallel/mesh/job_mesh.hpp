#pragma once

#include <memory>
#include <string_view>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/layout.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// The two arrangements of a Layout.
enum class Arrangement { Dense, Expert };

/// A kind of group that every job has, and what is sent in it.
struct JobGroup {
  std::string_view axes;
  Arrangement of;
  std::string_view carries;
};

/// In the order in which their communicators are made. A new strategy that needs another group adds a row.
/// Source: Megatron-LM, initialize_model_parallel.
inline constexpr JobGroup kJobGroups[] = {
    {"dp-cp", Arrangement::Dense, "gradients and shards of dense parameters"},
    {"dp", Arrangement::Dense, "what the data decide: losses of a batch, its tokens"},
    {"cp", Arrangement::Dense, "keys and values of a sequence"},
    {"tp-pp", Arrangement::Dense, "norms and overflow of a whole replica"},
    {"tp", Arrangement::Dense, "activations of tensor-parallel layers"},
    {"pp", Arrangement::Dense, "activations and their gradients from stage to stage"},
    {"tp-dp-cp", Arrangement::Dense, "scales and token counts of all that have one stage"},
    {"tp-dp", Arrangement::Dense, "the same for one part of the sequences"},
    {"tp-cp", Arrangement::Dense, "all tokens of a sequence: the router's statistics"},
    {"ep", Arrangement::Expert, "tokens to their experts and back"},
    {"etp", Arrangement::Expert, "activations inside an expert"},
    {"etp-ep", Arrangement::Expert, "tokens, where experts are cut"},
    {"etp-ep-pp", Arrangement::Expert, "norms and overflow of a replica's experts"},
    {"edp", Arrangement::Expert, "gradients and shards of experts"},
    {"ep-edp", Arrangement::Expert, "load of the experts"},
};

/// All communicators of a job that is laid out as in Megatron-LM. They are made at once, on all ranks in one order.
/// Thread:   the World's.
/// Lifetime: ends before the World.
/// Cost:     collective over `all`. A split for each row of kJobGroups, for each level of hierarchical context
///           parallelism and for the embedding, if it has more than one rank. One split for all others together. That
///           is at most 17 + levels splits, each an all_reduce of 4 KiB and an all_gather of 16 B. A job of dp alone
///           makes 7.
class SINEW_API JobMesh {
 public:
  /// `all` stays the caller's.
  /// Errors: InvalidArgument on all ranks alike, before anything is made, if ranks ask for different sizes, and as
  ///         Layout. Otherwise as split.
  JobMesh(Communicator& all, const LayoutSizes& sizes, const CallOptions& = {});

  const Layout& layout() const noexcept { return layout_; }
  int rank() const noexcept { return dense_.rank(); }
  /// The axes tp, cp, dp and pp, with the groups of Arrangement::Dense.
  Mesh& dense() noexcept { return dense_; }
  /// The axes etp, ep, edp and pp, with the groups of Arrangement::Expert. The communicator of a pipeline is
  /// dense().along("pp").
  Mesh& expert() noexcept { return expert_; }
  /// A level of hierarchical context parallelism; 0 is the innermost. If there is one level, it is dense().along("cp").
  /// Errors: InvalidArgument for a level that does not exist.
  Communicator& cp_level(int level);
  /// The first and the last stage of this rank's pipeline, between which the gradient of a shared word embedding is
  /// summed. It is empty on the ranks of other stages.
  Communicator& embedding() noexcept { return *embedding_; }
  /// The first stage alone. It is empty on the ranks of other stages.
  Communicator& position_embedding() noexcept { return *position_embedding_; }

 private:
  JobMesh(GroupMaker maker, Layout layout);

  Layout layout_;
  Mesh dense_, expert_, by_level_;  // by_level_ has no groups where there is one level
  std::shared_ptr<Communicator> embedding_, position_embedding_;
};

}  // namespace sinew::parallel

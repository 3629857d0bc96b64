#pragma once

#include <string>
#include <vector>

#include <sinew/core/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {

/// How many ways each kind of parallelism has. 0: what the others leave of the ranks (dp, edp).
struct LayoutSizes {
  int tp = 1;   ///< tensor
  int cp = 1;   ///< context
  int dp = 0;   ///< data
  int pp = 1;   ///< pipeline
  int ep = 1;   ///< expert: ranks that experts are spread over
  int etp = 1;  ///< tensor, inside an expert
  std::string order = "tp-cp-ep-dp-pp";
  /// Levels of hierarchical context parallelism, innermost first; their product is cp. Empty: one level.
  std::vector<int> cp_levels;
};

/// The same ranks arranged twice: `dense` (tp, cp, dp, pp) for attention and what all tokens share, `expert` (etp, ep,
/// edp, pp) for experts, etp in the place of tp in the order and edp in that of dp. A rank has the same pp index, and
/// the same ranks in its pipeline, in both.
/// Errors: InvalidArgument that lists every rule that is broken, with the nearest sizes that would do: ranks that are
///         no product of the sizes, dense or expert; an order that names an axis twice, none of that name, or not one
///         that is larger than 1; pipelines that differ in the two; levels whose product is not cp.
/// Source: Megatron-LM, parallel_state (two generators of groups over one world).
class SINEW_API Layout {
 public:
  Layout(int ranks, const LayoutSizes& sizes);

  const Factorisation& dense() const noexcept { return dense_; }
  const Factorisation& expert() const noexcept { return expert_; }

  /// Groups of each level of hierarchical context parallelism, level 0 first: with cp ranks 0..15 and levels 2, 2, 4:
  /// {0,1} {2,3}.., {0,2} {1,3} {4,6}.., {0,4,8,12} ...
  std::vector<std::vector<std::vector<int>>> cp_level_groups() const;
  /// Ranks that hold the word embedding: first and last of each pipeline, the one where it has one stage.
  std::vector<std::vector<int>> embedding_groups() const;
  /// Ranks that hold the position embedding: the first of each pipeline.
  std::vector<std::vector<int>> position_embedding_groups() const;

 private:
  Factorisation dense_, expert_;
  std::vector<int> cp_levels_;
};

}  // namespace sinew::parallel

#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

/// The same ranks arranged twice. `dense` (tp, cp, dp, pp) is for attention and whatever all tokens share. `expert`
/// (etp, ep, edp, pp) is for experts; in the order, etp takes the place of tp, and edp that of dp. A rank has the same
/// pp index, and the same ranks in its pipeline, in both.
/// Errors: InvalidArgument with every rule that is broken, and the nearest sizes that break none: layout_rules.hpp.
/// Source: Megatron-LM, parallel_state (two generators of groups over one world).
class SINEW_API Layout {
 public:
  Layout(int ranks, const LayoutSizes& sizes);

  const Factorisation& dense() const noexcept { return dense_; }
  const Factorisation& expert() const noexcept { return expert_; }
  /// `dense` with cp cut into its levels cp0, cp1, ... An example has cp ranks 0..15 and levels (2, 2, 4). The groups
  /// of cp0 are {0,1} {2,3}.. The groups of cp1 are {0,2} {1,3} {4,6}.. The groups of cp2 are {0,4,8,12}.. With one
  /// level cp0 is cp.
  const Factorisation& by_level() const noexcept { return by_level_; }
  int levels() const noexcept { return levels_; }

  /// The ranks that hold the word embedding: the first and the last of each pipeline. A pipeline of one stage has one
  /// such rank.
  std::vector<std::vector<int>> embedding_groups() const;
  /// The ranks that hold the position embedding: the first of each pipeline.
  std::vector<std::vector<int>> position_embedding_groups() const;

 private:
  Factorisation dense_, expert_, by_level_;
  int levels_;
};

}  // namespace sinew::parallel

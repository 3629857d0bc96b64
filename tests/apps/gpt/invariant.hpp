#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layouts.hpp"

namespace gpt::test {

/// The bits of a training run: of its losses and norms of gradients, and of all weights behind the last step, by path,
/// whole.
struct Bits {
  std::vector<std::uint64_t> losses, norms;
  std::map<std::string, std::vector<std::uint64_t>> weights;
};

/// Of a run on so many ranks, which are threads. changed: the rank whose text has other words; -1: none.
/// Errors: a rank whose losses have other bits than those of rank 0 fails the test, and so does a weight that no rank
///         has.
Bits train_for_bits(int ranks, const Options& options, int changed = -1);

/// How many layouts were compared with one process, and in what they differed.
struct Comparison {
  int runs = 0, differing = 0;
  std::string first;  ///< of those that differ: the layout, and what differs

  void add(const std::string& layout, const Bits& bits, const Bits& alone);
};

/// "4 ranks: dp 2 cp 1 (1 share heads) tp 2, zero 3, 2 passes, 2 replicas"
std::string layout_name(int ranks, const sinew::parallel::JobConfig& job);

/// Every layout of so many ranks over dp, cp, tp and pp that the rules admit: every number of ranks that share heads,
/// every schedule, with several stages on each rank where it has such, ZeRO 0 to 3, copies of what is sharded, 1 pass
/// or several.
std::vector<sinew::parallel::JobConfig> invariant_layouts(int ranks, const Options& options);

/// Models whose sums are layout-invariant: f32; f64 with shared heads, dropout and documents, recomputed; bf16 with
/// gradients of f32.
std::vector<std::pair<std::string, Options>> invariant_models();

}  // namespace gpt::test

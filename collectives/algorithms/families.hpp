#pragma once

#include <span>

#include <sinew/collectives/algorithms/algorithm.hpp>

namespace sinew {

// One file of this folder each: an algorithm for one or several collectives, with what it costs.
std::span<const Algorithm> bidirectional_ring_family() noexcept;
std::span<const Algorithm> binomial_family() noexcept;
std::span<const Algorithm> binomial_parts_family() noexcept;
std::span<const Algorithm> bruck_family() noexcept;
std::span<const Algorithm> bruck_all_to_all_family() noexcept;
std::span<const Algorithm> chain_family() noexcept;
std::span<const Algorithm> direct_family() noexcept;
std::span<const Algorithm> dissemination_family() noexcept;
std::span<const Algorithm> double_binary_tree_family() noexcept;
std::span<const Algorithm> halving_doubling_family() noexcept;
std::span<const Algorithm> pairwise_family() noexcept;
std::span<const Algorithm> recursive_doubling_family() noexcept;
std::span<const Algorithm> ring_family() noexcept;

/// Any number of ranks, for programs that add in an order of their own: refused where the canonical order is needed.
Availability any_ranks(const CollectiveDesc& desc, int ranks);
/// The same for programs that add by the canonical tree: nothing is refused.
Availability any_ranks_in_order(const CollectiveDesc& desc, int ranks);
/// The same for programs that fold neighbours into a power of two of places (folded_core.hpp) and add by a tree over
/// these: the canonical one where each whole subtree has pairs, or none, so on 2^a or 2^a - 2^b ranks.
Availability folded_in_order(const CollectiveDesc& desc, int ranks);
/// Any number of ranks, but no v-form: for programs that move runs of parts, or keep parts of others for a while. In a
/// v-form parts need not lie side by side, and whose counts are local knows no other rank's.
Availability parts_in_runs(const CollectiveDesc& desc, int ranks);
/// The same on a power of two of ranks.
Availability power_of_two_ranks(const CollectiveDesc& desc, int ranks);

constexpr int floor_log2(int n) noexcept { return n < 2 ? 0 : 1 + floor_log2(n / 2); }
constexpr int ceil_log2(int n) noexcept { return n < 2 ? 0 : 1 + floor_log2(n - 1); }
constexpr bool is_power_of_two(int n) noexcept { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace sinew

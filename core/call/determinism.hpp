#pragma once

#include <optional>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// "fast", "reproducible", "layout_invariant".
SINEW_API std::string_view name_of(Determinism level) noexcept;
SINEW_API std::optional<Determinism> determinism_from_name(std::string_view name) noexcept;

/// Do the bits of a result depend on the order in which contributions combine? Those of integers, of min and max do
/// not, with any built-in operator.
constexpr bool order_shows(const CollectiveDesc& desc) noexcept {
  if (!reduces(desc.collective)) return false;
  if (desc.op == ReduceOp::User) return true;
  return !is_integer(desc.dtype) && desc.op != ReduceOp::Min && desc.op != ReduceOp::Max;
}

/// Must contributions combine by the canonical tree (canonical_tree.hpp)? On two ranks every order is that one.
constexpr bool needs_canonical_order(const CollectiveDesc& desc, int ranks) noexcept {
  return desc.determinism != Determinism::Fast && ranks > 2 && order_shows(desc);
}

/// Of LayoutInvariant: has each rank an aligned power of two of the leaf blocks (leaf_blocks.hpp), and does the
/// operator keep to the tree? Average divides by a number of ranks, and PreMulSum scales the sums of ranks, not leaves:
/// both would show the layout. Yes for the other levels.
SINEW_API Availability fits_leaf_blocks(const CollectiveDesc& desc, int ranks);

}  // namespace sinew

#include <bit>

#include <fmt/format.h>

#include <sinew/core/base/names.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/leaf_blocks.hpp>

namespace sinew {
namespace {

constexpr Spelling<Determinism> kDeterminismNames[] = {{"fast", Determinism::Fast},
                                                       {"reproducible", Determinism::Reproducible},
                                                       {"layout_invariant", Determinism::LayoutInvariant},
                                                       {"layout-invariant", Determinism::LayoutInvariant}};

}  // namespace

std::string_view name_of(Determinism level) noexcept { return find_name(kDeterminismNames, level); }
std::optional<Determinism> determinism_from_name(std::string_view name) noexcept {
  return find_value(kDeterminismNames, name);
}

Availability fits_leaf_blocks(const CollectiveDesc& desc, int ranks) {
  if (desc.determinism != Determinism::LayoutInvariant || !reduces(desc.collective)) return Availability::yes();
  if (desc.op == ReduceOp::Average || desc.op == ReduceOp::PreMulSum)
    return Availability::no(fmt::format(
        "operator {} depends on how many ranks share the work; expected a sum, of leaves scaled before or of a result "
        "scaled after",
        name_of(desc.op)));
  if (!order_shows(desc)) return Availability::yes();
  if (ranks > kLeafBlocks || !std::has_single_bit(static_cast<unsigned>(ranks)))
    return Availability::no(
        fmt::format("{} ranks cannot hold aligned ranges of the {} leaf blocks of a layout-invariant sum; expected a "
                    "power of two of "
                    "ranks, {} at most",
                    ranks, kLeafBlocks, kLeafBlocks));
  return Availability::yes();
}

}  // namespace sinew

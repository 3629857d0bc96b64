#pragma once

#include <cstdint>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/simulator/symmetry.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// Whether two ranks do the same, each seen from where it is. InOrder: step by step, after the same steps. InAnyOrder:
/// the same messages in the same order to and from each peer, and as much to compute. Lengths may differ by an element
/// per chunk.
enum class Likeness : std::uint8_t { InOrder, InAnyOrder };

/// Of two ranks of one kind.
bool are_alike(const CollectiveDesc& desc, const Program& a, const Program& b, const Symmetry& symmetry,
               Likeness likeness);

}  // namespace sinew

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// What buffers one rank brings to a call. Units: bytes.
struct CallShape {
  std::optional<std::size_t> in;   ///< none: this rank gives nothing, and `in` is not looked at
  std::optional<std::size_t> out;  ///< none: it receives nothing, and `out` is not looked at
  bool in_exact = true;            ///< not exact: at least so many
  bool out_exact = true;
  std::size_t in_at = 0;   ///< in place: where `in` begins in `out`
  std::size_t out_at = 0;  ///< in place: where `out` begins in `in`
};

/// Of the collectives that CollectiveDesc describes completely: all but those with local counts.
/// Errors: InvalidArgument where sizes overflow, or shared counts are not one per rank.
SINEW_API CallShape call_shape(const CollectiveDesc& desc, int rank, int ranks);

/// How a call's buffers lie.
struct Placing {
  bool in_place = false;
  Place place{};
};
/// Errors: InvalidArgument naming the buffer, what was found and what was expected.
SINEW_API Placing require_shape(std::string_view call, const CallShape& shape, ConstBuffer in, Buffer out);

/// Bytes from a buffer's begin to the end of its last part.
/// `written`: parts must not overlap, as each is received.
/// Errors: InvalidArgument where there is not one count per rank, a part's end overflows, or parts overlap.
/// Cost:     linear in the ranks where displacements ascend, else a sort.
SINEW_API std::size_t require_parts(std::string_view call, std::string_view name, const Parts& parts, DType dtype,
                                    int ranks, bool written);

}  // namespace sinew

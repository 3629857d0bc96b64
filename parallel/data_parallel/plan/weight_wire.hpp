#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>

namespace sinew::parallel {

/// The encoding of sharded parameters while they are gathered.
enum class WeightWire : std::uint8_t {
  Plain,  ///< as they are
  /// Blocks of 256 whole numbers from -127 to 127 with an f32 scale, as Codec::Int8. A block begins at the begin of
  /// each shard. All ranks compute with the decoded values, also the rank that owns the shard, so that their gathered
  /// parameters have the same bits. The shards themselves, which the optimizer updates, are never rounded. A block
  /// that has an infinite element, a NaN, or an element of f64 that is too large for f32, is gathered as NaN.
  /// Source: qwZ of ZeRO++ (Wang et al., arXiv 2306.10209).
  Int8,
};

/// "plain", "int8".
SINEW_API std::string_view name_of(WeightWire wire) noexcept;

/// Every reason why the parameters of this row cannot be gathered this way, in words. Empty: they can.
SINEW_API std::vector<std::string> violations_of(WeightWire wire, Determinism determinism, const DataRow& row);

}  // namespace sinew::parallel

#include <algorithm>

#include <sinew/core/call/cost_model.hpp>

namespace sinew {
namespace {

/// Cost curves are measured in rounds in which both ranks send and receive. In a broadcast or scatter a rank either
/// sends or receives. Messages of up to kAheadMessages bytes are eager, so their sender waits for nobody, and calls
/// that follow each other overlap. The start of such a message and each of its bytes take these fractions of the
/// curve's time.
constexpr double kAheadMessages = 8 << 10;
constexpr double kAheadStart = 0.6;
constexpr double kAheadBytes = 0.4;

/// A long message comes from memory even if its segments are short. So the slower of both rates counts.
Seconds per_byte_on_curve(const CostCurve& curve, const Transfer& what) noexcept {
  return std::max(curve.per_byte_s(what.bytes), curve.per_byte_s(what.bytes / what.segments));
}

/// The time per byte on the resource that leaves the least bandwidth to each of its sharers.
Seconds per_byte_on_way(const InlineVector<Passage, 6>& passes, const Sharers& sharers) noexcept {
  Seconds longest = 0;
  for (const Passage& p : passes) longest = std::max(longest, sharers[p.resource] / p.bytes_per_s);
  return longest;
}

}  // namespace

std::string_view name_of(CostSource source) noexcept {
  switch (source) {
    case CostSource::TunedFile: return "tuned file";
    case CostSource::Measured: return "measured";
    case CostSource::Catalog: return "catalog";
    case CostSource::Default: return "default";
  }
  return "";
}

/// Ranks that share a core take turns at each end of a message. Bytes between hosts move without a core.
TransferCost CostModel::transfer(const Transfer& what) const {
  const LinkCost way = link(what.from, what.to);
  const bool ahead = what.one_way && what.bytes <= kAheadMessages;
  const double turns = what.sharers[Resource::Core];
  const Seconds per_byte =
      way.passes.empty() ? per_byte_on_curve(way.alone, what) : per_byte_on_way(way.passes, what.sharers);
  return {.start_s = turns * way.alone.seconds(0) * (ahead ? kAheadStart : 1),
          .per_byte_s = (way.leaves_host ? 1 : turns) * per_byte * (ahead ? kAheadBytes : 1)};
}

}  // namespace sinew

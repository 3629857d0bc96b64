#include <algorithm>

#include <sinew/core/call/cost_model.hpp>

namespace sinew {
namespace {

/// A curve is that of a round in which both ranks send and wait. Who takes part in a broadcast or scatter does one of
/// the two, and messages that are sent without asking wait for nobody: such calls follow each other so much faster.
constexpr double kAheadMessages = 8 << 10;
constexpr double kAheadStart = 0.6;
constexpr double kAheadBytes = 0.4;

/// What is long in all comes from memory, whatever its segments are.
Seconds per_byte_on_curve(const CostCurve& curve, const Transfer& what) noexcept {
  return std::max(curve.per_byte_s(what.bytes), curve.per_byte_s(what.bytes / what.segments));
}

/// The resource that gives least to each of its sharers.
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

/// Ranks that share a core take turns at each end of a message. What is on its way between hosts needs no core.
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

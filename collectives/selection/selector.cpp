#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/selection/candidates.hpp>
#include <sinew/collectives/selection/group_costs.hpp>
#include <sinew/collectives/selection/prediction.hpp>
#include <sinew/collectives/selection/selector.hpp>
#include <sinew/collectives/staging/segments.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

Availability supported_by(const CollectiveOffload& offload, const CollectiveDesc& desc) {
  if (const Availability can = offload.supports(desc); !can.ok || !desc.captured) return can;
  return offload.supports_capture();
}

}  // namespace

Selector::Selector(const Facts& facts, std::vector<int> world_ranks, std::span<NamedOffload> offloads,
                   const std::vector<int>& numa_nodes)
    : facts_(facts), offloads_(offloads), shape_(facts, std::move(world_ranks), numa_nodes), sets_(facts, shape_) {}

const std::string& Selector::transport_between(const TransportSet& set, int a, int b) const {
  static const std::string kNone;
  const auto entry = set.by_class.find(facts_.class_of(shape_.world_ranks[static_cast<std::size_t>(a)],
                                                       shape_.world_ranks[static_cast<std::size_t>(b)]));
  return entry == set.by_class.end() ? kNone : entry->second;
}

/// Device memory by what is best on host memory, in pieces; copies and exchanges overlap.
Option Selector::staged_option(const CollectiveDesc& desc) const {
  Option option{.candidate = {"staged", "*", "", 0, facts_.no_device}, .staged = true};
  if (desc.captured && facts_.no_device.empty())
    option.candidate.rejected = "the host copies each piece, and a graph is replayed without the host";
  if (!option.candidate.rejected.empty()) return option;
  const int ranks = shape_.ranks();
  const bool agrees = has_local_counts(desc.collective);
  const std::uint64_t known = size_to_select_by(desc, ranks);
  const StagedSegments segments =
      agrees ? StagedSegments::of(kStagedSegmentBytes, known) : staged_segments(desc, ranks);
  std::vector<std::uint64_t> counts;
  const CollectiveDesc segment = staged_segment(desc, segments, 0, counts);
  const Selection inside = select(segment);
  const Candidate& way = inside.plan.chosen();
  const std::uint64_t copied = agrees ? std::min(known, kStagedSegmentBytes) : segment.bytes(ranks);
  const GroupCosts costs(facts_, shape_.world_ranks, inside.transports);
  const Seconds copy =
      costs.call_s(MemoryKind::Device) + costs.local_s({LocalStep::PinnedCopy, static_cast<double>(copied)});
  const std::string pieces =
      agrees ? fmt::format("in as many pieces of at most {} as the ranks agree on", format_bytes(kStagedSegmentBytes))
             : fmt::format("{} x {}", segments.count, format_bytes(copied));
  option.candidate.transport = way.transport;
  option.candidate.method = fmt::format("through pinned host memory, {}: {}{}{}", pieces, way.algorithm,
                                        way.method.empty() ? "" : ", ", way.method);
  option.candidate.predicted = 2 * copy + static_cast<double>(segments.count) * std::max(way.predicted, copy);
  if (agrees) option.candidate.predicted += select(kStagedAgreement).plan.chosen().predicted;
  return option;
}

std::vector<Option> Selector::options(const CollectiveDesc& desc) const {
  std::vector<Option> all;
  CollectiveDesc sized = desc;
  if (has_unknown_size(desc)) sized.largest_bytes = kUnknownBytes;
  for (NamedOffload& o : offloads_) {
    Option option{.candidate = {std::string(o.offload->name()), o.transport, "", 0, ""}, .offload = &o};
    const Availability can =
        desc.separate ? Availability::no("takes one buffer, not a list") : supported_by(*o.offload, desc);
    if (can.ok) {
      option.candidate.predicted = o.offload->predict(sized);
      const bool is_measured = facts_.measured_offloads.contains(o.transport);
      option.candidate.source = is_measured ? CostSource::Measured : o.offload->source();
      option.candidate.method = o.offload->describe(desc);
    } else {
      option.candidate.rejected = can.reason;
    }
    all.push_back(std::move(option));
  }
  if (desc.place.kind == MemoryKind::Device) {
    all.push_back(staged_option(desc));
    return all;
  }
  const Predictor predictor(facts_, shape_);
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective != desc.collective) continue;
    const Availability can = a.supports(desc, shape_.ranks());
    if (!can.ok) {
      all.push_back({.candidate = {std::string(a.name), "*", "", 0, can.reason}});
      continue;
    }
    std::ranges::move(predictor.flat(desc, a, sets_.usable()), std::back_inserter(all));
    if (shape_.ranks() == 1) {  // one copies as well as another
      all.back().candidate.method = "nothing goes anywhere";
      return all;
    }
  }
  for (const TransportSet& s : sets_.usable()) {
    if (shape_.hosts > 1) all.push_back(predictor.hierarchical(desc, s));
  }
  for (const Candidate& c : sets_.rejected()) all.push_back({.candidate = c});
  return all;
}

/// A message has no choice: each pair takes the cheapest way between its two.
Selection Selector::select_message(const CollectiveDesc& desc) const {
  const int ranks = shape_.ranks();
  if (cheapest().by_class.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: no transport leads from rank to rank in this group of {}", desc.to_string(), ranks));
  }
  Candidate message{"message", cheapest().label, "", 0, ""};
  const GroupCosts costs(facts_, shape_.world_ranks, cheapest());
  for (const auto& [where, from, to] : shape_.pairs) {
    if (!cheapest().by_class.contains(where)) continue;
    const Seconds takes = costs.link(from, to).alone.seconds(static_cast<double>(desc.bytes(ranks)));
    message.predicted = std::max(message.predicted, takes);
  }
  message.source = costs.source();
  if (desc.place.kind == MemoryKind::Device) message.method = "device memory through pinned memory, where need be";
  Selection selection;
  selection.transports = cheapest();
  selection.plan = Plan(desc, ranks, {message}, "the cheapest between each two", facts_.source);
  return selection;
}

Selection Selector::select(const CollectiveDesc& desc) const {
  if (is_message(desc.collective)) return select_message(desc);
  const int ranks = shape_.ranks();
  if (const Availability fits = fits_leaf_blocks(desc, ranks); !fits.ok)
    throw Error(Code::InvalidArgument, fmt::format("{}: {}", desc.to_string(), fits.reason));
  const Candidates candidates(desc, size_to_select_by(desc, ranks), facts_, shape_, options(desc));
  std::string reason = candidates.reason();
  if (has_unknown_size(desc)) reason += fmt::format(", for {} as no bound was given", format_bytes(kUnknownBytes));
  const Option& chosen = candidates.chosen();
  Selection selection;
  selection.offload = chosen.offload;
  selection.recipe = chosen.recipe;
  selection.staged = chosen.staged;
  if (chosen.transports != nullptr) selection.transports = *chosen.transports;
  selection.segmentation = segmentation_on(selection.transports, shape_, chosen.scratch);
  selection.plan = Plan(desc, ranks, candidates.list(), reason, candidates.source());
  return selection;
}

}  // namespace sinew

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include <sinew/collectives/selection/selector.hpp>
#include <sinew/collectives/staging/cut.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Predictions this close to each other are a tie: measurements of one machine differ by as much from day to day.
constexpr double kResolution = 1.15;
/// Ways that move the same bytes over the same links in as many rounds are predicted as close to each other as that;
/// up to so many bytes the number of messages, which predictions leave out within a round, tells them apart.
constexpr double kEqual = 1.01;
constexpr std::uint64_t kFewBytes = 8 << 10;
/// Enqueueing a copy and seeing that it is over.
constexpr Seconds kDeviceTurn = 10e-6;

/// A caller that gives no bound has more than a few bytes, or would know.
constexpr std::uint64_t kUnknownBytes = 1 << 20;

bool has_unknown_size(const CollectiveDesc& desc) {
  return has_local_counts(desc.collective) && desc.largest_bytes == 0;
}

std::string first_obstacle(const Facts& facts, const std::vector<LinkClass>& classes, const std::string& transport) {
  for (const LinkClass& c : classes) {
    const Reach* reach = facts.link(c, transport);
    if (reach == nullptr) return "was not opened";
    if (!reach->ok) return reach->reason;
  }
  return {};
}

}  // namespace

Selector::Selector(const Facts& facts, std::vector<int> world_ranks, std::span<NamedOffload> offloads,
                   const std::vector<int>& numa_nodes)
    : facts_(facts), world_ranks_(std::move(world_ranks)), offloads_(offloads) {
  std::set<LinkClass> classes;
  for (std::size_t i = 0; i < world_ranks_.size(); ++i) {
    for (std::size_t j = i + 1; j < world_ranks_.size(); ++j) {
      classes.insert(facts_.class_of(world_ranks_[i], world_ranks_[j]));
    }
  }
  classes_.assign(classes.begin(), classes.end());
  std::map<int, int> ranks_on;
  for (const int r : world_ranks_) {
    const Facts::Rank& rank = facts_.ranks[static_cast<std::size_t>(r)];
    ++ranks_on[rank.host];
    nic_of_.push_back(rank.nic);
  }
  std::vector<int> shape;
  for (const auto& [host, here] : ranks_on) {
    shape.push_back(here);
    const double turns = static_cast<double>(here) / facts_.cores_of_host[static_cast<std::size_t>(host)];
    if (turns <= turns_) continue;
    turns_ = turns;
    crowd_ = here;
  }
  tuned_ = !facts_.tuned.ways.empty() && facts_.tuned.ranks_on == shape;
  if (world_ranks_.size() == 1) {
    sets_.push_back({"none", {}});
    return;
  }
  find_levels(numa_nodes);
  for (const std::string& t : facts_.transports) {
    if (const std::string why = first_obstacle(facts_, classes_, t); !why.empty()) {
      unusable_sets_.push_back({"*", t, "", 0, why});
      continue;
    }
    TransportSet set{t, {}};
    for (const LinkClass& c : classes_) set.by_class.emplace(c, t);
    complete(set);
    sets_.push_back(std::move(set));
  }
  cheapest_ = cheapest_set(4096);  // not a page: a message between small and large
  const bool mixed = std::ranges::none_of(sets_, [&](const TransportSet& s) { return s.label == cheapest_.label; });
  if (mixed && cheapest_.by_class.size() == classes_.size()) sets_.push_back(cheapest_);
}

std::uint64_t Selector::size_to_select_by(const CollectiveDesc& desc) const {
  return has_unknown_size(desc) ? kUnknownBytes : desc.bytes(static_cast<int>(world_ranks_.size()));
}

TransportSet Selector::cheapest_set(double bytes) const {
  TransportSet set;
  std::set<std::string> names;
  for (const LinkClass& c : classes_) {
    const Facts::Link* best = nullptr;
    for (const Facts::Link& l : facts_.links.at(c)) {
      if (l.reach.ok && (best == nullptr || l.reach.cost.seconds(bytes) < best->reach.cost.seconds(bytes))) best = &l;
    }
    if (best == nullptr) continue;
    set.by_class.emplace(c, best->transport);
    names.insert(best->transport);
  }
  for (const std::string& n : names) set.label += set.label.empty() ? n : "+" + n;
  complete(set);
  return set;
}

void Selector::complete(TransportSet& set) const {
  set.by_nic = true;
  for (const auto& [where, transport] : set.by_class) {
    if (where.host_a == where.host_b) continue;
    set.by_nic = set.by_nic && facts_.by_nic.contains(transport);
    set.most_scratch = std::max(set.most_scratch, scratch_to_fill(facts_.link(where, transport)->cost));
  }
}

Cutting Selector::cutting_on(const TransportSet& set, std::uint64_t scratch_bytes) const noexcept {
  return {.segment_bytes = kCutting.segment_bytes,
          .depth = hosts_ > 1 ? kDepthAcrossHosts : kCutting.depth,
          .scratch_bytes = scratch_bytes,
          .most_scratch = set.most_scratch};
}

const std::string& Selector::transport_between(const TransportSet& set, int a, int b) const {
  static const std::string kNone;
  const auto entry = set.by_class.find(
      facts_.class_of(world_ranks_[static_cast<std::size_t>(a)], world_ranks_[static_cast<std::size_t>(b)]));
  return entry == set.by_class.end() ? kNone : entry->second;
}

/// Device memory by what is best on host memory, in pieces; copies and exchanges overlap.
Selector::Option Selector::staged_option(const CollectiveDesc& desc) const {
  Option option{.candidate = {"staged", "*", "", 0, facts_.no_device}, .staged = true};
  if (!facts_.no_device.empty()) return option;
  const int ranks = static_cast<int>(world_ranks_.size());
  const bool agrees = has_local_counts(desc.collective);
  const std::uint64_t known = size_to_select_by(desc);
  const StagedCut cut = agrees ? StagedCut::of(kStagedPieceBytes, known) : staged_cut(desc, ranks);
  std::vector<std::uint64_t> counts;
  const CollectiveDesc piece = staged_piece(desc, cut, 0, counts);
  const Selection inside = select(piece);
  const Candidate& way = inside.plan.chosen();
  const std::uint64_t copied = agrees ? std::min(known, kStagedPieceBytes) : piece.bytes(ranks);
  const Seconds copy = kDeviceTurn + static_cast<double>(copied) / facts_.device_copy_bytes_per_s;
  const std::string pieces =
      agrees ? fmt::format("in as many pieces of at most {} as the ranks agree on", format_bytes(kStagedPieceBytes))
             : fmt::format("{} x {}", cut.pieces, format_bytes(copied));
  option.candidate.transport = way.transport;
  option.candidate.way = fmt::format("through pinned host memory, {}: {}{}{}", pieces, way.algorithm,
                                     way.way.empty() ? "" : ", ", way.way);
  option.candidate.predicted = 2 * copy + static_cast<double>(cut.pieces) * std::max(way.predicted, copy);
  if (agrees) option.candidate.predicted += select(kStagedAgreement).plan.chosen().predicted;
  return option;
}

std::vector<Selector::Option> Selector::options(const CollectiveDesc& desc) const {
  std::vector<Option> all;
  const int ranks = static_cast<int>(world_ranks_.size());
  CollectiveDesc sized = desc;
  if (has_unknown_size(desc)) sized.largest_bytes = kUnknownBytes;
  for (NamedOffload& o : offloads_) {
    Option option{.candidate = {std::string(o.offload->name()), o.transport, "", 0, ""}, .offload = &o};
    const Availability can =
        desc.separate ? Availability::no("takes one buffer, not a list") : o.offload->supports(desc);
    if (can.ok) {
      option.candidate.predicted = o.offload->predict(sized);
      option.candidate.way = o.offload->describe(desc);
    } else {
      option.candidate.rejected = can.reason;
    }
    all.push_back(std::move(option));
  }
  if (desc.place.kind == MemoryKind::Device) {
    all.push_back(staged_option(desc));
    return all;
  }
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective != desc.collective) continue;
    const Availability can = a.supports(desc, ranks);
    if (!can.ok) {
      all.push_back({.candidate = {std::string(a.name), "*", "", 0, can.reason}});
      continue;
    }
    add_options(desc, a, all);
    if (ranks == 1) {  // one copies as well as another
      all.back().candidate.way = "nothing goes anywhere";
      return all;
    }
  }
  for (const TransportSet& s : sets_) {
    if (hosts_ > 1) all.push_back(composed_option(desc, s));
  }
  for (const Candidate& c : unusable_sets_) all.push_back({.candidate = c});
  return all;
}

namespace {

/// As far beyond the sizes that were timed their times say something.
constexpr double kBeyond = 2;
/// Times the best: how slow a way is, at least, where tune has stopped timing it (tools/bench/tune.cpp).
constexpr double kGivenUp = 4;

/// The largest size at which ways of a collective were timed: those of an algorithm on a transport, or, where that is
/// empty, any; 0: never.
double last_timed(const TunedTimes& times, std::string_view collective, std::string_view algorithm,
                  std::string_view transport) {
  double last = 0;
  for (const TunedTimes::Way& w : times.ways) {
    const bool is_it = algorithm.empty() || (w.algorithm == algorithm && w.transport == transport);
    if (w.collective == collective && is_it) last = std::max(last, w.points.back().bytes);
  }
  return last;
}

}  // namespace

bool Selector::use_tuned(const CollectiveDesc& desc, std::vector<Option>& options) const {
  if (!tuned_ || desc.determinism != Determinism::Fast || desc.codec != Codec::None ||
      desc.place.kind == MemoryKind::Device)
    return false;
  const auto bytes = static_cast<double>(size_to_select_by(desc));
  const std::string_view collective = name_of(desc.collective);
  // Of longer calls the file knows nothing.
  if (bytes > kBeyond * last_timed(facts_.tuned, collective, {}, {})) return false;
  const auto known = [&](const Candidate& c) {
    const bool reaches = bytes <= kBeyond * last_timed(facts_.tuned, collective, c.algorithm, c.transport);
    return reaches ? facts_.tuned.seconds(collective, c.algorithm, c.transport, bytes) : std::nullopt;
  };
  Seconds best = std::numeric_limits<Seconds>::infinity();
  for (const Option& o : options) {
    if (o.candidate.rejected.empty()) best = std::min(best, known(o.candidate).value_or(best));
  }
  bool is_used = false;
  for (Option& o : options) {
    Candidate& c = o.candidate;
    const double last = last_timed(facts_.tuned, collective, c.algorithm, c.transport);
    if (!c.rejected.empty() || last == 0) continue;
    is_used = true;
    if (!c.way.empty()) c.way += ", ";
    if (const auto seconds = known(c)) {
      c.predicted = *seconds;
      c.way += "timed by tune";
    } else {
      c.predicted = std::max(c.predicted, kGivenUp * best);
      c.way += fmt::format("given up by tune after {}", format_bytes(static_cast<std::uint64_t>(last)));
    }
  }
  return is_used;
}

/// Does this name stand for an offload that takes memory of devices alone? Known of ours where they are not open, too.
bool Selector::serves_devices_only(const std::string& name) const {
  if (name == "cuda_ipc" || name == "nccl") return true;
  const auto takes = [](const NamedOffload& o, MemoryKind kind) {
    return o.offload->supports({.collective = Collective::AllReduce, .dtype = DType::F32, .place = {kind, 0}}).ok;
  };
  return std::ranges::any_of(offloads_, [&](const NamedOffload& o) {
    return o.offload->name() == name && takes(o, MemoryKind::Device) && !takes(o, MemoryKind::Host);
  });
}

bool Selector::apply_rules(const CollectiveDesc& desc, std::vector<Option>& options, std::string& reason) const {
  if (world_ranks_.size() == 1) return false;  // nothing goes anywhere: no rule is for that
  const std::uint64_t bytes = size_to_select_by(desc);
  for (const Rule& rule : facts_.rules) {
    const bool applies = (rule.collective == "*" || rule.collective == name_of(desc.collective)) &&
                         bytes >= rule.min_bytes && bytes <= rule.max_bytes;
    if (!applies) continue;
    const bool for_devices = serves_devices_only(rule.algorithm);
    if (for_devices && desc.place.kind != MemoryKind::Device) continue;
    reason = fmt::format("the user's rule {}:{}-{}:{}@{}", rule.collective, rule.min_bytes,
                         rule.max_bytes == UINT64_MAX ? "" : fmt::format("{}", rule.max_bytes), rule.algorithm,
                         rule.transport);
    for (Option& o : options) {
      if (o.staged && !for_devices) continue;  // the rule has its say over what runs inside
      Candidate& c = o.candidate;
      const bool fits = (rule.algorithm == "*" || rule.algorithm == c.algorithm) &&
                        (rule.transport == "*" || rule.transport == c.transport);
      if (!fits && c.rejected.empty()) c.rejected = reason;
    }
    return rule.algorithm != "*";
  }
  return false;
}

void Selector::keep_scratch_short(std::vector<Option>& options) {
  for (Option& o : options) {
    if (!o.whole || !o.candidate.rejected.empty() || o.scratch <= o.transports->most_scratch) continue;
    o.candidate.rejected = fmt::format("would hold {} beside the buffers, more than {}", format_bytes(o.scratch),
                                       format_bytes(o.transports->most_scratch));
  }
}

/// A message has no choice: each pair takes the cheapest way between its two.
Selection Selector::select_message(const CollectiveDesc& desc) const {
  const int ranks = static_cast<int>(world_ranks_.size());
  if (cheapest_.by_class.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: no transport leads from rank to rank in this group of {}", desc.to_string(), ranks));
  }
  Candidate message{"message", cheapest_.label, "", 0, ""};
  for (const auto& [where, transport] : cheapest_.by_class) {
    const CostCurve& cost = facts_.link(where, transport)->cost;
    message.predicted = std::max(message.predicted, cost.seconds(static_cast<double>(desc.bytes(ranks))));
  }
  if (desc.place.kind == MemoryKind::Device) message.way = "device memory through pinned memory, where need be";
  Selection selection;
  selection.transports = cheapest_;
  selection.plan = Plan(desc, ranks, {message}, "the cheapest between each two", facts_.source);
  return selection;
}

Selection Selector::select(const CollectiveDesc& desc) const {
  if (is_message(desc.collective)) return select_message(desc);
  if (const Availability fits = fits_leaf_blocks(desc, static_cast<int>(world_ranks_.size())); !fits.ok)
    throw Error(Code::InvalidArgument, fmt::format("{}: {}", desc.to_string(), fits.reason));
  std::vector<Option> all = options(desc);
  std::string source = facts_.source;
  if (use_tuned(desc, all)) source += fmt::format("; timed by tune: {}", facts_.tuned.file);
  std::string reason = "the least predicted time";
  if (!apply_rules(desc, all, reason)) keep_scratch_short(all);
  std::ranges::stable_sort(all, [](const Option& a, const Option& b) {
    const Candidate& x = a.candidate;
    const Candidate& y = b.candidate;
    if (x.rejected.empty() != y.rejected.empty()) return x.rejected.empty();
    return std::tie(x.predicted, x.algorithm, x.transport) < std::tie(y.predicted, y.algorithm, y.transport);
  });
  if (all.empty() || !all.front().candidate.rejected.empty()) {
    std::string text = fmt::format("{}: nothing can run it on these {} ranks", desc.to_string(), world_ranks_.size());
    const bool is_ruled = std::ranges::any_of(all, [&](const Option& o) { return o.candidate.rejected == reason; });
    if (is_ruled) text += " under " + reason;
    std::vector<std::string> ruled_out;
    for (const Option& o : all) {
      const Candidate& c = o.candidate;
      if (c.rejected == reason) {
        ruled_out.push_back(fmt::format("{}@{}", c.algorithm, c.transport));
      } else {
        text += fmt::format("; {}@{}: {}", c.algorithm, c.transport, c.rejected);
      }
    }
    if (is_ruled) text += fmt::format("; without it there are {}", fmt::join(ruled_out, ", "));
    throw Error(Code::InvalidArgument, text);
  }
  const Seconds least = all.front().candidate.predicted;
  if (size_to_select_by(desc) <= kFewBytes) {
    const auto equals = std::ranges::find_if(
        all, [&](const Option& o) { return !o.candidate.rejected.empty() || o.candidate.predicted > least * kEqual; });
    const auto shortest = std::ranges::min_element(all.begin(), equals, {}, &Option::messages);
    std::rotate(all.begin(), shortest, shortest + 1);
  }
  const auto offload = std::ranges::find_if(all, [&](const Option& o) {
    return o.offload != nullptr && o.candidate.rejected.empty() && o.candidate.predicted <= least * kResolution;
  });
  if (offload != all.end() && offload != all.begin()) {
    reason = "predicted as fast as the best, within what predictions tell, and one step for the whole call";
    std::rotate(all.begin(), offload, offload + 1);
  }
  if (has_unknown_size(desc)) reason += fmt::format(", for {} as no bound was given", format_bytes(kUnknownBytes));
  Selection selection;
  selection.offload = all.front().offload;
  selection.recipe = all.front().recipe;
  selection.staged = all.front().staged;
  if (all.front().transports != nullptr) selection.transports = *all.front().transports;
  selection.cutting = cutting_on(selection.transports, all.front().scratch);
  std::vector<Candidate> candidates;
  for (Option& o : all) candidates.push_back(std::move(o.candidate));
  selection.plan = Plan(desc, static_cast<int>(world_ranks_.size()), std::move(candidates), reason, source);
  return selection;
}

}  // namespace sinew

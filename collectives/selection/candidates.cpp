#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/selection/candidates.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew {
namespace {

/// Predictions this close to each other are a tie: measurements of one machine differ by as much from day to day.
constexpr double kResolution = 1.15;
/// Ways that move the same bytes over the same links in as many rounds are predicted as close to each other as that;
/// up to so many bytes the number of messages, which predictions leave out within a round, tells them apart.
constexpr double kEqual = 1.01;
constexpr std::uint64_t kFewBytes = 8 << 10;
/// No run on several hosts has confirmed what is predicted for the device hierarchy, while NCCL's model is held against
/// published runs. So the hierarchy must be predicted to be this much faster than NCCL before it is taken instead.
constexpr double kUnconfirmed = 1.5;
/// As far beyond the sizes that were timed their times say something.
constexpr double kBeyond = 2;
/// Times the best: how slow a way is, at least, where tune has stopped timing it (tools/bench/tune.cpp).
constexpr double kGivenUp = 4;

/// The largest size at which ways of a collective were timed on memory of these devices, or of the host: those of an
/// algorithm on a transport, or, where that is empty, any; 0: never.
double last_timed(const TunedTimes& times, std::string_view collective, std::string_view devices,
                  std::string_view algorithm = {}, std::string_view transport = {}) {
  double last = 0;
  for (const TunedTimes::Way& w : times.ways) {
    const bool is_it = algorithm.empty() || (w.algorithm == algorithm && w.transport == transport);
    if (w.collective == collective && w.devices == devices && is_it) last = std::max(last, w.points.back().bytes);
  }
  return last;
}

void add_to_method(Candidate& candidate, std::string_view text) {
  if (!candidate.method.empty()) candidate.method += ", ";
  candidate.method += text;
}

}  // namespace

Candidates::Candidates(const CollectiveDesc& desc, std::uint64_t bytes, const Facts& facts, const GroupShape& shape,
                       std::vector<Option> options)
    : desc_(desc), bytes_(bytes), facts_(facts), shape_(shape), options_(std::move(options)), source_(facts.source) {
  if (desc.place.kind == MemoryKind::Device) devices_ = device_kind(facts.devices_of(shape.world_ranks));
  if (use_seen()) source_ += "; calls of earlier jobs on such devices";
  if (use_tuned()) source_ += fmt::format("; timed by tune: {}", facts_.tuned.file);
  if (!apply_rules()) keep_scratch_short();
  sort();
  if (options_.empty() || !options_.front().candidate.rejected.empty()) refuse();
  break_ties();
}

std::vector<Candidate> Candidates::list() const {
  std::vector<Candidate> all;
  for (const Option& o : options_) all.push_back(o.candidate);
  return all;
}

/// Times of calls that differ in an operator, a codec or the order of their sums hold for none of the others.
bool Candidates::is_usual() const noexcept {
  return desc_.determinism == Determinism::Fast && desc_.codec == Codec::None;
}

bool Candidates::use_seen() {
  if (facts_.seen.devices.empty() || facts_.seen.devices != devices_ || !is_usual()) return false;
  bool is_used = false;
  for (Option& o : options_) {
    Candidate& c = o.candidate;
    if (!c.rejected.empty()) continue;
    const SeenTimes::Call call{shape_.ranks_on, std::string(name_of(desc_.collective)), c.algorithm, c.transport};
    const auto seconds = facts_.seen.seconds(call, bytes_);
    if (!seconds) continue;
    is_used = true;
    c.predicted = *seconds;
    c.source = CostSource::Measured;
    add_to_method(c, "as earlier jobs saw it");
  }
  return is_used;
}

bool Candidates::use_tuned() {
  if (facts_.tuned.ways.empty() || facts_.tuned.ranks_on != shape_.ranks_on || !is_usual()) return false;
  if (desc_.place.kind == MemoryKind::Device && devices_.empty()) return false;
  const auto bytes = static_cast<double>(bytes_);
  const std::string_view collective = name_of(desc_.collective);
  // Of longer calls the file knows nothing.
  if (bytes > kBeyond * last_timed(facts_.tuned, collective, devices_)) return false;
  const auto known = [&](const Candidate& c) {
    const bool reaches = bytes <= kBeyond * last_timed(facts_.tuned, collective, devices_, c.algorithm, c.transport);
    return reaches ? facts_.tuned.seconds(collective, c.algorithm, c.transport, bytes, devices_) : std::nullopt;
  };
  Seconds best = std::numeric_limits<Seconds>::infinity();
  for (const Option& o : options_) {
    if (o.candidate.rejected.empty()) best = std::min(best, known(o.candidate).value_or(best));
  }
  bool is_used = false;
  for (Option& o : options_) {
    Candidate& c = o.candidate;
    const double last = last_timed(facts_.tuned, collective, devices_, c.algorithm, c.transport);
    if (!c.rejected.empty() || last == 0) continue;
    is_used = true;
    if (const auto seconds = known(c)) {
      c.predicted = *seconds;
      c.source = CostSource::TunedFile;
      add_to_method(c, "timed by tune");
    } else {
      c.predicted = std::max(c.predicted, kGivenUp * best);
      add_to_method(c, fmt::format("given up by tune after {}", format_bytes(static_cast<std::uint64_t>(last))));
    }
  }
  return is_used;
}

bool Candidates::has(std::string_view algorithm) const {
  return std::ranges::any_of(options_, [&](const Option& o) { return o.candidate.algorithm == algorithm; });
}

/// Does this name stand for an offload that takes memory of devices alone? Known of ours where they are not open, too.
bool Candidates::serves_devices_only(std::string_view name) const {
  const auto ours = device_offload_names();
  if (name == kDeviceHierarchy || std::ranges::find(ours, name) != ours.end()) return true;
  const auto takes = [](const NamedOffload& o, MemoryKind kind) {
    return o.offload->supports({.collective = Collective::AllReduce, .dtype = DType::F32, .place = {kind, 0}}).ok;
  };
  return std::ranges::any_of(options_, [&](const Option& o) {
    return o.offload != nullptr && o.candidate.algorithm == name && takes(*o.offload, MemoryKind::Device) &&
           !takes(*o.offload, MemoryKind::Host);
  });
}

bool Candidates::apply_rules() {
  if (shape_.ranks() == 1) return false;  // nothing goes anywhere: no rule is for that
  for (const Rule& rule : facts_.rules) {
    const bool applies = (rule.collective == "*" || rule.collective == name_of(desc_.collective)) &&
                         bytes_ >= rule.min_bytes && bytes_ <= rule.max_bytes;
    if (!applies) continue;
    // The rule is for groups that have a device hierarchy. The parts of a hierarchy have none.
    if (rule.algorithm == kDeviceHierarchy && !has(kDeviceHierarchy)) continue;
    const bool for_devices = serves_devices_only(rule.algorithm);
    if (for_devices && desc_.place.kind != MemoryKind::Device) continue;
    reason_ = fmt::format("the user's rule {}:{}-{}:{}@{}", rule.collective, rule.min_bytes,
                          rule.max_bytes == UINT64_MAX ? "" : fmt::format("{}", rule.max_bytes), rule.algorithm,
                          rule.transport);
    for (Option& o : options_) {
      if (o.staged && !for_devices) continue;  // the rule has its say over what runs inside
      Candidate& c = o.candidate;
      const bool fits = (rule.algorithm == "*" || rule.algorithm == c.algorithm) &&
                        (rule.transport == "*" || rule.transport == c.transport);
      if (!fits && c.rejected.empty()) c.rejected = reason_;
    }
    return rule.algorithm != "*";
  }
  return false;
}

void Candidates::keep_scratch_short() {
  for (Option& o : options_) {
    if (!o.whole || !o.candidate.rejected.empty() || o.scratch <= o.transports->most_scratch) continue;
    o.candidate.rejected = fmt::format("would hold {} beside the buffers, more than {}", format_bytes(o.scratch),
                                       format_bytes(o.transports->most_scratch));
  }
}

void Candidates::sort() {
  std::ranges::stable_sort(options_, [](const Option& a, const Option& b) {
    const Candidate& x = a.candidate;
    const Candidate& y = b.candidate;
    if (x.rejected.empty() != y.rejected.empty()) return x.rejected.empty();
    return std::tie(x.predicted, x.algorithm, x.transport) < std::tie(y.predicted, y.algorithm, y.transport);
  });
}

void Candidates::refuse() const {
  std::string text = fmt::format("{}: nothing can run it on these {} ranks", desc_.to_string(), shape_.ranks());
  const bool is_ruled = std::ranges::any_of(options_, [&](const Option& o) { return o.candidate.rejected == reason_; });
  if (is_ruled) text += " under " + reason_;
  std::vector<std::string> ruled_out;
  for (const Option& o : options_) {
    const Candidate& c = o.candidate;
    if (c.rejected == reason_) {
      ruled_out.push_back(fmt::format("{}@{}", c.algorithm, c.transport));
    } else {
      text += fmt::format("; {}@{}: {}", c.algorithm, c.transport, c.rejected);
    }
  }
  if (is_ruled) text += fmt::format("; without it there are {}", fmt::join(ruled_out, ", "));
  if (desc_.captured) {
    text +=
        "; CallOptions::after is being captured into a graph, and what runs there must be one that can be captured: "
        "make the call before or after the capture";
  }
  throw Error(Code::InvalidArgument, text);
}

void Candidates::break_ties() {
  const Seconds least = options_.front().candidate.predicted;
  if (bytes_ <= kFewBytes) {
    const auto equals = std::ranges::find_if(options_, [&](const Option& o) {
      return !o.candidate.rejected.empty() || o.candidate.predicted > least * kEqual;
    });
    const auto shortest = std::ranges::min_element(options_.begin(), equals, {}, &Option::messages);
    std::rotate(options_.begin(), shortest, shortest + 1);
  } else if (shape_.hosts > 1) {
    const auto hierarchical = std::ranges::find_if(options_, [&](const Option& o) {
      return o.candidate.algorithm == kHierarchical && o.candidate.rejected.empty() &&
             o.candidate.predicted <= least * kResolution;
    });
    if (hierarchical != options_.end() && hierarchical != options_.begin()) {
      reason_ = "predicted as fast as the best, within what predictions tell, and few messages leave each host";
      std::rotate(options_.begin(), hierarchical, hierarchical + 1);
    }
  }
  const Option& best = options_.front();
  if (best.whole && best.recipe && best.recipe->hierarchical() != nullptr && bytes_ > kFewBytes) {
    const auto straight = std::ranges::find_if(options_, [&](const Option& o) {
      return o.recipe && !o.whole && o.candidate.rejected.empty() && o.candidate.predicted <= least * kResolution;
    });
    if (straight != options_.end()) {
      reason_ = "predicted as fast as the best, within what predictions tell, and no block passes through other ranks";
      std::rotate(options_.begin(), straight, straight + 1);
    }
  }
  const auto is_tied = [&](const Option& o) {
    const bool is_one_step = o.offload != nullptr && o.candidate.algorithm != kDeviceHierarchy;
    return is_one_step && o.candidate.rejected.empty() && o.candidate.predicted <= least * kResolution;
  };
  const auto confirmed = std::ranges::find_if(options_, [&](const Option& o) {
    return o.offload != nullptr && o.candidate.rejected.empty() && !o.offload->offload->needs_progress() &&
           o.candidate.predicted <= least * kUnconfirmed;
  });
  const Candidate& first = options_.front().candidate;
  if (first.algorithm == kDeviceHierarchy && first.source > CostSource::Measured && confirmed != options_.end()) {
    reason_ = fmt::format("less than {} times as slow as {}, which is predicted from rates that no run has confirmed",
                          kUnconfirmed, kDeviceHierarchy);
    std::rotate(options_.begin(), confirmed, confirmed + 1);
    return;
  }
  auto offload = std::ranges::find_if(
      options_, [&](const Option& o) { return is_tied(o) && !o.offload->offload->needs_progress(); });
  if (offload == options_.end()) offload = std::ranges::find_if(options_, is_tied);
  if (offload != options_.end() && offload != options_.begin()) {
    reason_ = "predicted as fast as the best, within what predictions tell, and one step for the whole call";
    std::rotate(options_.begin(), offload, offload + 1);
  }
}

}  // namespace sinew

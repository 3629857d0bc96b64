#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/hierarchy/near_order.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/schedule/sized_messages.hpp>
#include <sinew/collectives/selection/group_costs.hpp>
#include <sinew/collectives/selection/prediction.hpp>

namespace sinew {
namespace {

/// Of one host's ranks, counted in their programs.
struct Footprint {
  std::uint64_t leaving = 0;  ///< bytes for other hosts
  std::uint64_t by_nic = 0;   ///< of them, of the NIC that sends most
  double messages = 0;        ///< that leave, of the one that sends most
  std::uint64_t scratch = 0;  ///< bytes beside the buffers, of the one that holds most
  std::uint64_t copied = 0;   ///< bytes within a rank, of the one that copies most
  std::uint64_t largest = 0;  ///< bytes of a chunk
  // Of all ranks of the host together: what they send, and what of it leaves.
  double sends = 0, sends_leaving = 0;
  double handled = 0;                 ///< messages sent and received
  double sent = 0, sent_leaving = 0;  ///< bytes
  double fewest = 0;                  ///< messages, of the rank that sends fewest
  double most_leaving = 0;            ///< part of a rank's bytes, of the one of which most leaves
};

std::uint64_t bytes_of(const CollectiveDesc& desc, const Program& program, const ChunkTable& chunks, Slice s) {
  const auto& row = s.space == Space::In ? chunks.in : s.space == Space::Out ? chunks.out : chunks.scratch;
  std::uint64_t sum = 0;
  for (std::uint32_t c = s.first; c < s.first + s.count; ++c) {
    const std::uint32_t its_class = s.space == Space::Scratch ? program.scratch_class[c] : 0;
    sum += chunk_bytes(its_class, row[c].count, desc.codec, size_of(desc.dtype));
  }
  return sum;
}

/// Returns the call that a v-form with local counts is taken for: its plain form, with as many bytes in equal parts.
/// Other calls are returned as they are.
CollectiveDesc with_equal_parts(const CollectiveDesc& desc, int ranks) {
  if (!has_local_counts(desc.collective)) return desc;
  CollectiveDesc equal = desc;
  equal.collective = plain_form(desc.collective);
  equal.count = size_to_select_by(desc, ranks) / static_cast<std::uint64_t>(ranks) / size_of(desc.dtype);
  return equal;
}

/// `host`: places of its ranks, ascending; `nic_of`: by place.
Footprint footprint_of(const Recipe& recipe, const CollectiveDesc& desc, const std::vector<int>& host,
                       const std::vector<int>& nic_of) {
  const int ranks = static_cast<int>(nic_of.size());
  Footprint found;
  std::map<int, std::uint64_t> sent_by;
  const CollectiveDesc equal = with_equal_parts(desc, ranks);
  for (const int rank : host) {
    const Program program = recipe.build(desc, rank, ranks, false);
    const ChunkTable chunks = chunk_table(equal, program);
    double messages = 0, sends = 0, sent = 0, leaving = 0;
    std::uint64_t copied = 0;
    for (const Step& s : program.steps) {
      if (s.op == Op::Copy) copied += bytes_of(desc, program, chunks, s.dst);
      if (s.peer >= 0) ++found.handled;
      if (s.op != Op::Send) continue;
      const std::uint64_t bytes = bytes_of(desc, program, chunks, s.a);
      ++sends;
      sent += static_cast<double>(bytes);
      if (std::ranges::binary_search(host, s.peer)) continue;
      sent_by[nic_of[static_cast<std::size_t>(rank)]] += bytes;
      leaving += static_cast<double>(bytes);
      ++messages;
    }
    found.sends += sends;
    found.sends_leaving += messages;
    found.sent += sent;
    found.sent_leaving += leaving;
    found.fewest = rank == host.front() ? sends : std::min(found.fewest, sends);
    if (sent > 0) found.most_leaving = std::max(found.most_leaving, leaving / sent);
    found.messages = std::max(found.messages, messages);
    found.copied = std::max(found.copied, copied);
    found.largest = chunks.largest * size_of(desc.dtype);
    const auto all = static_cast<std::uint32_t>(chunks.scratch.size());
    found.scratch = std::max(found.scratch, bytes_of(desc, program, chunks, {Space::Scratch, 0, all}));
  }
  for (const auto& [nic, bytes] : sent_by) {
    found.leaving += bytes;
    found.by_nic = std::max(found.by_nic, bytes);
  }
  return found;
}

/// "in the order 0 2 1 3": of many ranks the first ones.
std::string order_text(const std::vector<int>& order) {
  constexpr std::size_t kMostNamed = 16;
  const std::span<const int> named = std::span(order).first(std::min(order.size(), kMostNamed));
  return fmt::format("in the order {}{}", fmt::join(named, " "), named.size() < order.size() ? " ..." : "");
}

/// Of a message, what its elements are on the way.
double on_wire(Codec codec, double bytes) {
  if (codec == Codec::None) return bytes;
  return static_cast<double>(wire_bytes(codec, static_cast<std::uint64_t>(bytes / sizeof(float))));
}

}  // namespace

bool has_unknown_size(const CollectiveDesc& desc) {
  return has_local_counts(desc.collective) && desc.largest_bytes == 0;
}

std::uint64_t size_to_select_by(const CollectiveDesc& desc, int ranks) {
  return has_unknown_size(desc) ? kUnknownBytes : desc.bytes(ranks);
}

/// Segments of a pipelined algorithm follow each other without a pause. Other algorithms run as many segments at a time
/// as may be in flight, and then the next ones.
Predictor::Times Predictor::on_links(const CollectiveDesc& desc, const AlgorithmCost& cost, double bytes,
                                     const CostModel& costs, Links links, const Segments& segmented,
                                     const Leaving& leaving) const {
  if (cost.rounds == 0) return {};
  const double wire = on_wire(desc.codec, bytes);
  const double most = std::max(cost.sent, cost.received);
  const double message = wire * cost.serial / cost.rounds;
  const double segments = segmented.count;
  struct Slowest {
    Seconds start = 0, a_byte = 0;
    bool is_there = false;
  };
  Slowest inside_hosts, across_hosts;
  for (const auto& [where, from, to] : shape_.pairs) {
    const bool inside = where.host_a == where.host_b;
    if (links != Links::All && inside != (links == Links::InsideHosts)) continue;
    const TransferCost takes = costs.transfer({.from = from,
                                               .to = to,
                                               .bytes = message,
                                               .segments = segments,
                                               .one_way = is_from_root(desc.collective),
                                               .sharers = Sharers().set(Resource::Core, shape_.turns)});
    Slowest& link = inside ? inside_hosts : across_hosts;
    link.is_there = true;
    link.start = std::max(link.start, takes.start_s);
    link.a_byte = std::max(link.a_byte, takes.per_byte_s);
  }
  const auto mixed = [&](double part_leaving, Seconds Slowest::*figure) {
    if (!across_hosts.is_there) return inside_hosts.*figure;
    if (!inside_hosts.is_there) return across_hosts.*figure;
    return part_leaving * across_hosts.*figure + (1 - part_leaving) * inside_hosts.*figure;
  };
  const Seconds start = mixed(leaving.messages, &Slowest::start);
  const Seconds busy_byte = mixed(leaving.of_busiest, &Slowest::a_byte);
  const Seconds busy = most * wire * busy_byte;
  const Seconds chain =
      std::max(cost.rounds * start + cost.fan * cost.serial * wire * mixed(leaving.bytes, &Slowest::a_byte) / segments,
               start + busy / segments);
  // Those under way come in together and go on together: a rank does one or the other, a link both at once.
  const Seconds each = 2 * start / segmented.depth +
                       (across_hosts.is_there ? most : cost.sent + cost.received) * wire * busy_byte / segments;
  const double coded = desc.codec == Codec::None ? 0 : cost.sent + cost.received;
  const auto on_core = [&](LocalStep step, double times) {
    return costs.local_s({.step = step, .bytes = shape_.turns * times * bytes, .dtype = desc.dtype});
  };
  const Seconds reduced = on_core(LocalStep::Reduce, cost.reduced) + on_core(LocalStep::Code, coded);
  return {.busy = (cost.pipelined ? chain + (segments - 1) * each : start + busy) + reduced,
          .in_turns = segments / segmented.depth * chain + (cost.pipelined ? 0 : reduced),
          .across = across_hosts.is_there ? most * wire * across_hosts.a_byte * leaving.of_busiest : 0};
}

Seconds Predictor::sending(double messages, const CostModel& costs, Links links) const {
  Seconds slowest = 0;
  for (const auto& [where, from, to] : shape_.pairs) {
    const bool inside = where.host_a == where.host_b;
    if (inside == (links == Links::InsideHosts)) slowest = std::max(slowest, costs.link(from, to).alone.overhead_s);
  }
  return messages * slowest;
}

Seconds Predictor::crossing(std::uint64_t leaving, const CostModel& costs) const {
  Seconds slowest = 0;
  for (const auto& [where, from, to] : shape_.pairs) {
    if (where.host_a == where.host_b) continue;
    slowest = std::max(slowest, costs.link(from, to).alone.moving_s(static_cast<double>(leaving)));
  }
  return slowest;
}

double Predictor::part_of_nic(const CollectiveDesc& desc, const TransportSet& set) const {
  if (is_from_root(desc.collective) || desc.collective == Collective::Reduce) return 1;  // one rank of each host
  return set.by_nic ? shape_.busiest_nic : 1;
}

std::vector<Option> Predictor::flat(const CollectiveDesc& desc, const Algorithm& algorithm,
                                    const std::vector<TransportSet>& sets) const {
  std::vector<Option> options;
  const int ranks = shape_.ranks();
  const AlgorithmCost cost = algorithm.cost(desc, ranks);
  const auto bytes = static_cast<double>(size_to_select_by(desc, shape_.ranks()));
  const bool coded = desc.codec != Codec::None;
  const std::vector<int> last{ranks - 1};  // runs of chunks go round its end
  const bool reorders = !shape_.order.empty() && Ordered::supports(algorithm, desc, ranks).ok;
  const Recipe recipe = reorders ? Recipe(Ordered{&algorithm, shape_.order}) : Recipe(algorithm);
  const Footprint found =
      footprint_of(recipe, desc, shape_.hosts > 1 || coded ? shape_.largest_host : last, shape_.nic_of);
  const double scaled = reduces(desc.collective) && desc.op == ReduceOp::PreMulSum ? 1 : 0;
  const std::uint64_t scratch = coded ? found.scratch : static_cast<std::uint64_t>((cost.scratch + scaled) * bytes);
  std::string way = reorders ? order_text(shape_.order) : "";
  if (coded) way += fmt::format("{}messages in {}", way.empty() ? "" : ", ", name_of(desc.codec));
  // Where all ranks send in all rounds, chains lead through all of them alike, unless a round has several messages, of
  // which the last to come counts; else the longest chain may leave all the time.
  Leaving leaving;
  if (found.sends > 0 && found.fewest >= cost.rounds) {
    const bool one_by_one = found.sends <= cost.rounds * static_cast<double>(shape_.largest_host.size());
    if (one_by_one) leaving.messages = found.sends_leaving / found.sends;
    if (one_by_one && found.sent > 0) leaving.bytes = found.sent_leaving / found.sent;
    leaving.of_busiest = found.most_leaving;
  }
  for (const TransportSet& set : sets) {
    const GroupCosts costs(facts_, shape_.world_ranks, set);
    const Segments segmented =
        cost.whole ? Segments{} : segments_of(segmentation_on(set, shape_, scratch), found.largest, desc.codec);
    const Times times = on_links(desc, cost, bytes, costs, Links::All, segmented, leaving);
    // Copies cost nothing while messages move. But runs of chunks must be copied together before they are sent.
    const Seconds copying = cost.whole ? costs.local_s({LocalStep::Copy, static_cast<double>(found.copied)}) : 0;
    const Seconds busy =
        (cost.pipelined ? times.busy : std::max(times.busy, times.in_turns)) +
        shape_.turns * (sending(std::max(found.messages - cost.rounds, 0.0), costs, Links::AcrossHosts) + copying);
    const Seconds leaves = crossing(set.by_nic ? found.by_nic : found.leaving, costs);
    const Seconds waits = std::max(leaves - times.across, 0.0) / segmented.count;  // for ranks that share its NIC
    const Seconds predicted = cost.rounds == 0
                                  ? costs.local_s({LocalStep::Copy, bytes})
                                  : std::max(busy + waits + cost.rounds * shape_.crowd * kSchedulerTurn, leaves);
    options.push_back({.candidate = {std::string(algorithm.name), set.label, way, predicted, "", costs.source()},
                       .recipe = recipe,
                       .transports = &set,
                       .whole = cost.whole,
                       .scratch = scratch,
                       .messages = found.handled});
  }
  return options;
}

/// Who runs at which place of a composition, and on how much.
template <class Add>
void Predictor::for_each_stage(const CollectiveDesc& desc, const HierarchicalAlgorithm& how, const Add& add) const {
  const int here = static_cast<int>(shape_.largest_host.size());
  if (desc.collective == Collective::AllReduce) {
    add(Collective::ReduceScatter, how.inside, here, Links::InsideHosts);
    add(Collective::AllGather, how.inside, here, Links::InsideHosts);
  } else {
    add(desc.collective, how.inside, here, Links::InsideHosts);
  }
  add(desc.collective, how.across, shape_.hosts, Links::AcrossHosts);
}

/// What runs inside hosts and across them one after the other where the call is one piece; the more pieces, the more
/// of it overlaps, but each goes through all of it, and so many at a time.
Predictor::Times Predictor::predict(const CollectiveDesc& desc, const HierarchicalAlgorithm& how,
                                    const TransportSet& set, const CostModel& costs, const Segments& segmented) const {
  const bool sized = has_local_counts(desc.collective);  // then the size of each block travels with the block
  const auto bytes = static_cast<double>(size_to_select_by(desc, shape_.ranks())) +
                     (sized ? static_cast<double>(shape_.ranks()) * sizeof(std::uint64_t) : 0);
  Seconds all = 0, longest = 0;
  Times found;
  double rounds = 0;
  for_each_stage(desc, how, [&](Collective collective, std::string_view name, int ranks, Links links) {
    CollectiveDesc stage = desc;
    stage.collective = collective;
    if (links == Links::InsideHosts) stage.codec = Codec::None;
    const AlgorithmCost cost = find_algorithm(collective, name)->cost(stage, ranks);
    const double on_one = links == Links::AcrossHosts ? bytes * part_of_nic(desc, set) : bytes;
    Times times = on_links(stage, cost, on_one, costs, links, segmented, {});
    if (sized && bytes * cost.serial > SizedMessages::kHeadBytes)
      times.busy += sending(static_cast<double>(ranks - 1), costs, links);  // the rest of each message
    all += times.busy;
    longest = std::max(longest, times.busy);
    found.in_turns += times.in_turns;
    found.across += times.across;
    rounds += cost.rounds;
  });
  found.busy =
      std::max(longest + (all - longest) / segmented.count, found.in_turns) + rounds * shape_.crowd * kSchedulerTurn;
  return found;
}

/// Of its stages together, before its programs are built.
std::uint64_t Predictor::scratch_of(const CollectiveDesc& desc, const HierarchicalAlgorithm& how,
                                    const TransportSet& set) const {
  const auto bytes = static_cast<double>(size_to_select_by(desc, shape_.ranks()));
  double scratch = 0;
  for_each_stage(desc, how, [&](Collective collective, std::string_view name, int ranks, Links links) {
    CollectiveDesc stage = desc;
    stage.collective = collective;
    const double part = links == Links::AcrossHosts ? part_of_nic(desc, set) : 1;
    scratch += find_algorithm(collective, name)->cost(stage, ranks).scratch * bytes * part;
  });
  return static_cast<std::uint64_t>(scratch);
}

Option Predictor::hierarchical(const CollectiveDesc& desc, const TransportSet& set) const {
  const int ranks = shape_.ranks();
  const GroupCosts costs(facts_, shape_.world_ranks, set);
  Option best{.candidate = {std::string(kHierarchical), set.label, "", 0, "", costs.source()}, .transports = &set};
  std::string reason = "there is no composition of this collective";
  best.whole = moves_runs(desc.collective);
  const std::uint64_t part = size_to_select_by(desc, shape_.ranks()) / static_cast<std::uint64_t>(ranks);
  std::optional<HierarchicalAlgorithm> taken;
  for (const Algorithm& inside : all_algorithms()) {
    if (inside.collective != first_inside(desc.collective)) continue;
    for (const Algorithm& across : all_algorithms()) {
      if (across.collective != desc.collective) continue;
      const HierarchicalAlgorithm how{shape_.levels, inside.name, across.name};
      if (const Availability can = how.supports(desc, ranks); !can.ok) {
        if (!taken) reason = can.reason;
        continue;
      }
      const Segments likely =
          best.whole ? Segments{}
                     : segments_of(segmentation_on(set, shape_, scratch_of(desc, how, set)), part, desc.codec);
      const Seconds time = predict(desc, how, set, costs, likely).busy;
      if (taken && time >= best.candidate.predicted) continue;
      taken = how;
      best.candidate.predicted = time;
    }
  }
  if (!taken) {
    best.candidate.rejected = reason;
    return best;
  }
  best.recipe = *taken;
  const Footprint held = footprint_of(*best.recipe, desc, shape_.largest_host, shape_.nic_of);
  best.scratch = held.scratch;
  const Segments segmented =
      best.whole ? Segments{} : segments_of(segmentation_on(set, shape_, held.scratch), held.largest, desc.codec);
  const double counted = find_algorithm(desc.collective, taken->across)->cost(desc, shape_.hosts).rounds;
  const Times times = predict(desc, *taken, set, costs, segmented);
  // Runs of chunks are copied together before they are sent, and they wait for ranks that share their NIC. Segments
  // hide both.
  const Seconds leaves = crossing(set.by_nic ? held.by_nic : held.leaving, costs);
  const Seconds copying = best.whole ? costs.local_s({LocalStep::Copy, static_cast<double>(held.copied)}) : 0;
  const Seconds waits = best.whole ? std::max(leaves - times.across, 0.0) : 0;
  const Seconds busy =
      times.busy + waits +
      shape_.turns * (sending(std::max(held.messages - counted, 0.0), costs, Links::AcrossHosts) + copying);
  best.candidate.predicted = std::max(busy, leaves);
  best.candidate.method =
      fmt::format("{} inside hosts, {} across {} of them{}{}", taken->inside, taken->across, shape_.hosts,
                  desc.codec == Codec::None ? "" : fmt::format(" in {}", name_of(desc.codec)),
                  has_local_counts(desc.collective) ? ", blocks with their sizes" : "");
  return best;
}

}  // namespace sinew

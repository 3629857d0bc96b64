#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/transports/shm/model/chunking.hpp>
#include <sinew/transports/shm/model/tree.hpp>
#include <sinew/transports/shm/offload/choices.hpp>

namespace sinew::shm {
namespace {

constexpr std::array kModelledCollectives{Collective::AllReduce, Collective::Broadcast, Collective::Reduce,
                                          Collective::Barrier, Collective::AllGather};

std::size_t row_of(Collective c) noexcept {
  return static_cast<std::size_t>(std::ranges::find(kModelledCollectives, c) - kModelledCollectives.begin());
}

bool is_tree(Protocol p) noexcept { return p == Protocol::Tree || p == Protocol::TreeChunks; }

/// Measurements on 2 ranks tell the instructions of a call and the rate of copies. An all_reduce of 8 bytes is one call
/// with a line that goes each way. In an all_reduce of 1 MiB, each rank copies and reads its bytes once.
HostCosts costs_of(const Levels& levels, const Facts& facts) {
  constexpr std::size_t kMiBKnot = 6;
  constexpr Seconds kLeastCall = 30e-9;
  HostCosts costs = usual_costs(levels);
  costs.call_s = std::max(kLeastCall, facts.knot_seconds[0] - 2 * costs.line_s[0]);
  costs.step_s = kStepOfCall * costs.call_s;
  costs.copy_bytes_per_s = 2 * Facts::kKnotBytes[kMiBKnot] / facts.knot_seconds[kMiBKnot];
  costs.most_bytes_per_s = std::max(costs.most_bytes_per_s, costs.copy_bytes_per_s);
  return costs;
}

ModelCall model_call(const CollectiveDesc& desc, std::uint64_t bytes, const Facts& facts) noexcept {
  return {desc.collective, bytes, has_root(desc.collective) ? desc.root : 0,
          of_family(facts.chunk_bytes, desc.collective)};
}

}  // namespace

Choices::Choices(Levels levels, const Facts& facts)
    : ranks_(levels.ranks()), facts_(facts), costs_(levels, costs_of(levels, facts)) {
  if (ranks_ > 2 && facts.tree_from_ranks == 0 && static_cast<std::uint64_t>(ranks_) <= facts.cores) fill_rows();
  knows_trees_ = models_ || (ranks_ > 2 && facts.tree_from_ranks > 0);
}

void Choices::fill_rows() {
  models_ = true;
  for (std::size_t row = 0; row < kModelled; ++row) {
    const CollectiveDesc desc{.collective = kModelledCollectives[row]};
    for (std::size_t length = 0; length < kLengths; ++length) {
      const std::uint64_t bytes = kModelledCollectives[row] == Collective::Barrier ? 0 : std::uint64_t{1} << length;
      const ModelCall call = model_call(desc, bytes, facts_);
      const std::vector<Protocol> all = protocols_for(call, ranks_);
      Seconds least_of_all = 0;
      Seconds least = 0;
      for (const Protocol p : all) {
        const Seconds seconds = costs_.seconds(call, p);
        if (least_of_all == 0 || seconds < least_of_all) rows_[row].of_all[length] = p;
        least_of_all = least_of_all == 0 ? seconds : std::min(least_of_all, seconds);
        if (is_tree(p)) continue;
        if (least == 0 || seconds < least) rows_[row].without_trees[length] = p;
        least = least == 0 ? seconds : std::min(least, seconds);
      }
    }
  }
}

/// A tree sums in another order than that of the ranks.
bool Choices::may_use_tree(const CollectiveDesc& desc) const noexcept {
  return !reduces(desc.collective) || (desc.op != ReduceOp::User && !needs_canonical_order(desc, ranks_));
}

Protocol Choices::forced(const CollectiveDesc& desc, std::uint64_t shown) const noexcept {
  const Protocol usual = shm::protocol_of(desc, ranks_, facts_, shown);
  const bool takes_trees = row_of(desc.collective) < row_of(Collective::AllGather);
  if (!takes_trees || static_cast<std::uint64_t>(ranks_) < facts_.tree_from_ranks || !may_use_tree(desc)) return usual;
  if (shown <= kLinesBytes) return Protocol::Tree;
  return facts_.tree_chunks_from_bytes > 0 && shown >= facts_.tree_chunks_from_bytes ? Protocol::TreeChunks : usual;
}

Protocol Choices::by_model(const CollectiveDesc& desc, std::uint64_t shown) const noexcept {
  const Protocol usual = shm::protocol_of(desc, ranks_, facts_, shown);
  const std::size_t row = row_of(desc.collective);
  if (row == kModelled) return usual;
  const auto length =
      std::min<std::size_t>(shown <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(shown - 1)), kLengths - 1);
  const Row& of_call = rows_[row];
  const Protocol best = may_use_tree(desc) ? of_call.of_all[length] : of_call.without_trees[length];
  if (ranks_ <= kMostScaled) return best == Protocol::Tree ? best : usual;
  return best <= Protocol::Lines ? usual : best;  // a flag line holds calls of some lengths between two rows
}

Protocol Choices::with_trees(const CollectiveDesc& desc, std::uint64_t shown) const noexcept {
  return models_ ? by_model(desc, shown) : forced(desc, shown);
}

Protocol Choices::protocol_of(const CollectiveDesc& desc) const noexcept {
  return protocol_of(desc, contribution_to(desc, ranks_).shown);
}

Seconds Choices::predict(const CollectiveDesc& desc) const {
  const std::uint64_t shown = contribution_to(desc, ranks_).shown;
  const Protocol protocol = protocol_of(desc, shown);
  const bool modelled = models_ && ranks_ > kMostScaled && row_of(desc.collective) < kModelled;
  if (!modelled && !is_tree(protocol)) return shm::predict(desc, ranks_, facts_);
  return costs_.seconds(model_call(desc, shown, facts_), protocol);
}

std::string Choices::describe(const CollectiveDesc& desc, const Facts& facts) const {
  const Protocol protocol = protocol_of(desc);
  if (!is_tree(protocol)) return shm::describe(desc, ranks_, facts, protocol);
  const std::string levels = costs_.levels().text();
  const bool in_chunks = protocol == Protocol::TreeChunks;
  const std::string over = levels.empty() ? "" : " over " + levels;
  if (!in_chunks) return fmt::format("tree of {}{}", kFanIn, over);
  const std::uint64_t chunk = tree_chunk_bytes(contribution_to(desc, ranks_).shown);
  return fmt::format("tree of {}{}, in chunks of {}", kLongFanIn, over, format_bytes(chunk));
}

}  // namespace sinew::shm

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/core/base/made_once.hpp>
#include <sinew/core/call/determinism.hpp>

namespace sinew {
namespace {

constexpr Collective kVForms[][2] = {{Collective::AllGather, Collective::AllGatherV},
                                     {Collective::ReduceScatter, Collective::ReduceScatterV},
                                     {Collective::AllToAll, Collective::AllToAllV},
                                     {Collective::Gather, Collective::GatherV},
                                     {Collective::Scatter, Collective::ScatterV}};

/// Whether some rank holds a chunk for others on its way: whose size it does not know where counts are local.
bool passes_on(const Algorithm& a) {
  constexpr int kRanks[] = {5, 8};  // one of them suits everybody; from 5 on trees have inner nodes and rounds repeat
  for (const int ranks : kRanks) {
    const CollectiveDesc desc{.collective = a.collective};
    for (int rank = 0; rank < ranks && a.supports(desc, ranks).ok; ++rank) {
      const Program p = a.build(desc, rank, ranks, false);
      for (const std::uint32_t c : p.scratch_class) {
        if (std::ranges::count(p.in_class, c) + std::ranges::count(p.out_class, c) == 0) return true;
      }
    }
  }
  return false;
}

Availability passes_on_unknown_sizes(const CollectiveDesc&, int) {
  return Availability::no("passes on parts of other ranks, which alone know their counts");
}

/// All rows, family by family. A v-form has the algorithms of its plain form, on chunks of other sizes.
std::vector<Algorithm> collect() {
  std::vector<Algorithm> all;
  for (const auto family :
       {bidirectional_ring_family(), binomial_family(), binomial_parts_family(), bruck_family(),
        bruck_all_to_all_family(), chain_family(), direct_family(), dissemination_family(), double_binary_tree_family(),
        halving_doubling_family(), pairwise_family(), recursive_doubling_family(), ring_family()}) {
    for (const Algorithm& a : family) {
      all.push_back(a);
      for (const auto& [plain, v] : kVForms) {
        if (a.collective != plain) continue;
        all.push_back(a);
        all.back().collective = v;
        if (has_local_counts(v) && passes_on(a)) all.back().supports = passes_on_unknown_sizes;
      }
    }
  }
  return all;
}

}  // namespace

Availability any_ranks(const CollectiveDesc& desc, int ranks) {
  if (!needs_canonical_order(desc, ranks)) return Availability::yes();
  return Availability::no("adds in an order of its own, not by the canonical tree");
}

Availability any_ranks_in_order(const CollectiveDesc&, int) { return Availability::yes(); }

Availability folded_in_order(const CollectiveDesc& desc, int ranks) {
  if (!needs_canonical_order(desc, ranks) || is_power_of_two(ranks + (ranks & -ranks))) return Availability::yes();
  return Availability::no(fmt::format("the pairs that {} ranks are folded into are not in the canonical tree", ranks));
}

Availability parts_in_runs(const CollectiveDesc& desc, int ranks) {
  if (desc.collective == plain_form(desc.collective)) return any_ranks(desc, ranks);
  return Availability::no("moves parts in runs, and parts of other counts need not lie side by side");
}

Availability power_of_two_ranks(const CollectiveDesc& desc, int ranks) {
  if (is_power_of_two(ranks)) return parts_in_runs(desc, ranks);
  return Availability::no(fmt::format("needs a power of two of ranks, not {}", ranks));
}

std::span<const Algorithm> all_algorithms() noexcept {
  static constinit MadeOnce<std::vector<Algorithm>> all;
  return all.get(collect);
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective == collective && a.name == name) return &a;
  }
  return nullptr;
}

}  // namespace sinew

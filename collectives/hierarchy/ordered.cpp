#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/hierarchy/embed.hpp>
#include <sinew/collectives/hierarchy/ordered.hpp>
#include <sinew/collectives/schedule/builder.hpp>
#include <sinew/collectives/schedule/premultiply.hpp>
#include <sinew/core/call/determinism.hpp>

namespace sinew {
namespace {

/// Chunks that are the algorithm's own, not one of each rank.
bool has_free_chunks(Collective c) noexcept {
  return c == Collective::AllReduce || c == Collective::Broadcast || c == Collective::Reduce;
}

bool goes_round(Collective c) noexcept {
  return has_free_chunks(c) || c == Collective::AllGather || c == Collective::AllGatherV ||
         c == Collective::ReduceScatter || c == Collective::ReduceScatterV;
}

}  // namespace

Availability Ordered::supports(const Algorithm& algorithm, const CollectiveDesc& desc, int ranks) {
  if (ranks == 1) return Availability::no("one rank has no neighbours");
  if (!goes_round(desc.collective))
    return Availability::no(fmt::format("{} does not depend on who is where", name_of(desc.collective)));
  if (algorithm.cost(desc, ranks).whole) return Availability::no("it moves runs of chunks side by side");
  if (needs_canonical_order(desc, ranks)) return Availability::no("the order of sums is that of the ranks");
  return Availability::yes();
}

Program Ordered::build(const CollectiveDesc& desc, int rank, bool in_place) const {
  const int ranks = static_cast<int>(order.size());
  const auto place_of = [this](int r) { return static_cast<int>(std::ranges::find(order, r) - order.begin()); };
  CollectiveDesc placed = desc;
  if (has_root(desc.collective)) placed.root = place_of(desc.root);
  const Program part = algorithm->build(placed, place_of(rank), ranks, in_place);
  const std::size_t chunks = std::max(part.in_class.size(), part.out_class.size());
  const bool free = has_free_chunks(desc.collective);
  ProgramBuilder whole(desc, rank, ranks, in_place, free ? static_cast<int>(chunks) : 1);
  const auto slices = [&](Space space, std::size_t count) {
    std::vector<Slice> all;
    for (std::size_t i = 0; i < count; ++i) {
      const auto chunk = static_cast<std::uint32_t>(free || count == 1 ? static_cast<int>(i) : order[i]);
      all.push_back({space, chunk, 1});
    }
    return all;
  };
  embed(whole, part, {order, slices(Space::In, part.in_class.size()), slices(Space::Out, part.out_class.size())});
  return premultiplied(desc, whole.build());
}

}  // namespace sinew

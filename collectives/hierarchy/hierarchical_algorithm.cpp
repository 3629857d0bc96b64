#include <cassert>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/hierarchy/hierarchical_all_to_all.hpp>
#include <sinew/collectives/hierarchy/hierarchical_builder.hpp>
#include <sinew/collectives/schedule/premultiply.hpp>
#include <sinew/core/call/determinism.hpp>

namespace sinew {
namespace {

/// The collectives that an algorithm inside the parts, or across them, must have.
std::vector<Collective> needs(Collective collective, bool inside) {
  if (collective == Collective::AllReduce && inside) return {Collective::ReduceScatter, Collective::AllGather};
  return {collective};
}

/// The numbers of ranks that run an algorithm together: inside the parts of each level, or across those of the last.
std::set<int> group_sizes(const Levels& levels, Ranks ranks, bool inside) {
  std::set<int> sizes;
  for (std::size_t level = 0; level < levels.part_of.size(); ++level) {
    Ranks leaders;  // one of each part goes on to the next level
    for (const Ranks& part : levels.parts(level, ranks)) {
      if (inside) sizes.insert(count(part));
      leaders.push_back(part[0]);
    }
    ranks = std::move(leaders);
  }
  if (!inside) sizes.insert(count(ranks));
  return sizes;
}

Ranks ascending_ranks(int ranks) {
  Ranks all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Availability HierarchicalAlgorithm::supports(const CollectiveDesc& desc, int ranks) const {
  switch (desc.collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::AllToAllV:
    case Collective::Broadcast:
    case Collective::Reduce: break;
    default: return Availability::no(fmt::format("no composition for {}", name_of(desc.collective)));
  }
  if (levels.without_idle().part_of.empty()) return Availability::no("all ranks are equally near each other");
  if (needs_canonical_order(desc, ranks) && !levels.are_aligned_blocks())
    return Availability::no(
        "hosts do not hold aligned powers of two of ranks, so their sums are not in the canonical tree");
  for (const bool in : {true, false}) {
    const std::string_view name = in ? inside : across;
    const std::set<int> sizes = group_sizes(levels, ascending_ranks(ranks), in);
    for (const Collective c : needs(desc.collective, in)) {
      CollectiveDesc part = desc;
      part.collective = c;
      if (in) part.codec = Codec::None;
      const Algorithm* a = find_algorithm(c, name);
      if (a == nullptr) return Availability::no(fmt::format("there is no {} for {}", name, name_of(c)));
      const int among = part.codec == Codec::None ? ranks : *sizes.rbegin();
      if (Availability can = a->supports(part, among); !can.ok) return can;
      for (const int size : sizes) {
        if (needs_canonical_order(part, ranks)) break;  // its order is that of all ranks, which were asked for above
        if (Availability can = a->supports(part, size); !can.ok) return can;
      }
      if (a->cost(part, ranks).whole) return Availability::no(fmt::format("{} moves runs of chunks", name));
      if (moves_runs(c) && name != "direct")
        return Availability::no(fmt::format("messages are few enough to go all at once, which {} does not", name));
      const bool one_chunk = c == Collective::Broadcast || c == Collective::Reduce;
      if (one_chunk && a->build(part, part.root, ranks, false).out_class.size() > 1)
        return Availability::no(fmt::format("{} cuts the message into chunks of its own", name));
    }
  }
  return Availability::yes();
}

Program HierarchicalAlgorithm::build(const CollectiveDesc& desc, int rank, int ranks, bool in_place) const {
  const Ranks all = ascending_ranks(ranks);
  const bool cut = desc.collective == Collective::AllReduce;
  const int chunks = cut ? HierarchicalBuilder::chunks(*this, desc, all, 0) : 1;
  ProgramBuilder b(desc, rank, ranks, in_place, chunks);
  if (moves_runs(desc.collective)) b.keep_whole();
  if (has_local_counts(desc.collective)) b.tell_sizes();
  HierarchicalBuilder builder(*this, desc, rank, b);
  const auto each = [](int n, auto chunk) {
    Slices slices;
    for (int i = 0; i < n; ++i) slices.push_back(chunk(i));
    return slices;
  };
  const auto in = [&](int i) { return b.in(i); };
  const auto out = [&](int i) { return b.out(i); };
  const bool root = rank == desc.root;
  switch (desc.collective) {
    case Collective::AllReduce: builder.all_reduce(all, 0, each(chunks, in), each(chunks, out)); break;
    case Collective::AllGather: builder.all_gather(all, 0, b.in(), each(ranks, out)); break;
    case Collective::ReduceScatter: builder.reduce_scatter(all, 0, each(ranks, in), b.out()); break;
    case Collective::AllToAll:
    case Collective::AllToAllV: HierarchicalAllToAll(rank, b).compose(levels, all); break;
    case Collective::Broadcast: builder.broadcast(all, 0, desc.root, root ? b.in() : Slice{}, b.out()); break;
    case Collective::Reduce: builder.reduce(all, 0, desc.root, b.in(), root ? b.out() : Slice{}); break;
    default: assert(!"supports() says no");
  }
  return premultiplied(desc, b.build());
}

}  // namespace sinew

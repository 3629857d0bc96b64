#include <cassert>

#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/frame.hpp>

namespace sinew {
namespace {

using Classes = std::vector<std::uint32_t>;

/// Those of an all_to_all as block_class() says.
Classes ascending_classes(int count, std::int64_t first = 0, int stride = 1) {
  Classes classes(static_cast<std::size_t>(count));
  for (std::uint32_t& c : classes) {
    c = static_cast<std::uint32_t>(first) & ~kCoded;
    first += stride;
  }
  return classes;
}

}  // namespace

Program frame(const CollectiveDesc& desc, int rank, int ranks, bool in_place, int chunks) {
  const bool root = rank == desc.root;
  Program p{.rank = rank, .ranks = ranks, .in_place = in_place};
  switch (plain_form(desc.collective)) {
    case Collective::AllReduce: p.in_class = p.out_class = ascending_classes(chunks); break;
    case Collective::Broadcast:
      if (root) p.in_class = ascending_classes(chunks);
      p.out_class = ascending_classes(chunks);
      break;
    case Collective::Reduce:
      p.in_class = ascending_classes(chunks);
      if (root) p.out_class = ascending_classes(chunks);
      break;
    case Collective::AllGather:
    case Collective::Gather:
      p.in_class = ascending_classes(1, rank);
      if (root || plain_form(desc.collective) == Collective::AllGather) p.out_class = ascending_classes(ranks);
      break;
    case Collective::ReduceScatter:
    case Collective::Scatter:
      if (root || plain_form(desc.collective) == Collective::ReduceScatter) p.in_class = ascending_classes(ranks);
      p.out_class = ascending_classes(1, rank);
      break;
    case Collective::AllToAll:
      p.in_class = ascending_classes(ranks, std::int64_t{rank} * ranks);
      p.out_class = ascending_classes(ranks, rank, ranks);
      break;
    case Collective::Barrier:
      p.in_class = {0};
      p.out_class = Classes(static_cast<std::size_t>(ranks), 0);
      break;
    default: assert(!"send and recv have no schedule");
  }
  return p;
}

}  // namespace sinew

#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/simulator/likeness.hpp>

namespace sinew {
namespace {

/// A step as it is seen from its rank.
struct Deed {
  Op op = Op::Copy;
  int peer = -1;  // seen from the first of the kind
  std::uint32_t match = 0;
  ElementMap map = ElementMap::None;
  bool reduces = false;
  std::uint32_t chunks = 0;
  std::uint64_t elements = 0;

  auto order() const { return std::tuple(op, peer, match, map, reduces, chunks); }
  bool is_like(const Deed& other) const {
    const std::uint64_t less = std::min(elements, other.elements), more = std::max(elements, other.elements);
    return order() == other.order() && more - less <= chunks;
  }
};

std::vector<Deed> deeds_of(const CollectiveDesc& desc, const Program& program, const Symmetry& symmetry) {
  const ChunkTable chunks = chunk_table(desc, program);
  std::vector<Deed> deeds;
  deeds.reserve(program.steps.size());
  for (const Step& s : program.steps) {
    const Slice& moved = s.op == Op::Send ? s.a : s.dst;
    Deed deed{.op = s.op, .match = s.match, .map = s.map, .reduces = s.a.count > 0, .chunks = moved.count};
    if (s.peer >= 0) deed.peer = symmetry.seen_from(program.rank, s.peer);
    const auto& row = moved.space == Space::In ? chunks.in : moved.space == Space::Out ? chunks.out : chunks.scratch;
    for (std::uint32_t c = moved.first; c < moved.first + moved.count; ++c) deed.elements += row[c].count;
    deeds.push_back(deed);
  }
  return deeds;
}

}  // namespace

bool are_alike(const CollectiveDesc& desc, const Program& a, const Program& b, const Symmetry& symmetry,
               Likeness likeness) {
  if (a.steps.size() != b.steps.size() || a.whole != b.whole) return false;
  std::vector<Deed> of_a = deeds_of(desc, a, symmetry), of_b = deeds_of(desc, b, symmetry);
  switch (likeness) {
    case Likeness::InOrder:
      if (a.dependencies != b.dependencies) return false;
      for (std::size_t i = 0; i < a.steps.size(); ++i) {
        if (a.steps[i].deps.count != b.steps[i].deps.count) return false;
      }
      break;
    case Likeness::InAnyOrder:
      for (std::vector<Deed>* deeds : {&of_a, &of_b}) std::ranges::sort(*deeds, std::less<>(), &Deed::order);
      break;
  }
  return std::ranges::equal(of_a, of_b, [](const Deed& x, const Deed& y) { return x.is_like(y); });
}

}  // namespace sinew

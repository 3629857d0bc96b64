#include <algorithm>
#include <cassert>

#include <sinew/collectives/hierarchy/embed.hpp>

namespace sinew {
namespace {

/// The chunk of the whole that a part's scratch is as long as.
Slice model_of(std::uint32_t chunk_class, const Program& part, const Placement& at) {
  for (const auto& [classes, slices] : {std::pair(&part.in_class, &at.in), std::pair(&part.out_class, &at.out)}) {
    const auto found = std::ranges::find(*classes, chunk_class);
    if (found != classes->end()) return (*slices)[static_cast<std::size_t>(found - classes->begin())];
  }
  assert(!"scratch of a class that is neither in nor out");
  return {};
}

}  // namespace

void embed(ProgramBuilder& whole, const Program& part, const Placement& at) {
  assert(!part.whole && at.in.size() == part.in_class.size() && at.out.size() == part.out_class.size());
  std::vector<Slice> scratch;
  for (const std::uint32_t c : part.scratch_class) scratch.push_back(whole.scratch_like(model_of(c, part, at)));
  const auto placed = [&](const Slice& s) -> Slice {
    if (s.count == 0) return {};
    assert(s.count == 1);
    return (s.space == Space::In ? at.in : s.space == Space::Out ? at.out : scratch)[s.first];
  };
  for (const Step& step : part.steps) {
    const Slice a = placed(step.a);
    const Slice dst = placed(step.dst);
    if ((step.op == Op::Send ? a : dst).count == 0) continue;
    const Sum sum = step.map == ElementMap::Scale ? Sum::Complete : Sum::Partial;
    const int peer = step.peer < 0 ? -1 : at.ranks[static_cast<std::size_t>(step.peer)];
    switch (step.op) {
      case Op::Send: whole.send(peer, a); break;
      case Op::Recv: a.count > 0 ? whole.recv_reduce(peer, dst, a, sum) : whole.recv(peer, dst); break;
      case Op::Copy: whole.copy(dst, a, sum); break;
      case Op::Reduce: whole.reduce(dst, a, placed(step.b), sum); break;
    }
  }
}

}  // namespace sinew

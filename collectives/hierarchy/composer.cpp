#include <algorithm>
#include <cassert>
#include <tuple>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/hierarchy/composer.hpp>
#include <sinew/collectives/hierarchy/embed.hpp>

namespace sinew {
namespace {

const Algorithm& algorithm(Collective collective, std::string_view name) {
  const Algorithm* found = find_algorithm(collective, name);
  assert(found != nullptr);
  return *found;
}

}  // namespace

std::optional<std::vector<Ranks>> Composer::parted(const Levels& levels, const Ranks& ranks, std::size_t& level) {
  for (; level < levels.part_of.size(); ++level) {
    std::vector<Ranks> parts = levels.parts(level, ranks);
    if (parts.size() == 1) return std::nullopt;
    if (parts.size() < ranks.size()) return parts;
  }
  return std::nullopt;
}

std::optional<Composer::Parts> Composer::parts_of(const Ranks& ranks, std::size_t& level) const {
  auto all = parted(how_.levels, ranks, level);
  if (!all) return std::nullopt;
  Parts parts{std::move(*all)};
  for (int p = 0; p < count(parts.all); ++p) {
    const Ranks& part = parts.all[static_cast<std::size_t>(p)];
    parts.stripes = std::max(parts.stripes, count(part));
    if (const int place = place_of(part); place < count(part)) std::tie(parts.mine, parts.place) = std::pair(p, place);
  }
  return parts;
}

void Composer::run(Collective collective, std::string_view name, const Ranks& ranks, Slices in, Slices out,
                   bool complete, int root) {
  if (ranks.size() == 1 && !complete) return;
  CollectiveDesc part = desc_;
  part.collective = collective;
  part.root = root;
  if (!complete && desc_.op == ReduceOp::Average) part.op = ReduceOp::Sum;
  const int place = place_of(ranks);
  // What a part has in place: its only result, or its only contribution, is where the other of the two is.
  Slice mine_in, mine_out;
  if (!in.empty() && !out.empty()) {
    mine_in = in.size() > 1 && out.size() == 1 ? in[static_cast<std::size_t>(place)] : in.front();
    mine_out = out.size() > 1 && in.size() == 1 ? out[static_cast<std::size_t>(place)] : out.front();
  }
  const bool in_place = mine_in.count > 0 && to_.same(mine_in, mine_out);
  const Program program = algorithm(collective, name).build(part, place, count(ranks), in_place);
  embed(to_, program, {ranks, std::move(in), std::move(out)});
}

int Composer::chunks(const Composition& how, const CollectiveDesc& desc, const Ranks& ranks, std::size_t level) {
  const auto parts = parted(how.levels, ranks, level);
  if (!parts) return count(algorithm(Collective::AllReduce, how.across).build(desc, 0, count(ranks), false).in_class);
  int stripes = 0, all = 0;
  for (const Ranks& part : *parts) stripes = std::max(stripes, count(part));
  for (int s = 0; s < stripes; ++s) {
    Ranks equals;
    for (const Ranks& part : *parts) equals.push_back(at(part, s % count(part)));
    all += chunks(how, desc, equals, level + 1);
  }
  return all;
}

}  // namespace sinew

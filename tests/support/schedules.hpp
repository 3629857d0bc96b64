#pragma once

#include <string>
#include <vector>

#include <sinew/collectives/algorithms/algorithm.hpp>

namespace sinew::test {

/// How the ranks pass their buffers. Mixed: every third rank out of place, the others in place.
enum class PlacingKind { OutOfPlace, InPlace, Mixed };

inline std::vector<bool> in_place(PlacingKind placing, int ranks) {
  std::vector<bool> each(static_cast<std::size_t>(ranks), placing == PlacingKind::InPlace);
  for (int r = 0; placing == PlacingKind::Mixed && r < ranks; ++r) each[static_cast<std::size_t>(r)] = r % 3 != 1;
  return each;
}

inline CollectiveDesc desc_of(Collective collective, ReduceOp op = ReduceOp::Sum, int root = 0) {
  return {.collective = collective, .dtype = DType::I64, .op = op, .root = root};
}

inline std::vector<ReduceOp> ops_of(Collective collective) {
  if (!reduces(collective)) return {ReduceOp::Sum};
  return {ReduceOp::Sum, ReduceOp::Average, ReduceOp::PreMulSum};
}

/// Roots worth a look: the first, one in the middle, the last.
inline std::vector<int> roots_of(Collective collective, int ranks) {
  if (!has_root(collective) || ranks == 1) return {0};
  if (ranks == 2) return {0, 1};
  return {0, ranks / 2, ranks - 1};
}

/// "ring of collective 0 on 5 ranks, operator 4, root 0, placing 2"
inline std::string label(const Algorithm& a, const CollectiveDesc& desc, int ranks, PlacingKind placing) {
  return std::string(a.name) + " of collective " + std::to_string(static_cast<int>(a.collective)) + " on " +
         std::to_string(ranks) + " ranks, operator " + std::to_string(static_cast<int>(desc.op)) + ", root " +
         std::to_string(desc.root) + ", placing " + std::to_string(static_cast<int>(placing));
}

/// Calls f(algorithm, desc, placing) for everything that algorithms support on so many ranks; where they run only when
/// the order of sums is asked for, for that; with a codec for what may be coded.
template <class F>
void for_each_schedule(int ranks, F&& f, Codec codec = Codec::None) {
  for (const Algorithm& a : all_algorithms()) {
    if (codec != Codec::None && !may_be_coded(a.collective)) continue;
    for (const ReduceOp op : ops_of(a.collective)) {
      for (const int root : roots_of(a.collective, ranks)) {
        CollectiveDesc desc = desc_of(a.collective, op, root);
        desc.codec = codec;
        if (codec != Codec::None) desc.dtype = DType::F32;
        if (codec == Codec::None && reduces(a.collective) && !a.supports(desc, ranks).ok) {
          desc.dtype = DType::F32;
          desc.determinism = Determinism::Reproducible;
        }
        if (!a.supports(desc, ranks).ok) continue;
        for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::InPlace, PlacingKind::Mixed})
          f(a, desc, placing);
      }
    }
  }
}

}  // namespace sinew::test

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/modules/layers/state_space_shape.hpp>

namespace sinew::parallel {

StateSpaceShape checked_state_space(StateSpaceShape shape, const LayerGroup& group, const CallGroup& context) {
  const int ranks = GroupPlace(*group.tensor).ranks, context_ranks = GroupPlace(*context).ranks;
  if (std::min({shape.width, shape.head_width, shape.groups, shape.states, shape.taps, shape.chunk, shape.sequences}) <
          1 ||
      shape.heads < 0)
    throw Error(Code::InvalidArgument,
                fmt::format("state space '{}': width {}, head width {}, groups {}, states {}, taps {}, chunk {}, "
                            "sequences {}, heads {}, expected 1 or more of each",
                            shape.name, shape.width, shape.head_width, shape.groups, shape.states, shape.taps,
                            shape.chunk, shape.sequences, shape.heads));
  if (shape.heads == 0 && 2 * shape.width % shape.head_width != 0)
    throw Error(Code::InvalidArgument,
                fmt::format("state space '{}': heads of {} elements, expected a divisor of {}, twice the width, or a "
                            "number of heads",
                            shape.name, shape.head_width, 2 * shape.width));
  if (shape.heads == 0) shape.heads = 2 * shape.width / shape.head_width;
  if (shape.heads % shape.groups != 0)
    throw Error(Code::InvalidArgument, fmt::format("state space '{}': {} heads in {} groups, expected a multiple of "
                                                   "the groups",
                                                   shape.name, shape.heads, shape.groups));
  if (shape.heads < ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("state space '{}': {} heads for {} tensor-parallel ranks, expected one or more for each "
                            "rank",
                            shape.name, shape.heads, ranks));
  if (shape.positions.ranks() != context_ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("state space '{}': positions are cut over {} ranks, expected {}, those of the context "
                            "group",
                            shape.name, shape.positions.ranks(), context_ranks));
  return shape;
}

HeadCut state_space_cut(const StateSpaceShape& shape, const LayerGroup& group) {
  const GroupPlace place(*group.tensor);
  return cut_heads(shape.heads, shape.groups, place.rank, place.ranks);
}

HeadScanSizes state_space_sizes(const StateSpaceShape& shape, const HeadCut& cut) {
  const std::int64_t each = shape.heads / shape.groups;
  return {.sequences = shape.sequences,
          .heads = cut.queries.count(),
          .head_width = shape.head_width,
          .states = shape.states,
          .groups = cut.key_values.count(),
          .heads_each = each,
          .heads_before = cut.queries.first - cut.key_values.first * each};
}

std::int64_t tapped_of(const HeadScanSizes& sizes) { return sizes.width() + 2 * sizes.group_states(); }

namespace {

/// Offsets of what each tensor-parallel rank has. extent(sizes of a rank): how much that is.
template <class F>
std::vector<std::int64_t> state_space_offsets(const StateSpaceShape& shape, const LayerGroup& group, const F& extent) {
  std::vector<std::int64_t> offsets{0};
  const int ranks = GroupPlace(*group.tensor).ranks;
  for (int r = 0; r < ranks; ++r)
    offsets.push_back(offsets.back() +
                      extent(state_space_sizes(shape, cut_heads(shape.heads, shape.groups, r, ranks))));
  return offsets;
}

}  // namespace

LinearShape state_space_in(const StateSpaceShape& shape, const LayerGroup& group, std::int64_t rows) {
  LinearShape of = group.with_rows(LinearShape{.name = shape.name + ".in", .rows = rows, .inputs = shape.width});
  of.cut.offsets = state_space_offsets(
      shape, group, [](const HeadScanSizes& sizes) { return tapped_of(sizes) + sizes.width() + sizes.heads; });
  of.outputs = of.cut.offsets.back();
  return of;
}

LinearShape state_space_out(const StateSpaceShape& shape, const LayerGroup& group, std::int64_t rows) {
  LinearShape of{.name = shape.name + ".out", .rows = rows, .inputs = shape.inner(), .outputs = shape.width};
  of.cut.offsets = state_space_offsets(shape, group, [](const HeadScanSizes& sizes) { return sizes.width(); });
  return of;
}

}  // namespace sinew::parallel

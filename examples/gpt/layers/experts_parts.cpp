#include <fmt/format.h>

#include <sinew/parallel/common/group_place.hpp>

#include "experts.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

sp::TokenPositions positions_of(const BlockShape& shape, const TokenPlaces& places) {
  sp::TokenPositions where{.sequences = shape.sequences, .length = shape.whole.context};
  for (std::int64_t r = 0; r < shape.own_rows(); ++r) {
    where.sequence.push_back(static_cast<std::int32_t>(places.sequence_of(r)));
    where.position.push_back(static_cast<std::int32_t>(places.position_of(r)));
  }
  return where;
}

sp::DispatchShape dispatch_shape(const BlockShape& shape, const ExpertsWay& way, sinew::Determinism determinism) {
  return {.name = "experts",
          .experts = shape.whole.experts.count,
          .top_k = shape.whole.experts.top_k,
          .width = shape.whole.width,
          .chunks = way.chunks,
          .determinism = determinism};
}

sp::CapacityShape capacity_shape(const ExpertsShape& of) {
  return {of.capacity, of.drop_by_position ? sp::DropPolicy::Position : sp::DropPolicy::Probability};
}

}  // namespace

template <class T>
sp::RouterShape ExpertsParts<T>::router_shape(const Shape& shape, int block) {
  const ExpertsShape& of = shape.experts;
  return {.name = fmt::format("blocks.{}.router", block),
          .experts = of.count,
          .top_k = of.top_k,
          .score = of.sigmoid ? sp::RouterScore::Sigmoid : sp::RouterScore::Softmax,
          .normalised = of.top_k > 1,  // one gate that is 1 would teach the router nothing
          .groups = of.groups,
          .chosen_groups = of.chosen,
          .z = of.z};
}

template <class T>
ExpertsParts<T>::ExpertsParts(const BlockShape& shape, const ExpertsRanks& ranks, const ExpertsWay& way,
                              const TokenPlaces& places, sinew::Determinism determinism)
    : where(positions_of(shape, places)),
      dispatcher(sp::make_dispatcher<T>(way.kind, ranks.experts, dispatch_shape(shape, way, determinism))),
      balance(*ranks.sequences, router_shape(shape.whole, 0), shape.whole.experts.auxiliary),
      capacity(*ranks.sequences, router_shape(shape.whole, 0), capacity_shape(shape.whole.experts), shape.own_rows()),
      routers(ranks.routers),
      counts_sequences(sp::GroupPlace(*ranks.sequences).rank == 0) {}

template struct ExpertsParts<float>;
template struct ExpertsParts<double>;

}  // namespace gpt

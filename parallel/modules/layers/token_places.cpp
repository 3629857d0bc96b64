#include <algorithm>

#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/modules/layers/token_places.hpp>

namespace sinew::parallel {

TokenPlaces::TokenPlaces(const LayerGroup& group, std::int64_t sequences, const SequenceCut& cut, int context_rank)
    : positions_(cut.positions(context_rank)),
      sequences_(sequences),
      length_(cut.length()),
      tokens_(std::max<std::int64_t>(cut.tokens(context_rank), 1)),
      first_(0),
      own_(0) {
  const std::int64_t all = sequences * cut.tokens(context_rank);
  const GroupPlace place(*group.tensor);
  const Rows mine = group.sequence_parallel ? rows_of({}, place.rank, place.ranks, all) : Rows{0, all};
  first_ = mine.first;
  own_ = mine.count();
}

TokenPositions TokenPlaces::token_positions() const {
  TokenPositions where{.sequences = sequences_, .length = length_};
  for (std::int64_t r = 0; r < own_; ++r) {
    where.sequence.push_back(static_cast<std::int32_t>(sequence_of(r)));
    where.position.push_back(static_cast<std::int32_t>(position_of(r)));
  }
  return where;
}

template <class T>
void TokenPlaces::drop(const Dropout& dropout, std::int64_t width, std::uint64_t step, std::int64_t first_sample,
                       T* rows) const {
  const auto whole_row = [&](std::int64_t own) {
    return (first_sample + sequence_of(own)) * length_ + position_of(own);
  };
  for (std::int64_t r = 0; r < own_;) {  // rows that follow each other in the whole, too
    const std::int64_t first = whole_row(r);
    std::int64_t count = 1;
    while (r + count < own_ && whole_row(r + count) == first + count) ++count;
    dropout.apply(rows + r * width, {{first, 0}, {first + count, width}}, width, step);
    r += count;
  }
}

template void TokenPlaces::drop(const Dropout&, std::int64_t, std::uint64_t, std::int64_t, float*) const;
template void TokenPlaces::drop(const Dropout&, std::int64_t, std::uint64_t, std::int64_t, double*) const;

}  // namespace sinew::parallel

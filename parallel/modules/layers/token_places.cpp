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

std::vector<std::int64_t> TokenPlaces::row_numbers() const {
  std::vector<std::int64_t> numbers;
  for (std::int64_t r = 0; r < own_; ++r) numbers.push_back(sequence_of(r) * length_ + position_of(r));
  return numbers;
}

}  // namespace sinew::parallel

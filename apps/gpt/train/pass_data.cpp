#include "pass_data.hpp"

#include <cstddef>
#include <utility>

namespace gpt {

static constexpr std::int64_t kIgnored = -100;  // a target that counts for nothing

void PassData::read(const Shape& shape, const sp::TokenPlaces& places, std::span<const std::uint8_t> sequences,
                    std::int64_t step, std::int64_t first_sample) {
  const auto length = static_cast<std::size_t>(shape.context);
  step_ = step;
  first_sample_ = first_sample;
  seen_.clear();
  targets_.clear();
  masks_.clear();
  for (std::size_t begin = 0; begin < sequences.size(); begin += length + 1) {
    const auto one = sequences.subspan(begin, length + 1);
    const auto ends = [&](std::size_t position) { return int{one[position]} == shape.document_end; };
    for (const std::int64_t position : places.positions()) {
      const auto p = static_cast<std::size_t>(position);
      seen_.push_back(one[p]);
      targets_.push_back(ends(p) ? kIgnored : std::int64_t{one[p + 1]});
    }
    std::vector<std::int64_t> starts;
    for (std::size_t p = 1; p < length; ++p) {
      if (ends(p - 1)) starts.push_back(static_cast<std::int64_t>(p));
    }
    masks_.emplace_back(true, std::move(starts));
  }
}

sp::MicroBatch PassData::batch() const {
  return {.tokens = seen_,
          .targets = targets_,
          .masks = masks_,
          .step = static_cast<std::uint64_t>(step_),
          .first_sample = first_sample_,
          .samples = static_cast<std::int64_t>(masks_.size())};
}

}  // namespace gpt

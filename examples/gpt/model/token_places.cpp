#include "token_places.hpp"

#include <algorithm>

namespace gpt {

TokenPlaces::TokenPlaces(const BlockShape& shape)
    : positions_(shape.part.positions(shape.whole).positions(shape.part.context_rank)),
      tokens_(std::max<std::int64_t>(shape.tokens(), 1)),
      first_(shape.part.rows(shape.rows()).first),
      own_(shape.own_rows()),
      context_(shape.whole.context),
      width_(shape.whole.width) {}

template <class T>
void TokenPlaces::drop(const sinew::parallel::Dropout& dropout, const Pass& pass, T* values) const {
  const auto whole_row = [&](std::int64_t own) {
    return (pass.first_sample + (first_ + own) / tokens_) * context_ + position_of(own);
  };
  for (std::int64_t r = 0; r < own_;) {  // rows that follow each other in the whole, too
    const std::int64_t first = whole_row(r);
    std::int64_t count = 1;
    while (r + count < own_ && whole_row(r + count) == first + count) ++count;
    dropout.apply(values + r * width_, {{first, 0}, {first + count, width_}}, width_, pass.step);
    r += count;
  }
}

template void TokenPlaces::drop(const sinew::parallel::Dropout&, const Pass&, float*) const;
template void TokenPlaces::drop(const sinew::parallel::Dropout&, const Pass&, double*) const;

}  // namespace gpt

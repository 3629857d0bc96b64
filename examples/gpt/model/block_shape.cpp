#include "block_shape.hpp"

#include <algorithm>

#include <sinew/parallel/tensor/ring_rows.hpp>

namespace gpt {

std::int64_t BlockShape::partial_rows() const {
  if (!part.decomposed) return rows();
  return std::max(rows(), sinew::parallel::RingRows<float>::room_rows({}, part.ranks, rows()));
}

}  // namespace gpt

#pragma once

#include <cstdint>

namespace sinew::parallel {

/// Queries, keys and values of some tokens, as a layer has made them, or their gradients.
/// Shape: each [sequences, tokens, its heads * head_width]. Strides are elements from one token to the next, so that
///        the three may lie side by side in one row.
template <class T>
struct Projections {
  T *queries = nullptr, *keys = nullptr, *values = nullptr;
  std::int64_t query_stride = 0, key_value_stride = 0;
};

}  // namespace sinew::parallel

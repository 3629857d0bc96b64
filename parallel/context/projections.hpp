#pragma once

#include <cstdint>

namespace sinew::parallel {

/// Queries, keys and values of some tokens, or their gradients, as a layer has made them.
/// Shape: each [sequences, tokens, its heads * head_width]; strides are elements from one token to the next, so that
///        the three may lie in one row side by side.
template <class T>
struct Projections {
  T *queries = nullptr, *keys = nullptr, *values = nullptr;
  std::int64_t query_stride = 0, key_value_stride = 0;
};

}  // namespace sinew::parallel

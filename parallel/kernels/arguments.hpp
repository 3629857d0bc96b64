#pragma once

#include <array>
#include <cstdint>

#include <sinew/parallel/common/kernel_function.hpp>

namespace sinew::parallel::kernels {

/// The threads of a team.
inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr int kWarpsOfTeam = kThreads / kWarp;
/// Rows of up to so many elements have a warp, others a team.
inline constexpr std::int64_t kRowOfWarp = 1024;
/// Columns whose sums one team computes at a time.
inline constexpr int kColumnsOfTeam = 16;

/// A function of single elements.
enum class Function : std::uint8_t {
  Gelu,  ///< x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))). Source: arXiv 1606.08415, the form of GPT-2
  Relu,
  Tanh,
};

inline constexpr double kGeluRoot = 0.7978845608028654;  ///< of 2 / pi
inline constexpr double kGeluCube = 0.044715;

/// Bits of a number of KeyedRandom that count elements. The others count steps.
inline constexpr unsigned kDropElementBits = 40;

/// The random choices of a dropout. Row r of a part has the number first_row + numbers[r] in the whole matrix, and
/// column c the number first_column + c. The element (row, column) of the whole matrix is dropped if
/// KeyedRandom(key).uniform((step << kDropElementBits) | (row * columns + column)) is less than the probability.
struct DropOptions {
  std::array<std::uint32_t, 2> key;  ///< KeyedRandom::key()
  std::uint64_t step;
  double probability;
  std::int64_t columns;  ///< of the whole matrix
  std::int64_t first_row, first_column;
};

/// The gradient of a cross-entropy: scale * (softmax - smoothing / vocabulary), less scale * (1 - smoothing) for the
/// target. Rows whose target is `ignored` get 0.
struct CrossEntropyScale {
  double scale, smoothing;
  std::int64_t vocabulary, ignored;
};

/// Some queries and some keys of some heads that follow each other, and the mask between them (AttentionMask).
struct AttentionTile {
  std::int64_t heads, queries, keys;
  std::int64_t first_query, first_key;            ///< positions of the first query and the first key
  std::int64_t all_heads, head_width, row_width;  ///< of the arrays `out`, lse and along
  bool causal;
  const std::int64_t* starts;  ///< where documents begin, ascending
  std::int64_t documents;      ///< the length of `starts`
};

/// The keys of a tile that a query sees, counted from the tile's first key: those in [first, last).
struct SeenKeys {
  std::int64_t first, last;
};
/// query: counted from the tile's first query. Cost: O(log(documents)).
SINEW_KERNEL inline SeenKeys seen_keys(const AttentionTile& tile, std::int64_t query) {
  const std::int64_t position = tile.first_query + query;
  std::int64_t below = 0, above = tile.documents;  // starts[below - 1] <= position < starts[above]
  while (below < above) {
    const std::int64_t middle = (below + above) / 2;
    if (tile.starts[middle] <= position) {
      below = middle + 1;
    } else {
      above = middle;
    }
  }
  const std::int64_t begin = (below > 0 ? tile.starts[below - 1] : 0) - tile.first_key;
  std::int64_t end = tile.keys;
  if (tile.causal) {
    end = position + 1 - tile.first_key;
  } else if (below < tile.documents) {
    end = tile.starts[below] - tile.first_key;
  }
  const std::int64_t after = begin < 0 ? 0 : begin;
  const std::int64_t first = after < tile.keys ? after : tile.keys, last = end < tile.keys ? end : tile.keys;
  return {first, last > first ? last : first};
}

}  // namespace sinew::parallel::kernels

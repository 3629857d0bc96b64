#pragma once

#include <cstdint>

#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/team.hpp>

// Kernels of attention, tile by tile (LayerMath). Each row of scores, of one head and one query, has one group.
// Shape: scores, weights, slopes [heads, queries, keys]; `out` [queries, row_width]; lse, along [queries, all_heads].
namespace sinew::parallel::kernels {

/// A row of scores, as the mask lets its query see them.
template <class T>
struct SeenScores {
  T* scores;
  SeenKeys seen;

  SINEW_KERNEL T operator[](std::int64_t key) const {
    return key >= seen.first && key < seen.last ? scores[key] : -kInfinite<T>;
  }
};

/// f(group, tile, row, query, place): each row of a tile, its query, and the place of its query and head in lse and
/// along.
template <class Team, class F>
SINEW_KERNEL void for_tile_rows(const Team& team, const AttentionTile& given, const F& f) {
  AttentionTile tile = given;
  tile.starts = team.memory(given.starts, given.documents);
  team.for_rows(tile.heads * tile.queries, tile.keys, [&](const auto& group, std::int64_t row) {
    const std::int64_t head = row / tile.queries, query = row % tile.queries;
    f(group, tile, row, query, query * tile.all_heads + head);
  });
}
/// The address of scores, weights or slopes.
template <class T, class Team>
SINEW_KERNEL T* tile_memory(const Team& team, const AttentionTile& tile, T* address) {
  return team.memory(address, tile.heads * tile.queries * tile.keys);
}

/// Hides the scores that the mask hides. Then merges them into `out` and lse, to which earlier tiles have been added.
/// Scores become weights, and `out` is scaled.
template <class T>
struct AttentionMergeArguments {
  AttentionTile tile;
  T *scores, *out, *lse;
};
template <class T, class Team>
SINEW_KERNEL void attention_merge(const Team& team, const AttentionMergeArguments<T>& a) {
  T* const scores = tile_memory(team, a.tile, a.scores);
  T* const out = team.memory(a.out, extent_of(a.tile.queries, a.tile.heads * a.tile.head_width, a.tile.row_width));
  T* const lse = team.memory(a.lse, extent_of(a.tile.queries, a.tile.heads, a.tile.all_heads));
  for_tile_rows(
      team, a.tile,
      [&](const auto& group, const AttentionTile& tile, std::int64_t row, std::int64_t query, std::int64_t place) {
        const SeenScores<T> of{scores + row * tile.keys, seen_keys(tile, query)};
        const T old = lse[place];
        const Largest<T> largest = largest_of(group, old, tile.keys, [&](std::int64_t k) { return of[k]; });
        const T most = largest.has_nan != 0 ? kNotANumber<T> : largest.most;
        if (most == -kInfinite<T>) {  // the query sees no key of this tile, and has seen none before
          group.each(tile.keys, [&](std::int64_t k) { of.scores[k] = T{0}; });
          return;
        }
        const T before = team.exp(old - most);
        const T total = before + sum_of(group, tile.keys, [&](std::int64_t k) {
                          const T power = team.exp(of[k] - most);
                          of.scores[k] = power;
                          return power;
                        });
        group.each(tile.keys, [&](std::int64_t k) { of.scores[k] /= total; });
        T* const to = out + query * tile.row_width + row / tile.queries * tile.head_width;
        group.each(tile.head_width, [&](std::int64_t d) { to[d] *= before / total; });
        group.once([&] { lse[place] = most + team.log(total); });
      });
}

/// Scores become weights: exp(score - lse), or 0 if the mask hides them.
template <class T>
struct AttentionWeightsArguments {
  AttentionTile tile;
  T* scores;
  const T* lse;
};
template <class T, class Team>
SINEW_KERNEL void attention_weights(const Team& team, const AttentionWeightsArguments<T>& a) {
  T* const scores = tile_memory(team, a.tile, a.scores);
  const T* const lse = team.memory(a.lse, extent_of(a.tile.queries, a.tile.heads, a.tile.all_heads));
  for_tile_rows(
      team, a.tile,
      [&](const auto& group, const AttentionTile& tile, std::int64_t row, std::int64_t query, std::int64_t place) {
        const SeenScores<T> of{scores + row * tile.keys, seen_keys(tile, query)};
        const T all = lse[place];
        const bool sees = all != -kInfinite<T>;
        group.each(tile.keys, [&](std::int64_t k) { of.scores[k] = sees ? team.exp(of[k] - all) : T{0}; });
      });
}

/// slopes = weights * (slopes - along), or 0 where the weight is 0.
template <class T>
struct AttentionSlopesArguments {
  AttentionTile tile;
  const T* weights;
  T* slopes;
  const T* along;
};
template <class T, class Team>
SINEW_KERNEL void attention_slopes(const Team& team, const AttentionSlopesArguments<T>& a) {
  const T* const weights = tile_memory(team, a.tile, a.weights);
  T* const slopes = tile_memory(team, a.tile, a.slopes);
  const T* const along = team.memory(a.along, extent_of(a.tile.queries, a.tile.heads, a.tile.all_heads));
  for_tile_rows(team, a.tile,
                [&](const auto& group, const AttentionTile& tile, std::int64_t row, std::int64_t, std::int64_t place) {
                  const T *const weight = weights + row * tile.keys, mean = along[place];
                  T* const slope = slopes + row * tile.keys;
                  group.each(tile.keys, [&](std::int64_t k) {
                    slope[k] = weight[k] == T{0} ? T{0} : weight[k] * (slope[k] - mean);
                  });
                });
}

}  // namespace sinew::parallel::kernels

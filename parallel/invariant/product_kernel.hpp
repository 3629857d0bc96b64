#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/parallel/invariant/leaf_rows.hpp>

namespace sinew::parallel {

/// A tile of a product: kTileRows rows by tile_columns() columns.
inline constexpr std::size_t kTileRows = 4;
/// Nodes of the tree of leaf blocks above each other, at most.
inline constexpr int kMostHeight = 16;

/// Two vectors of the CPU that runs.
template <class T>
std::size_t tile_columns() noexcept;
/// tile [kTileRows, tile_columns()] = the sums over k by leaf blocks; begin: what a single block's sums begin with, or
/// null: zeros. a [k, kTileRows], b [k, tile_columns()]: panels.
template <class T>
void multiply_tile(const T* a, const T* b, const LeafRows& k, const T* begin, T* tile) noexcept;

}  // namespace sinew::parallel

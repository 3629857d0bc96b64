#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/parallel/invariant/leaf_rows.hpp>

namespace sinew::parallel {

/// A tile of a product: kTileRows rows by tile_columns() columns.
inline constexpr std::size_t kTileRows = 4;
/// The largest height of the tree of leaf blocks.
inline constexpr int kMostHeight = 16;

/// Two vectors of the CPU that runs the program.
template <class T>
std::size_t tile_columns() noexcept;
/// tile [kTileRows, tile_columns()] = the sums over k by leaf blocks. begin: if there is a single block, the values
/// with which its sums begin; null: zeros. a [k, kTileRows] and b [k, tile_columns()] are panels.
template <class T>
void multiply_tile(const T* a, const T* b, const LeafRows& k, const T* begin, T* tile) noexcept;

}  // namespace sinew::parallel

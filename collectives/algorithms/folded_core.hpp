#pragma once

#include <algorithm>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule.hpp>

namespace sinew {

/// A run of places.
struct Places {
  int first = 0;
  int count = 0;
};

/// The largest power of two of ranks, at places 0, 1, ...; each of the first `extra` places stands for two neighbours,
/// one of which takes no part between its first and its last message.
class FoldedCore {
 public:
  /// `keeps`: a rank that is not to be the one left out. `near_first`: places count with their bits in reverse order,
  /// so that who differs in the highest bit is a neighbour, and sums that halve go by the canonical tree.
  FoldedCore(int rank, int ranks, int keeps, bool near_first = false)
      : size_(1 << floor_log2(ranks)),
        extra_(ranks - size_),
        rank_(rank),
        keeps_(keeps),
        near_first_(near_first),
        place_(place_of(rank)) {}

  int size() const { return size_; }
  int place() const { return place_; }
  int place_of(int rank) const { return mirrored(rank < 2 * extra_ ? rank / 2 : rank - extra_); }
  bool takes_part() const { return rank_at(place_) == rank_; }
  bool is_paired() const { return is_paired(place_); }
  bool is_paired(int place) const { return mirrored(place) < extra_; }
  int partner() const { return rank_ ^ 1; }
  int peer(int distance) const { return rank_at(place_ ^ distance); }
  /// Of the first rank that a place stands for, where places are in the order of ranks.
  int first_rank(int place) const { return place + std::min(place, extra_); }

  /// The places that share this one's bits from `distance` on, and those that differ in that bit alone.
  Places near(int distance) const { return {place_ / distance * distance, distance}; }
  Places far(int distance) const { return {(place_ ^ distance) / distance * distance, distance}; }

 private:
  int rank_at(int place) const {
    const int first = first_rank(mirrored(place));
    return is_paired(place) && first + 1 == keeps_ ? keeps_ : first;
  }
  /// Its own inverse.
  int mirrored(int place) const {
    if (!near_first_) return place;
    int mirror = 0;
    for (int bit = 1; bit < size_; bit *= 2, place /= 2) mirror = 2 * mirror + place % 2;
    return mirror;
  }

  int size_;
  int extra_;
  int rank_;
  int keeps_;
  bool near_first_;
  int place_;
};

/// Chunks by places: one for each place, or those of all the ranks it stands for.
struct PlacedChunks {
  const FoldedCore* core = nullptr;
  bool by_rank = false;
  Slice chunks{};
  int first = 0;  ///< place that the chunks start with

  Slice operator()(Places p) const {
    const int from = chunk(p.first);
    return chunks.part(from - chunk(first), chunk(p.first + p.count) - from);
  }
  /// The same on other memory, which starts with a place of its own.
  PlacedChunks on(Slice memory, int place) const { return {core, by_rank, memory, place}; }

 private:
  int chunk(int place) const { return by_rank ? core->first_rank(place) : place; }
};

}  // namespace sinew

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sinew/collectives/control/notice.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// What a rank has learnt of ends: the failure table. The first reason stays.
/// Thread: one at a time; its owner has a lock.
class SINEW_API Failures {
 public:
  explicit Failures(int ranks) : lost_(static_cast<std::size_t>(ranks)), left_(lost_.size()) {}

  /// false: known already.
  bool learn(const Notice& notice);

  bool lost(int rank) const noexcept { return lost_[static_cast<std::size_t>(rank)].has_value(); }
  bool left(int rank) const noexcept { return left_[static_cast<std::size_t>(rank)]; }
  bool living(int rank) const noexcept { return !lost(rank) && !left(rank); }
  /// Why a communicator has ended: it, the first of its ranks known to be lost, or the generation. Ok: it lives.
  Status end_of(std::uint64_t communicator, const std::vector<int>& world_ranks) const;
  /// Whom the World has lost first, else why the generation has ended, whatever has become of its communicators. Ok: it
  /// is whole.
  Status world_end() const;
  /// The latest of that rank, and whether there is one.
  std::optional<Notice> proposal_of(int leader) const { return latest(proposals_, leader); }
  std::optional<Notice> vote_of(int rank) const { return latest(votes_, rank); }
  /// Everything known, for somebody who knows nothing.
  std::vector<Notice> all() const;

 private:
  /// Ended communicators are few; a program that makes and ends them for ever must not grow the table.
  static constexpr std::size_t kMostEnded = 1024;

  using ByRank = std::map<int, Notice>;
  static bool learn_later(ByRank& known, const Notice& notice);
  static std::optional<Notice> latest(const ByRank& known, int rank) {
    const auto at = known.find(rank);
    return at == known.end() ? std::nullopt : std::optional(at->second);
  }

  std::vector<std::optional<Notice>> lost_;
  std::vector<int> lost_order_;  // as it was learned
  std::vector<bool> left_;
  std::map<std::uint64_t, Notice> ended_;
  std::vector<std::uint64_t> ended_order_;
  std::optional<Notice> world_;
  ByRank proposals_;
  ByRank votes_;
};

}  // namespace sinew

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/simulator/kinds.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// How all ranks move when one does, so that schedule and network look the same: round a circle (a ring), or by
/// flipping bits of a number (partners at distance 1, 2, 4, ...).
enum class Shift : std::uint8_t { None, Cyclic, Flip };

/// Which ranks behave alike: those that become each other when blocks of `hosts_per_block` hosts are shifted, and when
/// the places on all hosts are. One of each kind stands for all: the first.
/// Lifetime: the network outlives it.
class SINEW_API Symmetry {
 public:
  /// Shape: `hosts_per_block` divides the hosts; what flips is a power of two of them.
  Symmetry(const Network& network, Shift blocks, int hosts_per_block, Shift places);
  /// Ranks of a kind are alike. This is exact.
  Symmetry(const Network& network, std::shared_ptr<const Kinds> by);
  static Symmetry none(const Network& network) { return {network, Shift::None, network.hosts, Shift::None}; }
  /// All that a network of this form admits, the fewest kinds first, and last none(); that alone of unequal hosts.
  static std::vector<Symmetry> all_of(const Network& network);

  /// Whether ranks of a kind find the same links everywhere. Otherwise (a fat tree shifted by less than a leaf, rails
  /// that ranks share) some of those that send as far cross the spine and some do not.
  bool exact() const noexcept { return exact_; }
  /// The number of ranks that behave alike. For Kinds it is the mean.
  int alike() const noexcept { return alike_; }
  /// The number of ranks that behave as this one does, with itself.
  int alike_to(int rank) const noexcept;
  int kinds() const noexcept { return by_ ? static_cast<int>(by_->first.size()) : network_->ranks() / alike_; }
  /// The kinds, if they decide which ranks are alike. Null: shifts decide it.
  const Kinds* by() const noexcept { return by_.get(); }
  /// "8 of 100000 ranks simulated, each for 12500 that behave alike"
  std::string describe() const;

  /// Of kind 0, 1, ...
  int first_of(int kind) const noexcept;
  int kind_of(int rank) const noexcept;
  /// Of a kind two ranks besides the first, to compare with it: the next one, and the last.
  std::vector<int> samples(int kind) const;
  /// Where `other` comes to be when `rank` is shifted to the first of its kind.
  int seen_from(int rank, int other) const noexcept;

  /// Of the ranks alike to `from`, which send to those alike to `to` as far as these are from each other, the part that
  /// passes from leaf to leaf. Shape: not on one host.
  double crossing(int from, int to) const;
  /// Links that become each other, and the first of them.
  NetworkLink first_like(const NetworkLink& link) const noexcept;
  int links_like(const NetworkLink& link) const noexcept;

 private:
  static int shifted(Shift how, int count, int by, int what) noexcept;
  bool leaves_shift() const noexcept;
  bool of_whole_leaves() const noexcept { return network_->form == NetworkForm::FatTree && leaves_per_block_ > 0; }
  bool finds_same_links() const noexcept;

  const Network* network_;
  std::shared_ptr<const Kinds> by_{};
  Shift blocks_;
  int hosts_per_block_;
  Shift places_;
  int shifts_of_blocks_;
  int shifts_of_places_;
  int alike_;
  int leaves_per_block_;  // 0: blocks are parts of leaves
  bool exact_;
};

}  // namespace sinew

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A named direction in which a job's ranks are arranged: "dp" of size 8.
struct Axis {
  std::string name;
  int size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

/// Ranks 0..N-1 as the points of a box: rank = sum over the axes of index * stride; the first axis has stride 1, each
/// further one the product of the sizes before it. Pure arithmetic, nothing is communicated.
/// Axes are named by one string, names joined by '-': "tp", "dp-cp". Several together are one flattened axis, whose
/// order is always that of the factorisation, first axis fastest, however the string lists them.
/// Errors:   InvalidArgument, naming the axis and those that there are, for an unknown or repeated name, and for a rank
///           outside 0..N-1.
/// Source:   Megatron-LM's orders ("tp-cp-ep-dp-pp", leftmost nearest); PyTorch's DeviceMesh for slices and views.
class SINEW_API Factorisation {
 public:
  /// Errors: InvalidArgument for an empty or repeated name, a name with '-', a size below 1, more than 2^31 - 1 ranks.
  explicit Factorisation(std::vector<Axis> axes);
  /// The axes of `order` ("tp-cp-dp-pp"), each with its size of `sizes`, 1 where that has none; then those of `sizes`
  /// that the order does not name, if their size is 1, so that they can be asked for.
  /// Errors: as above; InvalidArgument, too, for a size above 1 whose axis the order does not name.
  static Factorisation ordered(std::string_view order, std::span<const Axis> sizes);

  int ranks() const noexcept;
  const std::vector<Axis>& axes() const noexcept { return axes_; }
  bool has(std::string_view axis) const noexcept;
  /// The same axes as the factorisation orders them: "dp-cp" is "cp-dp" where cp comes first.
  std::string in_order(std::string_view axes) const;
  /// Ranks along these axes together.
  int size(std::string_view axes) const;
  /// From one rank along `axis`, a single one, to the next.
  int stride(std::string_view axis) const;
  /// Where `rank` lies along these axes together, 0..size(axes)-1.
  int index(int rank, std::string_view axes) const;
  /// The ranks that differ from `rank` along these axes only, by index; that is in ascending order, too.
  std::vector<int> group_of(int rank, std::string_view axes) const;
  /// All such groups, by their lowest rank. Every rank is in exactly one.
  std::vector<std::vector<int>> groups(std::string_view axes) const;

  /// How the ranks of one group along these axes are arranged among themselves: a mesh of the group's communicator.
  Factorisation slice(std::string_view axes) const;
  /// The same ranks with `axis` cut into `parts`, whose first keeps the axis' stride: dp 8 as dp_shard 4,
  /// dp_replicate 2. Errors: InvalidArgument where the sizes of the parts do not multiply to the axis'.
  Factorisation split(std::string_view axis, std::vector<Axis> parts) const;

  /// "tp 2, dp 4, pp 2".
  std::string to_string() const;
  friend bool operator==(const Factorisation&, const Factorisation&) = default;

 private:
  /// For each axis whether `axes` names it.
  std::vector<bool> named_by(std::string_view axes) const;
  std::size_t place_of(std::string_view axis) const;
  void require_rank(int rank) const;

  std::vector<Axis> axes_;
};

}  // namespace sinew::parallel

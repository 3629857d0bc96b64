#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A named direction in which a job's ranks are arranged, such as "dp" of size 8.
struct Axis {
  std::string name;
  int size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

/// Ranks 0..N-1 as the points of a box: a rank is the sum over the axes of index * stride. The first axis has stride 1.
/// The stride of each other axis is the product of the sizes before it. This is arithmetic; nothing is communicated.
/// A string names one axis or several, joined by '-': "tp", "dp-cp". Several axes together are one flattened axis. Its
/// order is always that of the factorisation, with the first axis fastest, in whatever order the string lists them.
/// Errors: InvalidArgument for an unknown or repeated name, naming the axis and those that there are, and for a rank
///         outside 0..N-1.
/// Source: Megatron-LM's orders ("tp-cp-ep-dp-pp", leftmost nearest); PyTorch's DeviceMesh for slices and views.
class SINEW_API Factorisation {
 public:
  /// Errors: InvalidArgument for an empty or repeated name, a name with '-', a size below 1, more than 2^31 - 1 ranks.
  explicit Factorisation(std::vector<Axis> axes);
  /// The axes of `order` ("tp-cp-dp-pp"), each with its size from `sizes`, or 1 if it has none there. Axes of `sizes`
  /// that the order does not name follow, if their size is 1, so that they can be asked for.
  /// Errors: as above. InvalidArgument also for a size above 1 whose axis the order does not name.
  static Factorisation ordered(std::string_view order, std::span<const Axis> sizes);

  int ranks() const noexcept;
  const std::vector<Axis>& axes() const noexcept { return axes_; }
  bool has(std::string_view axis) const noexcept;
  /// The same axes in the order of the factorisation: "dp-cp" becomes "cp-dp" if cp comes first.
  std::string in_order(std::string_view axes) const;
  /// The number of ranks along these axes together.
  int size(std::string_view axes) const;
  /// The distance in ranks from one rank along `axis`, a single one, to the next.
  int stride(std::string_view axis) const;
  /// The place of `rank` along these axes together, 0..size(axes)-1.
  int index(int rank, std::string_view axes) const;
  /// The ranks that differ from `rank` along these axes only, by index. That is also in ascending order.
  std::vector<int> group_of(int rank, std::string_view axes) const;
  /// All such groups, by their lowest rank. Every rank is in exactly one.
  std::vector<std::vector<int>> groups(std::string_view axes) const;

  /// The arrangement of the ranks of one group along these axes. It is the mesh of the group's communicator.
  Factorisation slice(std::string_view axes) const;
  /// The same ranks with `axis` cut into `parts`. The first part keeps the stride of the axis: dp 8 becomes dp_shard 4,
  /// dp_replicate 2.
  /// Errors: InvalidArgument if the sizes of the parts do not multiply to the size of the axis.
  Factorisation split(std::string_view axis, std::vector<Axis> parts) const;

  /// "tp 2, dp 4, pp 2".
  std::string to_string() const;
  friend bool operator==(const Factorisation&, const Factorisation&) = default;

 private:
  /// For each axis, whether `axes` names it.
  std::vector<bool> named_by(std::string_view axes) const;
  std::size_t place_of(std::string_view axis) const;
  void require_rank(int rank) const;

  std::vector<Axis> axes_;
};

}  // namespace sinew::parallel

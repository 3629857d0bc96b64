#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// An all_gather or a reduce_scatter of rows, taken apart into messages. The rows of each rank are computed with while
/// the next rank's rows are sent. Rows go round the ring of the group's ranks.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   as sendrecv.
/// Cost:     P - 1 messages of a rank's rows. Sums of the reduce_scatter are in T, in the order of the ring; their last
///           bit may differ from the collective's.
/// Source:   Wang et al., Overlap communication with dependent computation via decomposition (ASPLOS 2023).
template <class T>
class SINEW_API RingRows {
 public:
  /// cut: the cut of `rows` rows over the ranks, in parts of any lengths.
  /// Errors: InvalidArgument for a cut that does not cover the rows, and for a negative number of columns.
  RingRows(CallGroup group, const Shard& cut, std::int64_t rows, std::int64_t columns,
           const ComputeDevice& device = {});

  const Rows& own() const noexcept { return rows_[static_cast<std::size_t>(rank_)]; }

  /// Gathers `own` into `whole` [rows, columns]. `here` is called with each rank's rows when they have arrived.
  void gather(const T* own, T* whole, const std::function<void(const Rows&)>& here);
  /// Sums rows over all ranks. `make` writes this rank's contribution to some rows. `out` gets the sums of own() rows.
  /// room: room_rows() * columns elements.
  void scatter(const std::function<void(const Rows&, T*)>& make, T* room, T* out);

  std::int64_t room_rows() const noexcept { return 3 * most_; }
  static std::int64_t room_rows(const Shard& cut, int ranks, std::int64_t rows) noexcept;

 private:
  const Rows& of(int rank) const noexcept { return rows_[static_cast<std::size_t>((rank % ranks_ + ranks_) % ranks_)]; }
  /// Sends rows to the next rank, and receives rows from the previous rank.
  Work pass(const Rows& out, const T* from, const Rows& in, T* to);

  CallGroup group_;
  int rank_, ranks_;
  std::int64_t columns_, most_ = 0;
  std::vector<Rows> rows_;  // by rank
  ComputeDevice device_;
  std::shared_ptr<const LayerMath<T>> math_;
};

extern template class RingRows<float>;
extern template class RingRows<double>;

}  // namespace sinew::parallel

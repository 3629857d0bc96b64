#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/awaited_work.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>
#include <sinew/parallel/tensor/ring_rows.hpp>

namespace sinew::parallel {

template <class T>
RingRows<T>::RingRows(CallGroup group, const Shard& cut, std::int64_t rows, std::int64_t columns,
                      const ComputeDevice& device)
    : group_(group),
      rank_(GroupPlace(group).rank),
      ranks_(GroupPlace(group).ranks),
      columns_(columns),
      most_(room_rows(checked_cut(cut, ranks_, rows, "rows", "the ring"), ranks_, rows) / 3),
      device_(device),
      math_(layer_math<T>(device)) {
  if (columns < 0)
    throw Error(Code::InvalidArgument, fmt::format("ring of rows: {} columns, expected 0 or more", columns));
  for (int r = 0; r < ranks_; ++r) rows_.push_back(rows_of(cut, r, ranks_, rows));
}

template <class T>
std::int64_t RingRows<T>::room_rows(const Shard& cut, int ranks, std::int64_t rows) noexcept {
  std::int64_t most = 0;
  for (int r = 0; r < ranks; ++r) most = std::max(most, rows_of(cut, r, ranks, rows).count());
  return 3 * most;
}

template <class T>
Work RingRows<T>::pass(const Rows& out, const T* from, const Rows& in, T* to) {
  return group_->sendrecv(placed(device_, from, out.count() * columns_), (rank_ + 1) % ranks_,
                          placed(device_, to, in.count() * columns_), (rank_ + ranks_ - 1) % ranks_, 0, 0,
                          in_order(device_, group_.options("rows of a layer")));
}

template <class T>
void RingRows<T>::gather(const T* own, T* whole, const std::function<void(const Rows&)>& here) {
  const auto place = [&](const Rows& rows) { return whole + rows.first * columns_; };
  math_->copy(own, place(of(rank_)), of(rank_).count() * columns_);
  for (int step = 0; step < ranks_; ++step) {
    const Rows &now = of(rank_ - step), &next = of(rank_ - step - 1);
    AwaitedWork coming;
    if (step + 1 < ranks_) coming = AwaitedWork(pass(now, place(now), next, place(next)));
    here(now);
    coming.get();
  }
}

/// The sum of a rank's rows begins with the rank after it and ends with itself.
template <class T>
void RingRows<T>::scatter(const std::function<void(const Rows&, T*)>& make, T* room, T* out) {
  T *mine = room, *sum = mine + most_ * columns_, *before = sum + most_ * columns_;
  for (int step = 0; step < ranks_; ++step) {
    const Rows& rows = of(rank_ - step - 1);
    AwaitedWork coming;
    if (step > 0) {
      std::swap(before, sum);
      coming = AwaitedWork(pass(of(rank_ - step), before, rows, sum));
    }
    make(rows, step > 0 ? mine : sum);
    coming.get();
    if (step > 0) math_->add(mine, T{1}, sum, rows.count() * columns_);
  }
  math_->copy(sum, out, of(rank_).count() * columns_);
}

template class RingRows<float>;
template class RingRows<double>;

}  // namespace sinew::parallel

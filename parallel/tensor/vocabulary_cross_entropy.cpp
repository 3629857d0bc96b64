#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>
#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kCrossEntropyLabel = "cross entropy of a cut vocabulary";
constexpr std::size_t kSums = 3;

[[noreturn]] void complain(const CrossEntropyShape& shape, const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("cross_entropy of '{}': {}", shape.name, why));
}

}  // namespace

template <class T>
VocabularyCrossEntropy<T>::VocabularyCrossEntropy(CallGroup group, const std::string& axis,
                                                  const CrossEntropyShape& shape, const ComputeDevice& device)
    : group_(group),
      axis_(axis),
      shape_(shape),
      mine_(rows_of(checked_cut(shape.cut, GroupPlace(group).ranks, shape.vocabulary, shape.name, axis),
                    GroupPlace(group).rank, GroupPlace(group).ranks, shape.vocabulary)),
      device_(device),
      math_(layer_math<T>(device)),
      maxima_(device, static_cast<std::size_t>(shape.rows)),
      sums_(device, kSums * maxima_.size()),
      not_numbers_(device, maxima_.size()),
      read_(sums_.size()),
      losses_(maxima_.size()) {
  if (shape.leaves > 0) leaves_.resize(static_cast<std::size_t>(2 * shape.leaves));
  if (shape.leaves > 0 && device.exists())
    throw Error(Code::InvalidArgument,
                fmt::format("cross_entropy of '{}': layout-invariant sums on a device; expected sums "
                            "in the fastest way, or memory of the host",
                            shape.name));
  if (!(shape.label_smoothing >= 0 && shape.label_smoothing <= 1))
    complain(shape, fmt::format("label smoothing {}, expected 0 to 1", shape.label_smoothing));
}

template <class T>
void VocabularyCrossEntropy<T>::require(std::span<const std::int64_t> targets) const {
  if (std::ssize(targets) != shape_.rows)
    complain(shape_, fmt::format("{} targets, expected {}", targets.size(), shape_.rows));
  const auto bad = std::ranges::find_if(
      targets, [&](std::int64_t t) { return t != shape_.ignored && (t < 0 || t >= shape_.vocabulary); });
  if (bad != targets.end())
    complain(shape_, fmt::format("target {} in row {}, expected 0 to {}, or {} for one that does not count", *bad,
                                 bad - targets.begin(), shape_.vocabulary - 1, shape_.ignored));
}

template <class T>
void VocabularyCrossEntropy<T>::find_maxima(const T* logits) {
  math_->row_maxima(logits, shape_.rows, mine_.count(), maxima_.data(), not_numbers_.data());
  if (GroupPlace(*group_).ranks == 1) return;
  group_
      ->all_reduce(ConstBuffer(maxima_.buffer()), maxima_.buffer(), DType::F64, ReduceOp::Max,
                   in_order(device_, group_.options(kCrossEntropyLabel)))
      .get();
}

template <class T>
void VocabularyCrossEntropy<T>::add_columns(T* logits, double most, std::int64_t first, std::int64_t last,
                                            double* to) const {
  double exponentials = 0, all = 0;
  for (std::int64_t c = first; c < last; ++c) {
    const double above = static_cast<double>(logits[c]) - most;
    const double power = std::exp(above);
    all += above;
    exponentials += power;
    logits[c] = static_cast<T>(power);
  }
  to[0] = exponentials, to[1] = all;
}

template <class T>
void VocabularyCrossEntropy<T>::sum_leaves(T* logits, std::span<const std::int64_t> targets) {
  const std::int64_t columns = mine_.count(), leaf = shape_.vocabulary / shape_.leaves;
  for (std::size_t r = 0; r < maxima_.size(); ++r, logits += columns) {
    std::array<double, 2> made{};
    const double most = maxima_.data()[r];
    const std::int64_t at = targets[r] - mine_.first;
    double* sums = sums_.data() + kSums * r;
    sums[1] = at >= 0 && at < columns ? static_cast<double>(logits[at]) - most : 0;
    for (std::int64_t c = 0; c < columns; c += leaf)
      add_columns(logits, most, c, c + leaf, leaves_.data() + 2 * (c / leaf));
    sum_leaf_rows(leaves_.data(), {.rows = columns / leaf, .leaf = 1}, 2, 2, made.data());
    sums[0] = not_numbers_.data()[r] != 0 ? std::numeric_limits<double>::quiet_NaN() : made[0];
    sums[2] = made[1];
  }
}

template <class T>
void VocabularyCrossEntropy<T>::sum_exponentials(T* logits, std::span<const std::int64_t> targets) {
  if (shape_.leaves > 0) {
    sum_leaves(logits, targets);
  } else {
    math_->exponentials(logits, shape_.rows, mine_.count(), targets_.of(device_, targets), mine_.first, maxima_.data(),
                        not_numbers_.data(), sums_.data());
  }
  if (GroupPlace(*group_).ranks == 1) return;
  const Determinism determinism = shape_.leaves > 0 ? Determinism::LayoutInvariant : Determinism::Fast;
  group_
      ->all_reduce(ConstBuffer(sums_.buffer()), sums_.buffer(), DType::F64, ReduceOp::Sum,
                   in_order(device_, group_.options(kCrossEntropyLabel, {.determinism = determinism})))
      .get();
}

/// On all ranks alike: what they see of the row is the same.
template <class T>
void VocabularyCrossEntropy<T>::complain_of(std::int64_t row) {
  std::vector<double> not_numbers(not_numbers_.size());
  not_numbers_.read(not_numbers);
  const bool mine = not_numbers[static_cast<std::size_t>(row)] != 0;
  const GroupPlace place(*group_);
  std::vector<std::int64_t> first{mine ? place.rank : place.ranks};
  if (place.ranks > 1) group_->all_reduce(first, ReduceOp::Min, group_.options(kCrossEntropyLabel)).get();
  complain(shape_, first[0] < place.ranks
                       ? fmt::format("row {} has a logit that is not a number, on {} along {}", row,
                                     group_->rank_text(static_cast<int>(first[0])), axis_)
                       : fmt::format("row {} has an infinite logit, or none that is more than -inf", row));
}

template <class T>
TokenLoss VocabularyCrossEntropy<T>::forward(T* logits, std::span<const std::int64_t> targets) {
  require(targets);
  find_maxima(logits);
  sum_exponentials(logits, targets);
  const double smoothing = shape_.label_smoothing, each = smoothing / static_cast<double>(shape_.vocabulary);
  sums_.read(read_);
  TokenLoss loss;
  for (std::size_t r = 0; r < maxima_.size(); ++r) {
    const double* sums = read_.data() + kSums * r;
    if (!std::isfinite(sums[0])) complain_of(static_cast<std::int64_t>(r));
    losses_[r] = 0;
    if (targets[r] == shape_.ignored) continue;
    losses_[r] = std::log(sums[0]) - (1 - smoothing) * sums[1] - (smoothing > 0 ? each * sums[2] : 0);
    loss.sum += losses_[r];
    ++loss.tokens;
  }
  math_->divide_rows(logits, shape_.rows, mine_.count(), sums_.data());
  return loss;
}

template <class T>
void VocabularyCrossEntropy<T>::backward(T* softmax, std::span<const std::int64_t> targets, double scale) {
  require(targets);
  math_->cross_entropy_gradient({scale, shape_.label_smoothing, shape_.vocabulary, shape_.ignored},
                                targets_.of(device_, targets), mine_.first, shape_.rows, mine_.count(), softmax);
}

template class VocabularyCrossEntropy<float>;
template class VocabularyCrossEntropy<double>;

}  // namespace sinew::parallel

#include <bit>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/invariant/tree_sum.hpp>

namespace sinew::parallel {
namespace {

[[noreturn]] void complain(const std::string& why) { throw Error(Code::InvalidArgument, "tree sum: " + why); }

}  // namespace

template <class T>
TreeSum<T>::TreeSum(std::int64_t leaves, std::size_t elements) : leaves_(leaves), elements_(elements) {
  if (leaves < 1 || !std::has_single_bit(static_cast<std::uint64_t>(leaves)))
    complain(fmt::format("{} leaves, expected a power of two", leaves));
  height_ = std::countr_zero(static_cast<std::uint64_t>(leaves));
}

template <class T>
std::vector<T> TreeSum<T>::room() {
  if (spare_.empty()) return std::vector<T>(elements_);
  std::vector<T> vector = std::move(spare_.back());
  spare_.pop_back();
  return vector;
}

template <class T>
void TreeSum<T>::add(std::int64_t leaf, std::vector<T> values) {
  if (leaf < 0 || leaf >= leaves_) complain(fmt::format("leaf {}, expected 0 to {}", leaf, leaves_ - 1));
  if (values.size() != elements_) complain(fmt::format("{} elements, expected {}", values.size(), elements_));
  for (int height = 0; height <= height_; ++height) {
    if (waiting_.contains({height, leaf >> height})) complain(fmt::format("leaf {} has come already", leaf));
  }
  Node node{0, leaf};
  for (; node.first < height_; node = {node.first + 1, node.second / 2}) {
    const auto sibling = waiting_.find({node.first, node.second ^ 1});
    if (sibling == waiting_.end()) break;
    T* to = values.data();
    const T* other = sibling->second.data();
    for (std::size_t i = 0; i < elements_; ++i) to[i] += other[i];
    spare_.push_back(std::move(sibling->second));
    waiting_.erase(sibling);
  }
  waiting_.emplace(node, std::move(values));
  ++count_;
}

template <class T>
std::vector<T> TreeSum<T>::take() {
  if (!is_complete()) complain(fmt::format("{} of {} leaves have come", count_, leaves_));
  std::vector<T> sum = std::move(waiting_.begin()->second);
  waiting_.clear();
  count_ = 0;
  return sum;
}

template <class T>
void TreeSum<T>::clear() {
  for (auto& [node, values] : waiting_) spare_.push_back(std::move(values));
  waiting_.clear();
  count_ = 0;
}

template class TreeSum<float>;
template class TreeSum<double>;

}  // namespace sinew::parallel

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/expert/all_gather_dispatcher.hpp>
#include <sinew/parallel/expert/announce.hpp>
#include <sinew/parallel/expert/routed_tokens.hpp>

namespace sinew::parallel {
template <class T>
class AllGatherDispatcher<T>::Handle final : public Dispatch<T> {
 public:
  Handle(AllGatherDispatcher& of, const Routing<T>& routing);

  void start(const T* x) override;
  void receive(std::size_t chunk, T* rows) override;
  void give_back(std::size_t chunk, const T* rows) override;
  void collect(T* out) override;
  void return_gates(const T* of_rows, T* to) override;

 private:
  std::size_t ranks() const noexcept { return tokens_.size(); }
  std::size_t me() const noexcept { return at(GroupPlace(*of_.group_).rank); }
  std::vector<std::uint64_t> elements(std::int64_t of_token) const;
  /// Gathers the data of all ranks, which have `of_token` elements for each token. own: this rank's data.
  template <class E>
  std::vector<E> gather(const E* own, std::int64_t of_token) const;
  void sum(const T* all, std::int64_t of_token, T* own);
  void account(std::size_t to, std::int64_t tokens);
  std::int64_t all_tokens() const noexcept { return std::accumulate(tokens_.begin(), tokens_.end(), std::int64_t{0}); }

  AllGatherDispatcher& of_;
  std::int64_t top_k_;
  std::vector<std::int64_t> tokens_;        // by rank
  std::vector<std::int64_t> place_of_row_;  // in [tokens of all ranks, top_k]
};

template <class T>
AllGatherDispatcher<T>::AllGatherDispatcher(CallGroup group, Rows experts, std::vector<int> hosts, DispatchShape shape)
    : group_(group), experts_(experts), hosts_(std::move(hosts)), shape_(std::move(shape)) {}

template <class T>
std::unique_ptr<Dispatch<T>> AllGatherDispatcher<T>::plan(const Routing<T>& routing) {
  require_routing(routing, shape_.name, shape_.experts, shape_.top_k);
  return std::make_unique<Handle>(*this, routing);
}

template <class T>
AllGatherDispatcher<T>::Handle::Handle(AllGatherDispatcher& of, const Routing<T>& routing)
    : of_(of), top_k_(routing.top_k) {
  const auto all = static_cast<std::size_t>(GroupPlace(*of_.group_).ranks);
  const std::vector<std::int64_t> mine{routing.tokens, of_.shape_.experts, top_k_, of_.shape_.width};
  const std::vector<std::size_t> as_many(all, mine.size());
  for (const auto& numbers : announce(of_.group_, routing.router, {all, mine}, as_many, routing.fault)) {
    if (!std::equal(mine.begin() + 1, mine.end(), numbers.begin() + 1))
      throw Error(
          Code::InvalidArgument,
          fmt::format("dispatcher '{}': {} has top {} of {} experts, width {}; expected top {} of {}, width {}, as "
                      "here",
                      of_.shape_.name, of_.group_->rank_text(static_cast<int>(tokens_.size())), numbers[2], numbers[1],
                      numbers[3], mine[2], mine[1], mine[3]));
    tokens_.push_back(numbers[0]);
  }
  const std::vector<std::int32_t> experts = gather(routing.experts.data(), top_k_);
  const std::vector<T> gates = gather(routing.gates.data(), top_k_);
  const auto is_here = [&](std::int32_t e) { return e >= of_.experts_.first && e < of_.experts_.last; };
  this->offsets_.assign(at(of_.experts_.count()) + 1, 0);
  for (const std::int32_t e : experts) {
    if (is_here(e)) ++this->offsets_[at(e - of_.experts_.first) + 1];
  }
  for (std::size_t e = 1; e < this->offsets_.size(); ++e) this->offsets_[e] += this->offsets_[e - 1];
  std::vector<std::int64_t> next(this->offsets_.begin(), this->offsets_.end() - 1);
  place_of_row_.resize(at(this->rows()));
  this->gates_.resize(at(this->rows()));
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (!is_here(experts[i])) continue;
    const std::size_t row = at(next[at(experts[i] - of_.experts_.first)]++);
    place_of_row_[row] = static_cast<std::int64_t>(i);
    this->gates_[row] = gates[i];
  }
  this->chunks_.push_back({0, of_.experts_.count()});
}

template <class T>
std::vector<std::uint64_t> AllGatherDispatcher<T>::Handle::elements(std::int64_t of_token) const {
  std::vector<std::uint64_t> counts;
  for (const std::int64_t tokens : tokens_) counts.push_back(static_cast<std::uint64_t>(tokens * of_token));
  return counts;
}

template <class T>
template <class E>
std::vector<E> AllGatherDispatcher<T>::Handle::gather(const E* own, std::int64_t of_token) const {
  const std::vector<std::uint64_t> counts = elements(of_token);
  std::vector<E> all(at(all_tokens() * of_token));
  if (ranks() > 1) {
    of_.group_->all_gather_v(std::span<const E>(own, counts[me()]), all, {counts}, of_.options()).get();
  } else {
    std::copy_n(own, all.size(), all.begin());
  }
  return all;
}

template <class T>
void AllGatherDispatcher<T>::Handle::sum(const T* all, std::int64_t of_token, T* own) {
  const std::vector<std::uint64_t> counts = elements(of_token);
  if (ranks() == 1) {
    std::copy_n(all, counts[0], own);
    return;
  }
  of_.group_
      ->reduce_scatter_v(elements_of(all, all_tokens() * of_token),
                         elements_of(own, static_cast<std::int64_t>(counts[me()])), dtype_of_layer<T>(), {counts},
                         ReduceOp::Sum, of_.options({.determinism = of_.shape_.determinism}))
      .get();
}

/// So many tokens, or sums of them, to a rank.
template <class T>
void AllGatherDispatcher<T>::Handle::account(std::size_t to, std::int64_t tokens) {
  const std::size_t bytes = at(tokens * of_.shape_.width) * sizeof(T);
  if (to != me()) of_.sent_ += bytes;
  if (!of_.hosts_.empty() && of_.hosts_[to] != of_.hosts_[me()]) of_.sent_between_hosts_ += bytes;
}

template <class T>
void AllGatherDispatcher<T>::Handle::start(const T* x) {
  of_.tokens_ = gather(x, of_.shape_.width);
  for (std::size_t r = 0; r < ranks(); ++r) account(r, tokens_[me()]);
}

template <class T>
void AllGatherDispatcher<T>::Handle::receive(std::size_t, T* rows) {
  const std::int64_t width = of_.shape_.width;
  for (const std::int64_t place : place_of_row_)
    rows = std::copy_n(of_.tokens_.data() + place / top_k_ * width, width, rows);
}

template <class T>
void AllGatherDispatcher<T>::Handle::give_back(std::size_t, const T* rows) {
  const std::int64_t width = of_.shape_.width;
  of_.tokens_.assign(at(all_tokens() * width), T{0});
  for (const std::int64_t place : place_of_row_) {
    T* to = of_.tokens_.data() + place / top_k_ * width;
    for (std::int64_t c = 0; c < width; ++c) to[c] += *rows++;
  }
}

template <class T>
void AllGatherDispatcher<T>::Handle::collect(T* out) {
  sum(of_.tokens_.data(), of_.shape_.width, out);
  for (std::size_t r = 0; r < ranks(); ++r) account(r, tokens_[r]);
}

template <class T>
void AllGatherDispatcher<T>::Handle::return_gates(const T* of_rows, T* to) {
  std::vector<T> by_place(at(all_tokens() * top_k_));
  for (const std::int64_t place : place_of_row_) by_place[at(place)] = *of_rows++;
  sum(by_place.data(), top_k_, to);
}

template class AllGatherDispatcher<float>;
template class AllGatherDispatcher<double>;

}  // namespace sinew::parallel

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/expert/tensor_dispatcher.hpp>

namespace sinew::parallel {
template <class T>
class TensorDispatcher<T>::Handle final : public Dispatch<T> {
 public:
  Handle(TensorDispatcher& of, std::unique_ptr<Dispatch<T>> inner);

  void start(const T* x) override { inner_->start(x); }
  void receive(std::size_t chunk, T* rows) override;
  void give_back(std::size_t chunk, const T* rows) override;
  void collect(T* out) override { inner_->collect(out); }
  void return_gates(const T* of_rows, T* to) override;

 private:
  std::size_t ranks() const noexcept { return of_each_.size(); }
  std::size_t me() const noexcept { return at(of_.group_->rank()); }
  /// By rank, of these experts.
  std::vector<std::uint64_t> elements(const Rows& experts, std::int64_t width) const;
  /// f(first among the rows of these experts by rank, first of all rows, how many) of each expert and rank.
  template <class F>
  void for_each_run(const Rows& experts, const F& f) const;
  /// to: rows of all ranks, of these experts, by rank.
  void gather(const T* own, const Rows& experts, std::int64_t width, T* to);
  void sum(const T* all, const Rows& experts, std::int64_t width, T* own);
  Rows all_experts() const noexcept { return {0, std::ssize(this->offsets_) - 1}; }

  TensorDispatcher& of_;
  std::unique_ptr<Dispatch<T>> inner_;
  std::vector<std::vector<std::int64_t>> of_each_;  // offsets by rank
};

template <class T>
TensorDispatcher<T>::TensorDispatcher(CallGroup group, std::unique_ptr<Dispatcher<T>> inner, DispatchShape shape)
    : group_(group), inner_(std::move(inner)), shape_(std::move(shape)) {}

template <class T>
std::unique_ptr<Dispatch<T>> TensorDispatcher<T>::plan(const Routing<T>& routing) {
  std::unique_ptr<Dispatch<T>> inner;
  std::exception_ptr fault;
  try {
    inner = inner_->plan(routing);
  } catch (const Error& e) {
    if (e.code() != Code::InvalidArgument) throw;
    fault = std::current_exception();
  }
  std::array<std::int64_t, 1> faulty{fault ? std::int64_t{group_->rank()} : group_->size()};
  group_->all_reduce(faulty, ReduceOp::Min, options()).get();
  if (fault) std::rethrow_exception(fault);
  if (faulty[0] < group_->size())
    throw Error(Code::InvalidArgument, fmt::format("'{}': {} has tokens that cannot be routed: expected finite logits",
                                                   routing.router, group_->rank_text(static_cast<int>(faulty[0]))));
  return std::make_unique<Handle>(*this, std::move(inner));
}

template <class T>
TensorDispatcher<T>::Handle::Handle(TensorDispatcher& of, std::unique_ptr<Dispatch<T>> inner)
    : of_(of), inner_(std::move(inner)) {
  const std::vector<std::int64_t>& mine = inner_->offsets();
  std::vector<std::int64_t> all(mine.size() * at(of_.group_->size()));
  of_.group_->all_gather(mine, all, of_.options()).get();
  for (auto first = all.begin(); first != all.end(); first += std::ssize(mine))
    of_each_.emplace_back(first, first + std::ssize(mine));
  this->offsets_.assign(mine.size(), 0);
  for (const auto& offsets : of_each_) {
    for (std::size_t e = 0; e < offsets.size(); ++e) this->offsets_[e] += offsets[e];
  }
  this->chunks_ = inner_->chunks();
  std::vector<T> by_rank(at(this->rows()));
  gather(inner_->gates().data(), all_experts(), 1, by_rank.data());
  this->gates_.resize(by_rank.size());
  for_each_run(all_experts(), [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(by_rank.data() + from, n, this->gates_.data() + to);
  });
}

template <class T>
std::vector<std::uint64_t> TensorDispatcher<T>::Handle::elements(const Rows& experts, std::int64_t width) const {
  std::vector<std::uint64_t> counts;
  for (const auto& offsets : of_each_)
    counts.push_back(static_cast<std::uint64_t>((offsets[at(experts.last)] - offsets[at(experts.first)]) * width));
  return counts;
}

template <class T>
template <class F>
void TensorDispatcher<T>::Handle::for_each_run(const Rows& experts, const F& f) const {
  std::int64_t from = 0;
  for (std::size_t r = 0; r < ranks(); ++r) {
    for (std::int64_t e = experts.first; e < experts.last; ++e) {
      std::int64_t to = this->offsets_[at(e)];
      for (std::size_t before = 0; before < r; ++before) to += of_each_[before][at(e) + 1] - of_each_[before][at(e)];
      const std::int64_t n = of_each_[r][at(e) + 1] - of_each_[r][at(e)];
      f(from, to, n);
      from += n;
    }
  }
}

template <class T>
void TensorDispatcher<T>::Handle::gather(const T* own, const Rows& experts, std::int64_t width, T* to) {
  const std::vector<std::uint64_t> counts = elements(experts, width);
  std::uint64_t all = 0;
  for (const std::uint64_t count : counts) all += count;
  of_.sent_ += counts[me()] * (ranks() - 1) * sizeof(T);
  of_.group_->all_gather_v(std::span(own, counts[me()]), std::span(to, all), {counts}, of_.options()).get();
}

template <class T>
void TensorDispatcher<T>::Handle::sum(const T* all, const Rows& experts, std::int64_t width, T* own) {
  const std::vector<std::uint64_t> counts = elements(experts, width);
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) total += count;
  of_.sent_ += (total - counts[me()]) * sizeof(T);
  const CallOptions call = of_.options({.determinism = of_.shape_.determinism});
  of_.group_->reduce_scatter_v(std::span(all, total), std::span(own, counts[me()]), {counts}, ReduceOp::Sum, call)
      .get();
}

template <class T>
void TensorDispatcher<T>::Handle::receive(std::size_t chunk, T* rows) {
  const std::int64_t width = of_.shape_.width;
  const Rows& experts = this->chunks_[chunk];
  of_.own_.resize(std::max(of_.own_.size(), at(inner_->rows() * width)));
  of_.all_.resize(std::max(of_.all_.size(), at(this->rows() * width)));
  inner_->receive(chunk, of_.own_.data());
  gather(of_.own_.data() + inner_->rows_of_chunk(chunk).first * width, experts, width, of_.all_.data());
  for_each_run(experts, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(of_.all_.data() + from * width, n * width, rows + to * width);
  });
}

template <class T>
void TensorDispatcher<T>::Handle::give_back(std::size_t chunk, const T* rows) {
  const std::int64_t width = of_.shape_.width;
  const Rows& experts = this->chunks_[chunk];
  of_.own_.resize(std::max(of_.own_.size(), at(inner_->rows() * width)));
  of_.all_.resize(std::max(of_.all_.size(), at(this->rows() * width)));
  for_each_run(experts, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    std::copy_n(rows + from * width, n * width, of_.all_.data() + to * width);
  });
  sum(of_.all_.data(), experts, width, of_.own_.data() + inner_->rows_of_chunk(chunk).first * width);
  inner_->give_back(chunk, of_.own_.data());
}

template <class T>
void TensorDispatcher<T>::Handle::return_gates(const T* of_rows, T* to) {
  std::vector<T> by_rank(at(this->rows())), own(at(inner_->rows()));
  for_each_run(all_experts(), [&](std::int64_t place, std::int64_t from, std::int64_t n) {
    std::copy_n(of_rows + from, n, by_rank.data() + place);
  });
  sum(by_rank.data(), all_experts(), 1, own.data());
  inner_->return_gates(own.data(), to);
}

template class TensorDispatcher<float>;
template class TensorDispatcher<double>;

}  // namespace sinew::parallel

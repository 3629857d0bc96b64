#include <algorithm>
#include <cstddef>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/awaited_work.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/expert/all_to_all_dispatcher.hpp>
#include <sinew/parallel/expert/announce.hpp>
#include <sinew/parallel/expert/routed_tokens.hpp>

namespace sinew::parallel {
namespace {

/// One part for each rank. Units: elements.
struct RankParts {
  std::vector<std::uint64_t> counts, displacements;

  void add(std::int64_t first, std::int64_t last, std::int64_t width) {
    counts.push_back(static_cast<std::uint64_t>((last - first) * width));
    displacements.push_back(static_cast<std::uint64_t>(first * width));
  }
  Parts parts() const noexcept { return {counts, displacements}; }
  /// Behind the last part; they ascend.
  std::int64_t end() const noexcept { return static_cast<std::int64_t>(displacements.back() + counts.back()); }
};

}  // namespace

/// Packed rows of the tokens' side lie by expert, and so by rank; those of the experts' side by rank they come from,
/// there by expert.
template <class T>
class AllToAllDispatcher<T>::Handle final : public Dispatch<T> {
 public:
  Handle(AllToAllDispatcher& of, const Routing<T>& routing);

  void start(const T* x) override;
  void receive(std::size_t chunk, T* rows) override;
  void give_back(std::size_t chunk, const T* rows) override;
  void collect(T* out) override;
  void return_gates(const T* of_rows, T* to) override;

 private:
  std::size_t ranks() const noexcept { return of_.experts_.size(); }
  std::size_t me() const noexcept { return at(GroupPlace(*of_.group_).rank); }
  void count(const Routing<T>& routing);
  void lay_out(const std::vector<std::vector<std::int64_t>>& coming);
  void cut_into_chunks();
  /// f(first row on the experts' side, first row among all rows, how many) of each rank and expert of the chunk.
  template <class F>
  void for_each_run(const Rows& chunk, const F& f) const;
  Work exchange(const T* from, const RankParts& going, T* to, const RankParts& coming) const;
  void account(const RankParts& going);

  AllToAllDispatcher& of_;
  std::int64_t tokens_, top_k_;
  std::vector<std::int32_t> order_;              // the token of each packed row
  std::vector<std::int64_t> place_;              // [tokens, top_k]: the packed row, or -1
  std::vector<std::int64_t> to_expert_;          // by expert of all: the first packed row, and the end
  std::vector<std::vector<std::int64_t>> from_;  // by rank and own expert: the first row as it comes, and the end
  std::vector<RankParts> going_, coming_;        // by chunk
  RankParts gates_going_, gates_coming_;         // of all chunks, one element a row
  std::vector<AwaitedWork> forth_, back_;        // by chunk
};

template <class T>
AllToAllDispatcher<T>::AllToAllDispatcher(CallGroup group, std::vector<Rows> experts, std::vector<int> hosts,
                                          DispatchShape shape)
    : group_(group), experts_(std::move(experts)), hosts_(std::move(hosts)), shape_(std::move(shape)) {
  std::int64_t most = 1;
  for (const Rows& of : experts_) most = std::max(most, of.count());
  chunks_ = at(std::min(shape_.chunks, most));
}

template <class T>
Rows AllToAllDispatcher<T>::experts() const noexcept {
  return experts_[at(GroupPlace(*group_).rank)];
}

template <class T>
std::unique_ptr<Dispatch<T>> AllToAllDispatcher<T>::plan(const Routing<T>& routing) {
  require_routing(routing, shape_.name, shape_.experts, shape_.top_k);
  return std::make_unique<Handle>(*this, routing);
}

template <class T>
AllToAllDispatcher<T>::Handle::Handle(AllToAllDispatcher& of, const Routing<T>& routing)
    : of_(of), tokens_(routing.tokens), top_k_(routing.top_k) {
  count(routing);
  std::vector<std::vector<std::int64_t>> counts(ranks());
  for (std::size_t r = 0; r < ranks(); ++r) {
    for (std::int64_t e = of_.experts_[r].first; e < of_.experts_[r].last; ++e)
      counts[r].push_back(to_expert_[at(e) + 1] - to_expert_[at(e)]);
  }
  const std::vector<std::size_t> mine(ranks(), at(of_.experts().count()));
  lay_out(announce(of_.group_, routing.router, counts, mine, routing.fault));
  cut_into_chunks();

  std::vector<T> gates(order_.size()), as_they_come(at(this->rows()));
  for (std::size_t i = 0; i < place_.size(); ++i) {
    if (place_[i] >= 0) gates[at(place_[i])] = routing.gates[i];
  }
  for (std::size_t r = 0; r < ranks(); ++r) {
    gates_going_.add(to_expert_[at(of_.experts_[r].first)], to_expert_[at(of_.experts_[r].last)], 1);
    gates_coming_.add(from_[r].front(), from_[r].back(), 1);
  }
  exchange(gates.data(), gates_going_, as_they_come.data(), gates_coming_).get();
  this->gates_.resize(as_they_come.size());
  for_each_run({0, of_.experts().count()}, [&](std::int64_t came, std::int64_t row, std::int64_t n) {
    std::copy_n(as_they_come.data() + came, n, this->gates_.data() + row);
  });
}

/// Packs by expert, tokens ascending in each.
template <class T>
void AllToAllDispatcher<T>::Handle::count(const Routing<T>& routing) {
  to_expert_.assign(at(of_.shape_.experts) + 1, 0);
  place_.assign(routing.experts.size(), -1);
  if (routing.fault) return;
  for (const std::int32_t e : routing.experts) {
    if (e != kNoExpert) ++to_expert_[at(e) + 1];
  }
  for (std::size_t e = 1; e < to_expert_.size(); ++e) to_expert_[e] += to_expert_[e - 1];
  order_.resize(at(to_expert_.back()));
  std::vector<std::int64_t> next(to_expert_.begin(), to_expert_.end() - 1);
  for (std::size_t i = 0; i < routing.experts.size(); ++i) {
    const std::int32_t e = routing.experts[i];
    if (e == kNoExpert) continue;
    place_[i] = next[at(e)]++;
    order_[at(place_[i])] = static_cast<std::int32_t>(i / at(top_k_));
  }
}

template <class T>
void AllToAllDispatcher<T>::Handle::lay_out(const std::vector<std::vector<std::int64_t>>& coming) {
  const std::size_t mine = at(of_.experts().count());
  std::int64_t row = 0;
  std::vector<std::int64_t> of_expert(mine);
  for (const std::vector<std::int64_t>& counts : coming) {
    std::vector<std::int64_t>& first = from_.emplace_back();
    for (std::size_t e = 0; e < mine; ++e) {
      first.push_back(row);
      row += counts[e];
      of_expert[e] += counts[e];
    }
    first.push_back(row);
  }
  this->offsets_.assign(1, 0);
  for (const std::int64_t n : of_expert) this->offsets_.push_back(this->offsets_.back() + n);
}

template <class T>
void AllToAllDispatcher<T>::Handle::cut_into_chunks() {
  const auto chunks = static_cast<int>(of_.chunks_);
  for (int c = 0; c < chunks; ++c) {
    this->chunks_.push_back(rows_of({}, c, chunks, of_.experts().count()));
    RankParts &going = going_.emplace_back(), &coming = coming_.emplace_back();
    for (std::size_t r = 0; r < ranks(); ++r) {
      const Rows theirs = of_.experts_[r], part = rows_of({}, c, chunks, theirs.count());
      going.add(to_expert_[at(theirs.first + part.first)], to_expert_[at(theirs.first + part.last)], of_.shape_.width);
      coming.add(from_[r][at(this->chunks_.back().first)], from_[r][at(this->chunks_.back().last)], of_.shape_.width);
    }
  }
}

template <class T>
template <class F>
void AllToAllDispatcher<T>::Handle::for_each_run(const Rows& chunk, const F& f) const {
  for (std::int64_t e = chunk.first; e < chunk.last; ++e) {
    std::int64_t row = this->offsets_[at(e)];
    for (const std::vector<std::int64_t>& first : from_) {
      const std::int64_t n = first[at(e) + 1] - first[at(e)];
      f(first[at(e)], row, n);
      row += n;
    }
  }
}

template <class T>
Work AllToAllDispatcher<T>::Handle::exchange(const T* from, const RankParts& going, T* to,
                                             const RankParts& coming) const {
  if (ranks() == 1) {
    std::copy_n(from + going.displacements[0], going.counts[0], to + coming.displacements[0]);
    return {};
  }
  return of_.group_->all_to_all_v(elements_of(from, going.end()), elements_of(to, coming.end()), dtype_of_layer<T>(),
                                  going.parts(), coming.parts(), of_.options());
}

template <class T>
void AllToAllDispatcher<T>::Handle::account(const RankParts& going) {
  for (std::size_t r = 0; r < ranks(); ++r) {
    const std::size_t bytes = going.counts[r] * sizeof(T);
    if (r != me()) of_.sent_ += bytes;
    if (!of_.hosts_.empty() && of_.hosts_[r] != of_.hosts_[me()]) of_.sent_between_hosts_ += bytes;
  }
}

template <class T>
void AllToAllDispatcher<T>::Handle::start(const T* x) {
  const std::size_t width = at(of_.shape_.width);
  of_.tokens_side_.resize(std::max(of_.tokens_side_.size(), order_.size() * width));
  of_.experts_side_.resize(std::max(of_.experts_side_.size(), at(this->rows()) * width));
  T* to = of_.tokens_side_.data();
  for (const std::int32_t token : order_) to = std::copy_n(x + at(token) * width, width, to);
  forth_.clear();
  for (std::size_t c = 0; c < going_.size(); ++c) {
    account(going_[c]);
    forth_.emplace_back(exchange(of_.tokens_side_.data(), going_[c], of_.experts_side_.data(), coming_[c]));
  }
}

template <class T>
void AllToAllDispatcher<T>::Handle::receive(std::size_t chunk, T* rows) {
  forth_[chunk].get();
  const std::int64_t width = of_.shape_.width;
  for_each_run(this->chunks_[chunk], [&](std::int64_t came, std::int64_t row, std::int64_t n) {
    std::copy_n(of_.experts_side_.data() + came * width, n * width, rows + row * width);
  });
  if (chunk + 1 == this->chunks_.size()) forth_.clear();
}

template <class T>
void AllToAllDispatcher<T>::Handle::give_back(std::size_t chunk, const T* rows) {
  const std::int64_t width = of_.shape_.width;
  for_each_run(this->chunks_[chunk], [&](std::int64_t came, std::int64_t row, std::int64_t n) {
    std::copy_n(rows + row * width, n * width, of_.experts_side_.data() + came * width);
  });
  account(coming_[chunk]);
  back_.emplace_back(exchange(of_.experts_side_.data(), coming_[chunk], of_.tokens_side_.data(), going_[chunk]));
}

template <class T>
void AllToAllDispatcher<T>::Handle::collect(T* out) {
  for (AwaitedWork& work : back_) work.get();
  back_.clear();
  const std::size_t width = at(of_.shape_.width), k = at(top_k_);
  for (std::size_t t = 0; t < at(tokens_); ++t, out += width) {
    std::fill_n(out, width, T{0});
    for (std::size_t i = t * k; i < (t + 1) * k; ++i) {
      if (place_[i] < 0) continue;
      const T* row = of_.tokens_side_.data() + at(place_[i]) * width;
      for (std::size_t c = 0; c < width; ++c) out[c] += row[c];
    }
  }
}

template <class T>
void AllToAllDispatcher<T>::Handle::return_gates(const T* of_rows, T* to) {
  std::vector<T> as_they_came(at(this->rows())), packed(order_.size());
  for_each_run({0, of_.experts().count()}, [&](std::int64_t came, std::int64_t row, std::int64_t n) {
    std::copy_n(of_rows + row, n, as_they_came.data() + came);
  });
  exchange(as_they_came.data(), gates_coming_, packed.data(), gates_going_).get();
  for (std::size_t i = 0; i < place_.size(); ++i) to[i] = place_[i] < 0 ? T{0} : packed[at(place_[i])];
}

template class AllToAllDispatcher<float>;
template class AllToAllDispatcher<double>;

}  // namespace sinew::parallel

#include <algorithm>
#include <cstddef>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/expert/announce.hpp>
#include <sinew/parallel/expert/hierarchical_dispatcher.hpp>
#include <sinew/parallel/expert/routed_tokens.hpp>

namespace sinew::parallel {
template <class T>
class HierarchicalDispatcher<T>::Handle final : public Dispatch<T> {
 public:
  Handle(HierarchicalDispatcher& of, const Routing<T>& routing);

  void start(const T* x) override;
  void receive(std::size_t chunk, T* rows) override { inner_->receive(chunk, rows); }
  void give_back(std::size_t chunk, const T* rows) override { inner_->give_back(chunk, rows); }
  void collect(T* out) override;
  void return_gates(const T* of_rows, T* to) override;

 private:
  /// A row carries one token to one host.
  struct Row {
    std::int64_t token = 0;
    std::size_t host = 0;
  };

  std::size_t ranks() const noexcept { return of_.experts_.size(); }
  void find_rows(const Routing<T>& routing);
  /// For each row, the token's experts on that host, as the inner dispatcher numbers them.
  Routing<T> routing_there(const Routing<T>& routing);
  /// Elements of each rank's rows, one way or the other.
  std::vector<std::uint64_t> elements(const std::vector<std::int64_t>& rows, std::int64_t width) const;
  template <class E>
  void exchange(const std::vector<E>& from, const std::vector<std::int64_t>& going, std::vector<E>& to,
                const std::vector<std::int64_t>& coming, std::int64_t width);
  void account(const std::vector<std::int64_t>& rows);

  HierarchicalDispatcher& of_;
  std::int64_t tokens_, top_k_;
  std::vector<Row> rows_;                     // as they are packed: by rank that they go to
  std::vector<Rows> of_hosts_;                // of rows_, by host
  std::vector<std::int64_t> going_, coming_;  // rows by rank
  std::int64_t came_ = 0;
  std::vector<std::int32_t> experts_;  // [tokens, top_k]
  std::unique_ptr<Dispatch<T>> inner_;
};

template <class T>
HierarchicalDispatcher<T>::HierarchicalDispatcher(CallGroup group, const std::vector<Rows>& experts,
                                                  std::vector<int> hosts, const DispatchShape& shape)
    : group_(group), me_(at(GroupPlace(group).rank)), experts_(experts), hosts_(std::move(hosts)), shape_(shape) {
  if (hosts_.empty()) hosts_.assign(experts_.size(), 0);
  for (std::size_t r = 0; r < hosts_.size(); ++r) {
    const auto known = std::ranges::find(all_, hosts_[r], &Host::number);
    Host& host = known != all_.end() ? *known : all_.emplace_back(Host{hosts_[r], {}});
    host.ranks.push_back(r);
  }
  host_of_expert_.resize(at(shape.experts));
  number_there_.resize(at(shape.experts));
  const Host& mine = host_of(me_);
  const auto place = std::ranges::find(mine.ranks, me_) - mine.ranks.begin();
  for (std::size_t h = 0; h < all_.size(); ++h) {
    entries_.push_back(all_[h].ranks[at(place) % all_[h].ranks.size()]);
    std::int32_t number = 0;
    for (const std::size_t r : all_[h].ranks) {
      for (std::int64_t e = experts_[r].first; e < experts_[r].last; ++e) {
        host_of_expert_[at(e)] = h;
        number_there_[at(e)] = number++;
      }
    }
  }
  if (group->size() > 1)
    on_host_ = group->split(static_cast<int>(&mine - all_.data()), 0, options(), "experts of a host");
  DispatchShape inner = shape;
  const std::vector<Rows> here = experts_on(mine, experts_);
  inner.experts = here.back().last;
  inner_ = std::make_unique<AllToAllDispatcher<T>>(CallGroup(on_host_, group.where()), here, std::vector<int>{}, inner);
}

template <class T>
std::vector<Rows> HierarchicalDispatcher<T>::experts_on(const Host& host, const std::vector<Rows>& experts) {
  std::vector<Rows> all;
  std::int64_t first = 0;
  for (const std::size_t r : host.ranks) {
    all.push_back({first, first + experts[r].count()});
    first = all.back().last;
  }
  return all;
}

template <class T>
const typename HierarchicalDispatcher<T>::Host& HierarchicalDispatcher<T>::host_of(std::size_t rank) const {
  return *std::ranges::find(all_, hosts_[rank], &Host::number);
}

template <class T>
std::unique_ptr<Dispatch<T>> HierarchicalDispatcher<T>::plan(const Routing<T>& routing) {
  require_routing(routing, shape_.name, shape_.experts, shape_.top_k);
  return std::make_unique<Handle>(*this, routing);
}

template <class T>
HierarchicalDispatcher<T>::Handle::Handle(HierarchicalDispatcher& of, const Routing<T>& routing)
    : of_(of), tokens_(routing.tokens), top_k_(routing.top_k), experts_(routing.experts) {
  find_rows(routing);
  std::vector<std::vector<std::int64_t>> to;
  for (const std::int64_t rows : going_) to.push_back({rows});
  for (const auto& rows :
       announce(of_.group_, routing.router, to, std::vector<std::size_t>(ranks(), 1), routing.fault)) {
    coming_.push_back(rows[0]);
    came_ += rows[0];
  }
  const Routing<T> mine = routing_there(routing);
  Routing<T> all{routing.router,
                 came_,
                 top_k_,
                 std::vector<std::int32_t>(at(came_ * top_k_)),
                 std::vector<T>(at(came_ * top_k_)),
                 {}};
  exchange(mine.experts, going_, all.experts, coming_, top_k_);
  exchange(mine.gates, going_, all.gates, coming_, top_k_);
  inner_ = of_.inner_->plan(all);
  this->offsets_ = inner_->offsets();
  this->gates_ = inner_->gates();
  this->chunks_ = inner_->chunks();
}

template <class T>
void HierarchicalDispatcher<T>::Handle::find_rows(const Routing<T>& routing) {
  going_.assign(ranks(), 0);
  of_hosts_.resize(of_.all_.size());
  if (routing.fault) return;
  for (std::size_t r = 0; r < ranks(); ++r) {
    for (std::size_t h = 0; h < of_.all_.size(); ++h) {
      if (of_.entries_[h] != r) continue;
      of_hosts_[h].first = std::ssize(rows_);
      for (std::int64_t t = 0; t < tokens_; ++t) {
        const auto first = experts_.begin() + t * top_k_;
        const bool goes = std::any_of(
            first, first + top_k_, [&](std::int32_t e) { return e != kNoExpert && of_.host_of_expert_[at(e)] == h; });
        if (!goes) continue;
        rows_.push_back({t, h});
        ++going_[r];
      }
      of_hosts_[h].last = std::ssize(rows_);
    }
  }
}

template <class T>
Routing<T> HierarchicalDispatcher<T>::Handle::routing_there(const Routing<T>& routing) {
  Routing<T> there;
  for (const Row& row : rows_) {
    for (std::size_t i = at(row.token * top_k_); i < at((row.token + 1) * top_k_); ++i) {
      const std::int32_t e = experts_[i];
      const bool is_there = e != kNoExpert && of_.host_of_expert_[at(e)] == row.host;
      there.experts.push_back(is_there ? of_.number_there_[at(e)] : kNoExpert);
      there.gates.push_back(is_there ? routing.gates[i] : T{0});
    }
  }
  return there;
}

template <class T>
std::vector<std::uint64_t> HierarchicalDispatcher<T>::Handle::elements(const std::vector<std::int64_t>& rows,
                                                                       std::int64_t width) const {
  std::vector<std::uint64_t> counts;
  for (const std::int64_t n : rows) counts.push_back(static_cast<std::uint64_t>(n * width));
  return counts;
}

template <class T>
template <class E>
void HierarchicalDispatcher<T>::Handle::exchange(const std::vector<E>& from, const std::vector<std::int64_t>& going,
                                                 std::vector<E>& to, const std::vector<std::int64_t>& coming,
                                                 std::int64_t width) {
  const std::vector<std::uint64_t> sends = elements(going, width), receives = elements(coming, width);
  if (ranks() == 1) {
    std::copy_n(from.begin(), sends[0], to.begin());
    return;
  }
  of_.group_->all_to_all_v(from, to, {sends}, {receives}, of_.options()).get();
}

template <class T>
void HierarchicalDispatcher<T>::Handle::account(const std::vector<std::int64_t>& rows) {
  for (std::size_t r = 0; r < ranks(); ++r) {
    const std::size_t bytes = at(rows[r] * of_.shape_.width) * sizeof(T);
    if (r != of_.me_) of_.sent_ += bytes;
    if (of_.hosts_[r] != of_.hosts_[of_.me_]) of_.sent_between_hosts_ += bytes;
  }
}

template <class T>
void HierarchicalDispatcher<T>::Handle::start(const T* x) {
  const std::int64_t width = of_.shape_.width;
  of_.here_.resize(std::max(of_.here_.size(), rows_.size() * at(width)));
  of_.there_.resize(std::max(of_.there_.size(), at(came_ * width)));
  T* to = of_.here_.data();
  for (const Row& row : rows_) to = std::copy_n(x + row.token * width, width, to);
  account(going_);
  exchange(of_.here_, going_, of_.there_, coming_, width);
  inner_->start(of_.there_.data());
}

template <class T>
void HierarchicalDispatcher<T>::Handle::collect(T* out) {
  const std::int64_t width = of_.shape_.width;
  of_.summed_.resize(std::max(of_.summed_.size(), at(came_ * width)));
  of_.here_.resize(std::max(of_.here_.size(), rows_.size() * at(width)));
  inner_->collect(of_.summed_.data());
  account(coming_);
  exchange(of_.summed_, coming_, of_.here_, going_, width);
  std::fill_n(out, tokens_ * width, T{0});
  for (const Rows& of_host : of_hosts_) {
    const T* from = of_.here_.data() + of_host.first * width;
    for (std::int64_t i = of_host.first; i < of_host.last; ++i, from += width) {
      T* to = out + rows_[at(i)].token * width;
      for (std::int64_t c = 0; c < width; ++c) to[c] += from[c];
    }
  }
}

template <class T>
void HierarchicalDispatcher<T>::Handle::return_gates(const T* of_rows, T* to) {
  std::vector<T> came(at(came_ * top_k_)), mine(rows_.size() * at(top_k_));
  inner_->return_gates(of_rows, came.data());
  exchange(came, coming_, mine, going_, top_k_);
  std::fill_n(to, tokens_ * top_k_, T{0});
  const T* from = mine.data();
  for (const Row& row : rows_) {
    for (std::size_t i = at(row.token * top_k_); i < at((row.token + 1) * top_k_); ++i, ++from) {
      if (experts_[i] != kNoExpert && of_.host_of_expert_[at(experts_[i])] == row.host) to[i] = *from;
    }
  }
}

template class HierarchicalDispatcher<float>;
template class HierarchicalDispatcher<double>;

}  // namespace sinew::parallel

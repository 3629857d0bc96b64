#include <algorithm>
#include <cmath>
#include <utility>

#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/scan/state_chain.hpp>

namespace sinew::parallel {

template <class T>
StateChain<T>::StateChain(CallGroup group, const ScanSizes& sizes, const SequenceCut& cut)
    : group_(group), sizes_(sizes) {
  std::vector<std::pair<std::int64_t, int>> starts;
  for (int r = 0; r < cut.ranks(); ++r) {
    for (const Rows& piece : cut.pieces(r)) starts.emplace_back(piece.first, r);
  }
  std::ranges::sort(starts);
  for (const auto& [first, rank] : starts) {
    if (rank == GroupPlace(group).rank) own_.push_back(links());
    owners_.push_back(rank);
  }
  const auto room = static_cast<std::size_t>(pieces() * summary());
  before_.resize(room);
  going_.resize(room);
  coming_.resize(room);
}

template <class T>
void StateChain<T>::join(const T* a, const T* first, const T* then, T* to) const {
  const std::int64_t states = sizes_.channels * sizes_.states;
  for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
    const T *dt = then + s * sizes_.channels, *h = then + dt_sums() + s * states;
    const T* entered = first + dt_sums() + s * states;
    T* left = to + dt_sums() + s * states;
    for (std::int64_t i = 0; i < states; ++i) left[i] = std::exp(a[i] * dt[i / sizes_.states]) * entered[i] + h[i];
  }
  for (std::int64_t i = 0; i < dt_sums(); ++i) to[i] = first[i] + then[i];
}

template <class T>
void StateChain<T>::exchange(Way way, std::int64_t span) {
  std::vector<Message> messages;
  const int me = GroupPlace(*group_).rank;
  for (std::int64_t p = 0; p < pieces(); ++p) {
    const std::int64_t to = place(p, way) + span, from = place(p, way) - span;
    T* coming = coming_.data() + p * summary();
    const ConstBuffer going = elements_of<T>(static_cast<const T*>(going_.data() + p * summary()), summary());
    if (to < links() && owner(to, way) != me) {
      messages.push_back(Message::send(going, owner(to, way), static_cast<std::uint32_t>(to)));
      sent_ += going.bytes;
    }
    if (from < 0) continue;
    if (owner(from, way) != me) {
      messages.push_back(
          Message::recv(elements_of(coming, summary()), owner(from, way), static_cast<std::uint32_t>(place(p, way))));
      continue;
    }
    for (std::int64_t other = 0; other < pieces(); ++other) {
      if (place(other, way) == from) std::copy_n(going_.data() + other * summary(), summary(), coming);
    }
  }
  if (!messages.empty()) group_->group(messages, group_.options("states of a scan")).get();
}

template <class T>
void StateChain<T>::pass(Way way, const T* a, const T* own, T* entering) {
  std::ranges::fill(before_, T{0});
  for (std::int64_t span = 1; span < links(); span *= 2) {
    for (std::int64_t p = 0; p < pieces(); ++p) {
      const T* mine = own + p * summary();
      T* going = going_.data() + p * summary();
      if (place(p, way) + span >= links()) continue;
      if (span == 1 || place(p, way) == 0) {  // nothing before it is known, or there is nothing
        std::copy_n(mine, summary(), going);
      } else {
        join(a, before_.data() + p * summary(), mine, going);
      }
    }
    exchange(way, span);
    for (std::int64_t p = 0; p < pieces(); ++p) {
      const T* coming = coming_.data() + p * summary();
      T* before = before_.data() + p * summary();
      if (place(p, way) < span) continue;
      if (span == 1) {
        std::copy_n(coming, summary(), before);
      } else {
        join(a, coming, before, before);
      }
    }
  }
  for (std::int64_t p = 0; p < pieces(); ++p)
    std::copy_n(before_.data() + p * summary() + dt_sums(), sizes_.state(), entering + p * sizes_.state());
}

template class StateChain<float>;
template class StateChain<double>;

}  // namespace sinew::parallel

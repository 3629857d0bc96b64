#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/scan/halo_exchange.hpp>

namespace sinew::parallel {
namespace {

const SequenceCut& checked(const SequenceCut& cut, int ranks, std::int64_t sequences, std::int64_t channels,
                           std::int64_t reach) {
  if (cut.ranks() == ranks && sequences >= 1 && channels >= 1 && reach >= 0) return cut;
  throw Error(Code::InvalidArgument,
              fmt::format("halo exchange: {} tokens before pieces of {} sequences of {} channels, cut for {} ranks: "
                          "expected 0 or more, 1 or more of each, and {} ranks",
                          reach, sequences, channels, cut.ranks(), ranks));
}

/// Without rows where they have none in common.
Rows common(const Rows& a, const Rows& b) noexcept {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.last, b.last))};
}

}  // namespace

template <class T>
HaloExchange<T>::HaloExchange(CallGroup group, std::int64_t sequences, std::int64_t channels, std::int64_t reach,
                              const SequenceCut& cut)
    : group_(group),
      rank_(GroupPlace(group).rank),
      sequences_(sequences),
      channels_(channels),
      reach_(reach),
      pieces_(std::ssize(checked(cut, GroupPlace(group).ranks, sequences, channels, reach).pieces(rank_))),
      gives_(gives_of(cut, rank_, reach)),
      takes_(takes_of(cut, rank_, reach, sequences)) {
  given_counts_ = counts_of(gives_, cut.ranks());
  taken_counts_ = counts_of(takes_, cut.ranks());
  given_.resize(total(given_counts_));
  taken_.resize(total(taken_counts_));
}

template <class T>
std::int64_t HaloExchange<T>::room_for(std::int64_t sequences, std::int64_t channels, std::int64_t reach,
                                       const SequenceCut& cut, int rank) {
  std::int64_t tokens = 0;
  for (const Stretch& stretch : gives_of(cut, rank, reach)) tokens += stretch.count;
  for (const Stretch& stretch : takes_of(cut, rank, reach, sequences)) tokens += stretch.count;
  return tokens * sequences * channels;
}

template <class T>
std::vector<typename HaloExchange<T>::Stretch> HaloExchange<T>::gives_of(const SequenceCut& cut, int rank,
                                                                         std::int64_t reach) {
  std::vector<Stretch> gives;
  for (int peer = 0; peer < cut.ranks(); ++peer) {
    for (const Rows& piece : cut.pieces(peer)) {
      std::int64_t own = 0;
      for (const Rows& mine : cut.pieces(rank)) {
        const Rows wanted = common(mine, {piece.first - reach, piece.first});
        if (wanted.count() > 0)
          gives.push_back({peer, own + wanted.first - mine.first, cut.tokens(rank), wanted.count()});
        own += mine.count();
      }
    }
  }
  return gives;
}

/// In the order of the other side's gives: by this rank's piece, then by the peer's.
template <class T>
std::vector<typename HaloExchange<T>::Stretch> HaloExchange<T>::takes_of(const SequenceCut& cut, int rank,
                                                                         std::int64_t reach, std::int64_t sequences) {
  std::vector<Stretch> takes;
  for (int peer = 0; peer < cut.ranks(); ++peer) {
    std::int64_t halo = 0;
    for (const Rows& piece : cut.pieces(rank)) {
      for (const Rows& theirs : cut.pieces(peer)) {
        const Rows wanted = common(theirs, {piece.first - reach, piece.first});
        if (wanted.count() > 0)
          takes.push_back({peer, halo + wanted.first - (piece.first - reach), reach, wanted.count()});
      }
      halo += sequences * reach;
    }
  }
  return takes;
}

template <class T>
Counts HaloExchange<T>::counts_of(const std::vector<Stretch>& stretches, int ranks) const {
  Counts counts(static_cast<std::size_t>(ranks));
  for (const Stretch& s : stretches)
    counts[static_cast<std::size_t>(s.peer)] += static_cast<std::uint64_t>(sequences_ * s.count * channels_);
  return counts;
}

template <class T>
template <class F>
void HaloExchange<T>::for_each_copy(const std::vector<Stretch>& stretches, const F& f) const {
  std::int64_t in_message = 0;
  for (const Stretch& stretch : stretches) {
    for (std::int64_t s = 0; s < sequences_; ++s) {
      const std::int64_t elements = stretch.count * channels_;
      f((stretch.first + s * stretch.stride) * channels_, in_message, elements);
      in_message += elements;
    }
  }
}

template <class T>
void HaloExchange<T>::exchange(const std::vector<T>& going, const Counts& sends, std::vector<T>& coming,
                               const Counts& takes) {
  if (sends.size() == 1) return;  // all lies in one piece
  group_
      ->all_to_all_v(elements_of(going.data(), std::ssize(going)), elements_of(coming.data(), std::ssize(coming)),
                     dtype_of_layer<T>(), {sends}, {takes}, group_.options("tokens before a convolution's pieces"))
      .get();
  sent_ += (going.size() - sends[static_cast<std::size_t>(rank_)]) * sizeof(T);
}

template <class T>
void HaloExchange<T>::forward(const T* tokens, T* halo) {
  for_each_copy(gives_, [&](std::int64_t at, std::int64_t in_message, std::int64_t count) {
    std::copy_n(tokens + at, count, given_.data() + in_message);
  });
  exchange(given_, given_counts_, taken_, taken_counts_);
  std::fill_n(halo, elements(), T{0});
  for_each_copy(takes_, [&](std::int64_t at, std::int64_t in_message, std::int64_t count) {
    std::copy_n(taken_.data() + in_message, count, halo + at);
  });
}

template <class T>
void HaloExchange<T>::backward(const T* dhalo, T* dtokens) {
  for_each_copy(takes_, [&](std::int64_t at, std::int64_t in_message, std::int64_t count) {
    std::copy_n(dhalo + at, count, taken_.data() + in_message);
  });
  exchange(taken_, taken_counts_, given_, given_counts_);
  for_each_copy(gives_, [&](std::int64_t at, std::int64_t in_message, std::int64_t count) {
    const T* from = given_.data() + in_message;
    for (std::int64_t i = 0; i < count; ++i) dtokens[at + i] += from[i];
  });
}

template class HaloExchange<float>;
template class HaloExchange<double>;

}  // namespace sinew::parallel

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/scan/sequence_exchange.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kSequenceLabel = "channels of a scan";

template <class T>
ConstBuffer whole(const std::vector<T>& v) {
  return elements_of(v.data(), std::ssize(v));
}
template <class T>
Buffer room(std::vector<T>& v) {
  return elements_of(v.data(), std::ssize(v));
}

SequenceCut checked(SequenceCut cut, int ranks, std::int64_t sequences, std::int64_t channels) {
  if (cut.ranks() == ranks && sequences >= 1 && channels >= 1) return cut;
  throw Error(
      Code::InvalidArgument,
      fmt::format("sequence exchange: {} sequences of {} channels, cut for {} ranks: expected 1 or more of each, "
                  "and {} ranks, those of the group",
                  sequences, channels, cut.ranks(), ranks));
}

}  // namespace

template <class T>
SequenceExchange<T>::SequenceExchange(CallGroup group, std::int64_t sequences, std::int64_t channels, SequenceCut cut)
    : group_(group),
      sequences_(sequences),
      width_(channels),
      cut_(checked(std::move(cut), GroupPlace(group).ranks, sequences, channels)),
      rank_(GroupPlace(group).rank) {
  for (int r = 0; r < ranks(); ++r) channels_.push_back(rows_of({}, r, ranks(), channels));
}

template <class T>
template <class F>
void SequenceExchange<T>::for_each_piece(int rank, const F& f) const {
  std::int64_t own = 0;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    for (const Rows& piece : cut_.pieces(rank)) {
      f(s * cut_.length() + piece.first, own, piece.count());
      own += piece.count();
    }
  }
}

template <class T>
void SequenceExchange<T>::pick(const T* whole, int rank, std::int64_t width, T* part) const {
  for_each_piece(rank, [&](std::int64_t position, std::int64_t own, std::int64_t count) {
    std::copy_n(whole + position * width, count * width, part + own * width);
  });
}

template <class T>
void SequenceExchange<T>::put(const T* part, int rank, std::int64_t width, T* whole) const {
  for_each_piece(rank, [&](std::int64_t position, std::int64_t own, std::int64_t count) {
    std::copy_n(part + own * width, count * width, whole + position * width);
  });
}

template <class T>
Counts SequenceExchange<T>::counts_of_tokens(std::int64_t arrays, std::int64_t width) const {
  Counts counts;
  for (int r = 0; r < ranks(); ++r) counts.push_back(static_cast<std::uint64_t>(arrays * tokens(r) * width));
  return counts;
}

template <class T>
Counts SequenceExchange<T>::counts_of_channels(std::int64_t arrays) const {
  Counts counts;
  for (const Rows& theirs : channels_)
    counts.push_back(static_cast<std::uint64_t>(arrays * tokens(rank_) * theirs.count()));
  return counts;
}

template <class T>
void SequenceExchange<T>::all_to_all(const Counts& going, const Counts& coming) {
  if (ranks() == 1) {
    std::swap(going_, coming_);
    return;
  }
  coming_.resize(total(coming));
  group_
      ->all_to_all_v(whole(going_), room(coming_), dtype_of_layer<T>(), {going}, {coming},
                     group_.options(kSequenceLabel))
      .get();
  sent_ += (total(going) - going[static_cast<std::size_t>(rank_)]) * sizeof(T);
}

template <class T>
void SequenceExchange<T>::to_channels(From tokens_of, To channels) {
  const auto arrays = static_cast<std::int64_t>(tokens_of.size());
  const Counts going = counts_of_channels(arrays);
  going_.resize(total(going));
  T* to = going_.data();
  for (const Rows& theirs : channels_) {
    for (const T* from : tokens_of) {
      copy_rows(from + theirs.first, width_, to, theirs.count(), tokens(rank_), theirs.count());
      to += tokens(rank_) * theirs.count();
    }
  }
  all_to_all(going, counts_of_tokens(arrays, mine().count()));
  const T* from = coming_.data();
  for (int r = 0; r < ranks(); ++r) {
    for (T* array : channels) {
      put(from, r, mine().count(), array);
      from += tokens(r) * mine().count();
    }
  }
}

template <class T>
void SequenceExchange<T>::to_tokens(From channels, To tokens_of) {
  const auto arrays = static_cast<std::int64_t>(channels.size());
  const Counts going = counts_of_tokens(arrays, mine().count());
  going_.resize(total(going));
  T* to = going_.data();
  for (int r = 0; r < ranks(); ++r) {
    for (const T* array : channels) {
      pick(array, r, mine().count(), to);
      to += tokens(r) * mine().count();
    }
  }
  all_to_all(going, counts_of_channels(arrays));
  const T* from = coming_.data();
  for (const Rows& theirs : channels_) {
    for (T* array : tokens_of) {
      copy_rows(from, theirs.count(), array + theirs.first, width_, tokens(rank_), theirs.count());
      from += tokens(rank_) * theirs.count();
    }
  }
}

template <class T>
void SequenceExchange<T>::gather(From tokens_of, std::int64_t width, To whole_of) {
  const std::int64_t own = tokens(rank_) * width;
  const Counts coming = counts_of_tokens(static_cast<std::int64_t>(tokens_of.size()), width);
  going_.resize(coming[static_cast<std::size_t>(rank_)]);
  T* to = going_.data();
  for (const T* array : tokens_of) to = std::copy_n(array, own, to);
  if (ranks() == 1) {
    std::swap(going_, coming_);
  } else {
    coming_.resize(total(coming));
    group_->all_gather_v(whole(going_), room(coming_), dtype_of_layer<T>(), {coming}, group_.options(kSequenceLabel))
        .get();
    sent_ += going_.size() * static_cast<std::size_t>(ranks() - 1) * sizeof(T);
  }
  const T* from = coming_.data();
  for (int r = 0; r < ranks(); ++r) {
    for (T* array : whole_of) {
      put(from, r, width, array);
      from += tokens(r) * width;
    }
  }
}

template <class T>
void SequenceExchange<T>::sum(From whole_of, std::int64_t width, To tokens_of) {
  const Counts going = counts_of_tokens(static_cast<std::int64_t>(whole_of.size()), width);
  going_.resize(total(going));
  T* to = going_.data();
  for (int r = 0; r < ranks(); ++r) {
    for (const T* array : whole_of) {
      pick(array, r, width, to);
      to += tokens(r) * width;
    }
  }
  if (ranks() == 1) {
    std::swap(going_, coming_);
  } else {
    coming_.resize(going[static_cast<std::size_t>(rank_)]);
    group_
        ->reduce_scatter_v(whole(going_), room(coming_), dtype_of_layer<T>(), {going}, ReduceOp::Sum,
                           group_.options(kSequenceLabel))
        .get();
    sent_ += (going_.size() - coming_.size()) * sizeof(T);
  }
  const T* from = coming_.data();
  const std::int64_t own = tokens(rank_) * width;
  for (T* array : tokens_of) {
    std::copy_n(from, own, array);
    from += own;
  }
}

template class SequenceExchange<float>;
template class SequenceExchange<double>;

}  // namespace sinew::parallel

#include <algorithm>

#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/scan/head_state_scan.hpp>

namespace sinew::parallel {
namespace {

/// Heads are the channels of the chain.
ScanSizes sizes_of_chain(const HeadScanSizes& of) { return {of.sequences, of.heads, of.head_state()}; }

}  // namespace

template <class T>
HeadStateScan<T>::HeadStateScan(CallGroup group, Blas& blas, const HeadScanSizes& sizes, const SequenceCut& cut,
                                std::int64_t chunk)
    : sizes_(sizes),
      runs_(runs_of(cut_of_group("head scan", group, cut), GroupPlace(group).rank)),
      scan_(blas, sizes, cut.tokens(GroupPlace(group).rank), chunk),
      chain_(group, sizes_of_chain(sizes), cut),
      summaries_(static_cast<std::size_t>(chain_.pieces() * chain_.summary())),
      leaving_(static_cast<std::size_t>(kept_elements())),
      rates_(static_cast<std::size_t>(sizes.heads * sizes.head_state())) {}

template <class T>
std::int64_t HeadStateScan<T>::kept_for(const HeadScanSizes& sizes, const SequenceCut& cut, int rank) noexcept {
  return std::ssize(cut.pieces(rank)) * sizes.state();
}

template <class T>
std::int64_t HeadStateScan<T>::room_for(const HeadScanSizes& sizes, const SequenceCut& cut, int rank,
                                        std::int64_t chunk) noexcept {
  const std::int64_t summaries = std::ssize(cut.pieces(rank)) * (sizes.sequences * sizes.heads + sizes.state());
  return HeadScan<T>::room_for(sizes, cut.tokens(rank), chunk) + 4 * summaries + kept_for(sizes, cut, rank) +
         sizes.heads * sizes.head_state();
}

template <class T>
const T* HeadStateScan<T>::rates_of(const T* a) {
  for (std::int64_t h = 0; h < sizes_.heads; ++h)
    std::fill_n(rates_.begin() + h * sizes_.head_state(), sizes_.head_state(), a[h]);
  return rates_.data();
}

template <class T>
void HeadStateScan<T>::forward(const HeadScanInputs<T>& in, T* y, T* kept) {
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) {
    T* to = summaries_.data() + p * chain_.summary();
    if (chain_.is_followed(p, Way::FirstToLast)) scan_.summary(in, run(p), to, to + chain_.dt_sums());
  }
  chain_.pass(Way::FirstToLast, rates_of(in.a), summaries_.data(), kept);
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) scan_.forward(in, run(p), kept + p * sizes_.state(), y, nullptr);
}

template <class T>
void HeadStateScan<T>::backward(const HeadScanInputs<T>& in, const T* kept, const T* dy,
                                const HeadScanGradients<T>& to) {
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) {
    T* summary = summaries_.data() + p * chain_.summary();
    if (chain_.is_followed(p, Way::LastToFirst))
      scan_.gradient_summary(in, run(p), dy, summary, summary + chain_.dt_sums());
  }
  chain_.pass(Way::LastToFirst, rates_of(in.a), summaries_.data(), leaving_.data());
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) {
    const std::int64_t at = p * sizes_.state();
    scan_.backward(in, run(p), kept + at, dy, leaving_.data() + at, to, nullptr);
  }
}

template class HeadStateScan<float>;
template class HeadStateScan<double>;

}  // namespace sinew::parallel

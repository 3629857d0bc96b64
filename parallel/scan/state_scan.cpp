#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/scan/state_scan.hpp>

namespace sinew::parallel {
namespace {

constexpr std::string_view kStateScan = "state scan";

}  // namespace

template <class T>
StateScan<T>::StateScan(CallGroup group, const ScanSizes& sizes, const SequenceCut& cut)
    : sizes_(checked_sizes(kStateScan, sizes)),
      runs_(runs_of(cut_of_group(kStateScan, group, cut), GroupPlace(group).rank)),
      scan_(sizes, cut.tokens(GroupPlace(group).rank)),
      chain_(group, sizes, cut),
      summaries_(static_cast<std::size_t>(chain_.pieces() * chain_.summary())),
      leaving_(static_cast<std::size_t>(kept_elements())) {}

template <class T>
std::int64_t StateScan<T>::kept_for(const ScanSizes& sizes, const SequenceCut& cut, int rank) noexcept {
  return std::ssize(cut.pieces(rank)) * sizes.state();
}

template <class T>
std::int64_t StateScan<T>::room_for(const ScanSizes& sizes, const SequenceCut& cut, int rank) noexcept {
  const std::int64_t summaries = std::ssize(cut.pieces(rank)) * (sizes.sequences * sizes.channels + sizes.state());
  return SelectiveScan<T>::room_for(sizes, cut.tokens(rank)) + 4 * summaries + kept_for(sizes, cut, rank);
}

template <class T>
void StateScan<T>::forward(const ScanInputs<T>& in, T* y, T* kept) {
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) {
    T* to = summaries_.data() + p * chain_.summary();
    if (chain_.is_followed(p, Way::FirstToLast)) scan_.summary(in, run(p), to, to + chain_.dt_sums());
  }
  chain_.pass(Way::FirstToLast, in.a, summaries_.data(), kept);
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) scan_.forward(in, run(p), kept + p * sizes_.state(), y, nullptr);
}

template <class T>
void StateScan<T>::backward(const ScanInputs<T>& in, const T* kept, const T* dy, const ScanGradients<T>& to) {
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) {
    T* summary = summaries_.data() + p * chain_.summary();
    if (chain_.is_followed(p, Way::LastToFirst))
      scan_.gradient_summary(in, run(p), dy, summary, summary + chain_.dt_sums());
  }
  chain_.pass(Way::LastToFirst, in.a, summaries_.data(), leaving_.data());
  for (std::int64_t p = 0; p < chain_.pieces(); ++p) {
    const std::int64_t at = p * sizes_.state();
    scan_.backward(in, run(p), kept + at, dy, leaving_.data() + at, to, nullptr);
  }
}

template class StateScan<float>;
template class StateScan<double>;

}  // namespace sinew::parallel

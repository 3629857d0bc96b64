#include <sinew/parallel/scan/channel_scan.hpp>

namespace sinew::parallel {
namespace {

constexpr std::string_view kChannelScan = "channel scan";

}  // namespace

template <class T>
ChannelScan<T>::ChannelScan(CallGroup group, const ScanSizes& sizes, const SequenceCut& cut)
    : length_(cut.length()),
      exchange_(group, checked_sizes(kChannelScan, sizes).sequences, sizes.channels,
                cut_of_group(kChannelScan, group, cut)),
      mine_{sizes.sequences, exchange_.channels().count(), sizes.states},
      scan_(mine_, length_),
      y_(static_cast<std::size_t>(elements(mine_.channels))) {}

template <class T>
ScanInputs<T> ChannelScan<T>::whole(const ScanInputs<T>& in, const T* kept) const noexcept {
  const std::int64_t first = exchange_.channels().first, wide = elements(mine_.channels), deep = elements(mine_.states);
  return {kept, kept + wide, kept + 2 * wide, kept + 2 * wide + deep, in.a + first * mine_.states, in.skip + first};
}

template <class T>
void ChannelScan<T>::forward(const ScanInputs<T>& in, T* y, T* kept) {
  const std::int64_t wide = elements(mine_.channels), deep = elements(mine_.states);
  exchange_.to_channels({in.x, in.dt}, {kept, kept + wide});
  exchange_.gather({in.b, in.c}, mine_.states, {kept + 2 * wide, kept + 2 * wide + deep});
  scan_.forward(whole(in, kept), {0, length_}, nullptr, y_.data(), nullptr);
  exchange_.to_tokens({y_.data()}, {y});
}

template <class T>
void ChannelScan<T>::backward(const ScanInputs<T>& in, const T* kept, const T* dy, const ScanGradients<T>& to) {
  const std::int64_t wide = elements(mine_.channels), deep = elements(mine_.states);
  const Rows& channels = exchange_.channels();
  gradients_.resize(static_cast<std::size_t>(kept_elements()));
  T *dx = gradients_.data(), *ddt = dx + wide, *db = ddt + wide, *dc = db + deep;
  exchange_.to_channels({dy}, {y_.data()});
  scan_.backward(whole(in, kept), {0, length_}, nullptr, y_.data(), nullptr,
                 {dx, ddt, db, dc, to.a + channels.first * mine_.states, to.skip + channels.first}, nullptr);
  exchange_.to_tokens({dx, ddt}, {to.x, to.dt});
  exchange_.sum({db, dc}, mine_.states, {to.b, to.c});
}

template class ChannelScan<float>;
template class ChannelScan<double>;

}  // namespace sinew::parallel

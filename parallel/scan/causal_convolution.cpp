#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/scan/causal_convolution.hpp>
#include <sinew/parallel/scan/scan_data.hpp>

namespace sinew::parallel {
namespace {

constexpr std::string_view kCausalConvolution = "causal convolution";

ConvolutionSizes checked(const ConvolutionSizes& sizes) {
  if (sizes.sequences < 1 || sizes.channels < 1 || sizes.width < 1)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} sequences of {} channels, {} tokens wide, expected 1 or more of each",
                            kCausalConvolution, sizes.sequences, sizes.channels, sizes.width));
  return sizes;
}

}  // namespace

template <class T>
CausalConvolution<T>::CausalConvolution(CallGroup group, const ConvolutionSizes& sizes, const SequenceCut& cut)
    : sizes_(checked(sizes)),
      pieces_(runs_of(cut_of_group(kCausalConvolution, group, cut), GroupPlace(group).rank)),
      tokens_(cut.tokens(GroupPlace(group).rank)),
      halo_(group, sizes.sequences, sizes.channels, sizes.width - 1, cut),
      taps_(static_cast<std::size_t>(sizes.width * sizes.channels)),
      dtaps_(taps_.size()),
      dkept_(static_cast<std::size_t>(kept_elements())) {}

template <class T>
std::int64_t CausalConvolution<T>::kept_for(const ConvolutionSizes& sizes, const SequenceCut& cut, int rank) {
  return std::ssize(cut.pieces(rank)) * sizes.sequences * (sizes.width - 1) * sizes.channels;
}

template <class T>
std::int64_t CausalConvolution<T>::room_for(const ConvolutionSizes& sizes, const SequenceCut& cut, int rank) {
  return HaloExchange<T>::room_for(sizes.sequences, sizes.channels, sizes.width - 1, cut, rank) +
         2 * sizes.width * sizes.channels + kept_for(sizes, cut, rank);
}

template <class T>
template <class F>
void CausalConvolution<T>::for_each_tap(const F& f) const {
  const std::int64_t reach = sizes_.width - 1;
  std::int64_t halo = 0;  // its end is where the piece begins
  for (const Rows& piece : pieces_) {
    for (std::int64_t s = 0; s < sizes_.sequences; ++s) {
      halo += reach;
      const std::int64_t first = s * tokens_ + piece.first;
      for (std::int64_t t = 0; t < piece.count(); ++t) {
        for (std::int64_t k = 0; k < sizes_.width; ++k) {
          const std::int64_t seen = t - reach + k;
          f(first + t, k, seen < 0 ? halo + seen : first + seen, seen < 0);
        }
      }
    }
  }
}

template <class T>
void CausalConvolution<T>::turn(const T* weight) {
  for (std::int64_t d = 0; d < sizes_.channels; ++d) {
    for (std::int64_t k = 0; k < sizes_.width; ++k)
      taps_[static_cast<std::size_t>(k * sizes_.channels + d)] = weight[d * sizes_.width + k];
  }
}

template <class T>
void CausalConvolution<T>::forward(const T* x, const T* weight, const T* bias, T* y, T* kept) {
  halo_.forward(x, kept);
  turn(weight);
  const std::int64_t channels = sizes_.channels;
  for (std::int64_t t = 0; t < sizes_.sequences * tokens_; ++t) {
    if (bias != nullptr) {
      std::copy_n(bias, channels, y + t * channels);
    } else {
      std::fill_n(y + t * channels, channels, T{0});
    }
  }
  for_each_tap([&](std::int64_t token, std::int64_t k, std::int64_t seen, bool in_halo) {
    const T *from = (in_halo ? kept : x) + seen * channels, *tap = taps_.data() + k * channels;
    T* to = y + token * channels;
    for (std::int64_t d = 0; d < channels; ++d) to[d] += tap[d] * from[d];
  });
}

template <class T>
void CausalConvolution<T>::backward(const T* x, const T* kept, const T* weight, const T* dy, T* dx, T* dweight,
                                    T* dbias) {
  turn(weight);
  const std::int64_t channels = sizes_.channels, tokens = sizes_.sequences * tokens_;
  std::ranges::fill(dtaps_, T{0});
  std::ranges::fill(dkept_, T{0});
  std::fill_n(dx, tokens * channels, T{0});
  for_each_tap([&](std::int64_t token, std::int64_t k, std::int64_t seen, bool in_halo) {
    const T *from = (in_halo ? kept : x) + seen * channels, *tap = taps_.data() + k * channels;
    const T* slope = dy + token * channels;
    T *to = (in_halo ? dkept_.data() : dx) + seen * channels, *dtap = dtaps_.data() + k * channels;
    for (std::int64_t d = 0; d < channels; ++d) to[d] += tap[d] * slope[d];
    for (std::int64_t d = 0; d < channels; ++d) dtap[d] += from[d] * slope[d];
  });
  halo_.backward(dkept_.data(), dx);
  for (std::int64_t d = 0; d < channels; ++d) {
    for (std::int64_t k = 0; k < sizes_.width; ++k)
      dweight[d * sizes_.width + k] += dtaps_[static_cast<std::size_t>(k * channels + d)];
  }
  if (dbias != nullptr) sum_rows(dy, tokens, channels, channels, T{1}, dbias);
}

template class CausalConvolution<float>;
template class CausalConvolution<double>;

}  // namespace sinew::parallel

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/tensor/dropout.hpp>

namespace sinew::parallel {
namespace {

constexpr unsigned kElementBits = 40;  // of a number; the rest is the step's

}  // namespace

Dropout::Dropout(std::uint64_t seed, std::string_view layer, double probability)
    : random_(seed, fmt::format("dropout of {}", layer)), probability_(probability) {
  if (!(probability >= 0 && probability < 1))
    throw Error(Code::InvalidArgument,
                fmt::format("dropout of '{}': probability {}, expected 0 to below 1", layer, probability));
}

template <class T>
void Dropout::apply(T* x, const Box& part, std::int64_t columns, std::uint64_t step) const {
  if (probability_ == 0) return;
  const T factor = static_cast<T>(1 / (1 - probability_));
  for (std::int64_t r = part.first[0]; r < part.last[0]; ++r) {
    for (std::int64_t c = part.first[1]; c < part.last[1]; ++c, ++x) {
      const auto number = (step << kElementBits) | static_cast<std::uint64_t>(r * columns + c);
      *x = random_.uniform(number) < probability_ ? T{0} : *x * factor;
    }
  }
}

template void Dropout::apply(float*, const Box&, std::int64_t, std::uint64_t) const;
template void Dropout::apply(double*, const Box&, std::int64_t, std::uint64_t) const;

}  // namespace sinew::parallel

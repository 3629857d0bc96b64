#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/tensor/dropout.hpp>

namespace sinew::parallel {

Dropout::Dropout(std::uint64_t seed, std::string_view layer, double probability)
    : random_(seed, fmt::format("dropout of {}", layer)), probability_(probability) {
  if (!(probability >= 0 && probability < 1))
    throw Error(Code::InvalidArgument,
                fmt::format("dropout of '{}': probability {}, expected 0 to below 1", layer, probability));
}

template <class T>
void Dropout::apply(T* x, const Box& part, std::int64_t columns, std::uint64_t step) const {
  if (probability_ == 0) return;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(part.extent(0)));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  host_math<T>()->drop(options(step, columns, part.first[0], part.first[1]), rows.data(), part.extent(0),
                       part.extent(1), x);
}

template void Dropout::apply(float*, const Box&, std::int64_t, std::uint64_t) const;
template void Dropout::apply(double*, const Box&, std::int64_t, std::uint64_t) const;

}  // namespace sinew::parallel

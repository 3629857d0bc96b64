#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/expert/capacity.hpp>
#include <sinew/parallel/expert/routed_tokens.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kCapacityLabel = "capacity of experts";

/// An assignment of any rank. The less, the sooner it is kept.
struct Claim {
  std::int64_t queue;  // one for each sequence and expert
  double gate;         // 0 where it does not matter
  std::int64_t position;
  std::int64_t own;  // among this rank's, or -1

  bool operator<(const Claim& other) const noexcept {
    return std::tuple(queue, -gate, position) < std::tuple(other.queue, -other.gate, other.position);
  }
};

}  // namespace

template <class T>
CapacityLimit<T>::CapacityLimit(CallGroup group, const RouterShape& router, const CapacityShape& shape,
                                std::int64_t tokens)
    : group_(group), experts_(router.experts), top_k_(router.top_k), shape_(shape) {
  if (!(shape.factor >= 0) || !std::isfinite(shape.factor))
    throw Error(Code::InvalidArgument,
                fmt::format("capacity of '{}': factor {}, expected 0 (no limit) or more", router.name, shape.factor));
  if (tokens < 0)
    throw Error(Code::InvalidArgument,
                fmt::format("capacity of '{}': {} tokens, expected 0 or more", router.name, tokens));
  const auto ranks = std::max(group->size(), 1);
  std::array<std::uint64_t, 1> mine{at(tokens) * record()};
  counts_.assign(static_cast<std::size_t>(ranks), mine[0]);
  if (ranks > 1) group_->all_gather(mine, counts_, group_.options(kCapacityLabel)).get();
  for (int r = 0; r < (ranks > 1 ? group_->rank() : 0); ++r) mine_ += counts_[static_cast<std::size_t>(r)];
}

template <class T>
std::size_t CapacityLimit<T>::record() const noexcept {
  return 1 + at(top_k_) * (shape_.policy == DropPolicy::Probability ? 2 : 1);
}

template <class T>
std::int64_t CapacityLimit<T>::capacity(std::int64_t length) const noexcept {
  const double share = static_cast<double>(length * top_k_) / static_cast<double>(experts_);
  const double most = std::ceil(share * shape_.factor);
  return most < static_cast<double>(length) ? static_cast<std::int64_t>(most) : length;  // no token comes twice
}

template <class T>
std::int64_t CapacityLimit<T>::apply(Routing<T>& routing, const TokenPositions& where) {
  if (shape_.factor == 0) return 0;
  require_positions(where, routing.tokens, routing.router);
  if (at(routing.tokens) * record() > counts_[counts_.size() > 1 ? static_cast<std::size_t>(group_->rank()) : 0])
    throw Error(Code::InvalidArgument, fmt::format("capacity of '{}': {} tokens, expected no more than it was made for",
                                                   routing.router, routing.tokens));
  const std::size_t k = at(top_k_), each = record();
  std::vector<double> all(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0}));
  double* own = all.data() + mine_;
  for (std::size_t t = 0; t < at(routing.tokens); ++t, own += each) {
    own[0] = static_cast<double>(std::int64_t{where.sequence[t]} * where.length + where.position[t]);
    std::copy_n(routing.experts.begin() + static_cast<std::ptrdiff_t>(t * k), k, own + 1);
    if (each > 1 + k) std::copy_n(routing.gates.begin() + static_cast<std::ptrdiff_t>(t * k), k, own + 1 + k);
  }
  if (counts_.size() > 1) {
    const std::size_t mine = at(routing.tokens) * each;
    group_
        ->all_gather_v(std::span<const double>(all.data() + mine_, mine), all, {counts_},
                       group_.options(kCapacityLabel))
        .get();
  }
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < all.size(); i += each) {
    const auto place = static_cast<std::int64_t>(all[i]);
    for (std::size_t j = 0; j < k; ++j) {
      const auto expert = static_cast<std::int64_t>(all[i + 1 + j]);
      const bool is_mine = i >= mine_ && i < mine_ + at(routing.tokens) * each;
      if (expert == kNoExpert) continue;
      claims.push_back({place / where.length * experts_ + expert, each > 1 + k ? all[i + 1 + k + j] : 0, place,
                        is_mine ? static_cast<std::int64_t>((i - mine_) / each * k + j) : -1});
    }
  }
  std::sort(claims.begin(), claims.end());
  const std::int64_t most = capacity(where.length);
  std::int64_t in_queue = 0, dropped = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    in_queue = i > 0 && claims[i].queue == claims[i - 1].queue ? in_queue + 1 : 0;
    if (in_queue < most || claims[i].own < 0) continue;
    routing.experts[at(claims[i].own)] = kNoExpert;
    ++dropped;
  }
  return dropped;
}

template class CapacityLimit<float>;
template class CapacityLimit<double>;

}  // namespace sinew::parallel

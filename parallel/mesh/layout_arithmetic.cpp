#include <algorithm>
#include <string_view>

#include <sinew/parallel/mesh/axis_names.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>

namespace sinew::parallel {
namespace {

/// An axis, and the name that stands for it in the order.
struct Placed {
  std::string_view place;
  Axis axis;
};

std::vector<Axis> put_in_order(const std::vector<std::string>& order, std::vector<Placed> all) {
  const auto place = [&](const Placed& p) { return std::ranges::find(order, p.place) - order.begin(); };
  std::ranges::stable_sort(all, {}, place);
  std::vector<Axis> axes;
  for (Placed& p : all) axes.push_back(std::move(p.axis));
  return axes;
}

int left_of(int ranks, std::int64_t taken) noexcept {
  return ranks > 0 && taken > 0 && ranks % taken == 0 ? static_cast<int>(ranks / taken) : 0;
}

}  // namespace

std::int64_t product_of(std::span<const int> sizes) noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::int64_t product = 1;
  for (const int s : sizes) product = std::min(product * std::max(s, 0), kMost);
  return product;
}

std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d != n / d) divisors.push_back(n / d);
  }
  return divisors;
}

int dp_of(const LayoutRequest& asked) noexcept {
  const LayoutSizes& s = asked.sizes;
  return s.dp > 0 ? s.dp : left_of(asked.ranks, product_of({s.tp, s.cp, s.pp}));
}

int edp_of(const LayoutRequest& asked) noexcept {
  const LayoutSizes& s = asked.sizes;
  return left_of(asked.ranks, product_of({s.etp, s.ep, s.pp}));
}

std::vector<Axis> dense_axes(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  return put_in_order(split_names(s.order),
                      {{"tp", {"tp", s.tp}}, {"cp", {"cp", s.cp}}, {"dp", {"dp", dp_of(asked)}}, {"pp", {"pp", s.pp}}});
}

std::vector<Axis> expert_axes(const LayoutRequest& asked) {
  const LayoutSizes& s = asked.sizes;
  return put_in_order(
      split_names(s.order),
      {{"tp", {"etp", s.etp}}, {"ep", {"ep", s.ep}}, {"dp", {"edp", edp_of(asked)}}, {"pp", {"pp", s.pp}}});
}

}  // namespace sinew::parallel

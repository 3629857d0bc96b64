#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

/// What a layout is asked to be; it may be nonsense.
struct LayoutRequest {
  int ranks = 0;
  LayoutSizes sizes;
};

/// A size by its name: "tp".
struct SizeField {
  const char* name;
  int LayoutSizes::*value;
};
inline constexpr SizeField kSizeFields[] = {{"tp", &LayoutSizes::tp}, {"cp", &LayoutSizes::cp},
                                            {"dp", &LayoutSizes::dp}, {"pp", &LayoutSizes::pp},
                                            {"ep", &LayoutSizes::ep}, {"etp", &LayoutSizes::etp}};

/// Exact below 2^31; that where it would be more, which no number of ranks is a multiple of; 0 where a size is below 1.
std::int64_t product_of(std::span<const int> sizes) noexcept;
inline std::int64_t product_of(std::initializer_list<int> sizes) noexcept {
  return product_of(std::span(sizes.begin(), sizes.size()));
}

/// Everything that divides n, which is 1 or more; in no order.
/// Cost: the square root of n.
std::vector<std::int64_t> divisors_of(std::int64_t n);

/// Ranks that hold the same dense parameters; 0 where the sizes leave no whole number of them.
int dp_of(const LayoutRequest& asked) noexcept;
/// The same of an expert's parameters.
int edp_of(const LayoutRequest& asked) noexcept;

/// Axes of dense parameters (tp, cp, dp, pp) and of experts (etp, ep, edp, pp) as the order puts them; those that it
/// does not name come last. Names that it should not have are passed over.
std::vector<Axis> dense_axes(const LayoutRequest& asked);
std::vector<Axis> expert_axes(const LayoutRequest& asked);

}  // namespace sinew::parallel

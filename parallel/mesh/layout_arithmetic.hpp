#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

/// A layout that somebody asks for. It may be impossible.
struct LayoutRequest {
  int ranks = 0;
  LayoutSizes sizes;
};

/// A member of LayoutSizes and its name, such as "tp".
struct SizeField {
  const char* name;
  int LayoutSizes::*value;
};
inline constexpr SizeField kSizeFields[] = {{"tp", &LayoutSizes::tp}, {"cp", &LayoutSizes::cp},
                                            {"dp", &LayoutSizes::dp}, {"pp", &LayoutSizes::pp},
                                            {"ep", &LayoutSizes::ep}, {"etp", &LayoutSizes::etp}};

/// The product of the sizes. Products above 2^31 become 2^31, of which no number of ranks is a multiple. 0 if a size is
/// below 1.
std::int64_t product_of(std::span<const int> sizes) noexcept;
inline std::int64_t product_of(std::initializer_list<int> sizes) noexcept {
  return product_of(std::span(sizes.begin(), sizes.size()));
}

/// All divisors of n, in no order. n is 1 or more.
/// Cost: the square root of n.
std::vector<std::int64_t> divisors_of(std::int64_t n);

/// The number of ranks that hold the same dense parameters. 0 if the sizes leave no whole number.
int dp_of(const LayoutRequest& asked) noexcept;
/// The number of ranks that hold the same parameters of an expert. 0 if the sizes leave no whole number.
int edp_of(const LayoutRequest& asked) noexcept;

/// Axes of dense parameters (tp, cp, dp, pp), and of experts (etp, ep, edp, pp), in the requested order. Axes that the
/// order does not name come last. Unknown names in the order are ignored.
std::vector<Axis> dense_axes(const LayoutRequest& asked);
std::vector<Axis> expert_axes(const LayoutRequest& asked);

}  // namespace sinew::parallel

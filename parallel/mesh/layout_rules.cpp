#include <sinew/parallel/mesh/layout_rules.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>

namespace sinew::parallel {

std::vector<Violation> violations(int ranks, const LayoutSizes& sizes) {
  return layout_rules().violations({ranks, sizes});
}

}  // namespace sinew::parallel

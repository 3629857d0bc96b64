#include "ranks.hpp"

#include <algorithm>
#include <numeric>

namespace sinew::tools {

double Ranks::largest(double mine) { return std::ranges::max(gather({&mine, 1})); }

double Ranks::sum(double mine) {
  const std::vector<double> all = gather({&mine, 1});
  return std::accumulate(all.begin(), all.end(), 0.0);
}

}  // namespace sinew::tools

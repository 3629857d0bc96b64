#include <sinew/parallel/placement/tensor.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>

namespace sinew::parallel {

Shard checked_cut(Shard cut, int ranks, std::int64_t extent, const std::string& name, const std::string& axis) {
  cut.dim = 0;
  require_valid({name + " weight", DType::F32, {extent}, Placements({{axis, cut}})}, Factorisation({{axis, ranks}}));
  return cut;
}

}  // namespace sinew::parallel

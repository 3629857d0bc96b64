#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/placement/tensor.hpp>
#include <sinew/parallel/placement/validity.hpp>

namespace sinew::parallel {
std::int64_t TensorSpec::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::string TensorSpec::to_string() const {
  return fmt::format("'{}' ({} [{}])", name, name_of(dtype), fmt::join(shape, ", "));
}

void require_valid(const TensorSpec& spec, const Factorisation& mesh) {
  const std::string fault = fault_of(spec, mesh);
  if (!fault.empty()) throw Error(Code::InvalidArgument, fmt::format("tensor {}: {}", spec.to_string(), fault));
}

Box local_box(const TensorSpec& spec, const Factorisation& mesh, int rank) {
  require_valid(spec, mesh);
  return box_of(spec, mesh, rank);
}

std::size_t local_bytes(const TensorSpec& spec, const Factorisation& mesh, int rank) {
  return static_cast<std::size_t>(local_box(spec, mesh, rank).elements()) * size_of(spec.dtype);
}

}  // namespace sinew::parallel

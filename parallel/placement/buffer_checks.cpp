#include <functional>

#include <fmt/format.h>

#include <sinew/parallel/placement/buffer_checks.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>

namespace sinew::parallel {

std::string fault_of_buffer(const TensorSpec& spec, ConstBuffer buffer, std::string_view which,
                            const Factorisation& mesh, int rank) {
  const std::size_t expected = static_cast<std::size_t>(box_of(spec, mesh, rank).elements()) * size_of(spec.dtype);
  if (buffer.bytes != expected)
    return fmt::format("the buffer of {} has {} bytes, expected {}, which rank {} holds of {}", which, buffer.bytes,
                       expected, rank, spec.placements.to_string());
  if (expected > 0 && buffer.data == nullptr)
    return fmt::format("the buffer of {} is null, expected {} bytes", which, expected);
  return {};
}

bool overlap(ConstBuffer a, ConstBuffer b) noexcept {
  const std::less<> before;
  return a.bytes > 0 && b.bytes > 0 && before(a.data, b.data + b.bytes) && before(b.data, a.data + a.bytes);
}

}  // namespace sinew::parallel

#include "exact_data.hpp"

#include "exact_rows.hpp"

namespace sinew::check {
namespace {

constexpr std::uint64_t kSaltStep = 331;

ExactRows rows_of(const Pattern& p) { return {p.dtype, p.op, true, p.ranks}; }

std::uint64_t wrong(const Pattern& p, int source, std::uint64_t first, ConstBuffer found) {
  return rows_of(p).differing(found.data, source, first + p.salt * kSaltStep, found.bytes / size_of(p.dtype));
}

}  // namespace

void fill(const Pattern& pattern, int rank, std::uint64_t first, Buffer to) {
  rows_of(pattern).write(to.data, rank, first + pattern.salt * kSaltStep, to.bytes / size_of(pattern.dtype));
}

std::uint64_t wrong_combined(const Pattern& pattern, std::uint64_t first, ConstBuffer found) {
  return wrong(pattern, kCombined, first, found);
}

std::uint64_t wrong_copied(const Pattern& pattern, int rank, std::uint64_t first, ConstBuffer found) {
  return wrong(pattern, rank, first, found);
}

}  // namespace sinew::check

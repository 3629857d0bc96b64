#pragma once

#include <cstddef>
#include <cstdint>

namespace sinew::parallel {

/// A number of a rank, unit, node, token or expert as an index into a vector. These numbers are signed because -1 means
/// "none" elsewhere; here the number must be 0 or more.
inline std::size_t at(std::int64_t number) noexcept { return static_cast<std::size_t>(number); }

}  // namespace sinew::parallel

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Bytes nobody can guess, from the kernel. Errors: Error{System}.
SINEW_API void fill_random(std::span<std::byte> out);

/// An id that no other process or object has.
SINEW_API std::uint64_t random_id();

}  // namespace sinew

#pragma once

#include <cstddef>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Copies past this core's caches, for memory that another core has read and will read again: an ordinary store would
/// first have to take every line back from that core's cache, which can cost ten times the copy.
/// `to` is aligned to a cache line. Other cores may see the bytes in any order until finish_streams().
SINEW_API void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// What was streamed is visible before anything that is stored after. Cost: about 0.2 us.
SINEW_API void finish_streams() noexcept;

}  // namespace sinew

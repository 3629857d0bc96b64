#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sinew/core/error.hpp>

namespace sinew::parallel {

/// Words of a Status in a message of fixed length. A longer text is cut.
inline constexpr std::size_t kStatusWords = 128;
using StatusWords = std::array<std::uint64_t, kStatusWords>;

StatusWords words_of(const Status& status);
/// words: as words_of returns them.
Status status_from(std::span<const std::uint64_t, kStatusWords> words);

}  // namespace sinew::parallel

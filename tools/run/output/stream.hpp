#pragma once

#include <utility>

namespace sinew::run {

enum class Stream : int { Output = 1, Errors = 2 };  // the descriptors they go to

/// One stream of one rank. kOwnLines in place of a rank: what sinew-run itself says.
using Source = std::pair<int, Stream>;
inline constexpr int kOwnLines = -1;

}  // namespace sinew::run

#pragma once

#include <array>

namespace sinew {

/// What a side that does not speak TLS, or speaks nothing else, says to one that begins otherwise: TLS's fatal alert
/// "protocol version", which every TLS understands, and a side without TLS knows by its bytes.
inline constexpr std::array<unsigned char, 7> kNotSpokenHere = {21, 3, 3, 0, 2, 2, 70};

}  // namespace sinew

#pragma once

#include <sinew/core/base/sanitizer.hpp>

namespace sinew::test {

/// In a build with a sanitizer, which takes some twenty times as long: what asks for more of the same is shorter there.
inline constexpr bool kSanitized = SINEW_ADDRESS_SANITIZER || SINEW_THREAD_SANITIZER;

}  // namespace sinew::test

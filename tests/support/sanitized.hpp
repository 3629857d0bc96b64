#pragma once

namespace sinew::testing {

/// In a build with a sanitizer, which takes some twenty times as long: what asks for more of the same is shorter there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace sinew::testing

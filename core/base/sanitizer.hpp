#pragma once

// Macros that are 1 if this build uses the sanitizer and 0 otherwise, for gcc and clang.
#if defined(__has_feature)
#define SINEW_HAS_FEATURE(name) __has_feature(name)
#else
#define SINEW_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SINEW_HAS_FEATURE(address_sanitizer)
#define SINEW_ADDRESS_SANITIZER 1
#else
#define SINEW_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__) || SINEW_HAS_FEATURE(thread_sanitizer)
#define SINEW_THREAD_SANITIZER 1
#else
#define SINEW_THREAD_SANITIZER 0
#endif

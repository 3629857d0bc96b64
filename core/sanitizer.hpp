#pragma once

// Which sanitizer this build has, as 0 or 1: gcc and clang each have a way of their own to say so.
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

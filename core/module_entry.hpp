#pragma once

#include <cstdint>
#include <string_view>

#include <sinew/core/base/sanitizer.hpp>
#include <sinew/core/contract_hash.hpp>
#include <sinew/core/fabric.hpp>

#if SINEW_ADDRESS_SANITIZER
#define SINEW_ABI_SANITIZER "asan"
#elif SINEW_THREAD_SANITIZER
#define SINEW_ABI_SANITIZER "tsan"
#else
#define SINEW_ABI_SANITIZER "plain"
#endif
#if defined(_GLIBCXX_RELEASE)
#define SINEW_ABI_LIBRARY "libstdc++-" SINEW_TEXT_OF(_GLIBCXX_USE_CXX11_ABI)
#elif defined(_LIBCPP_VERSION)
#define SINEW_ABI_LIBRARY "libc++-" SINEW_TEXT_OF(_LIBCPP_ABI_VERSION)
#else
#define SINEW_ABI_LIBRARY "unknown"
#endif
#define SINEW_TEXT_OF(value) SINEW_TEXT_OF_TOKENS(value)
#define SINEW_TEXT_OF_TOKENS(tokens) #tokens

/// The ABI id of a module or of the library that loads it. Both ids must be equal before any function is called. The id
/// tells the contract headers, the C++ ABIs of the compiler and of the standard library, and the sanitizer.
#define SINEW_ABI_ID \
  "sinew-" SINEW_CONTRACT_HASH "/c++abi-" SINEW_TEXT_OF(__GXX_ABI_VERSION) "/" SINEW_ABI_LIBRARY "/" SINEW_ABI_SANITIZER

namespace sinew {

inline constexpr char kAbiId[] = SINEW_ABI_ID;

/// The data that a module file exports under the name "sinew_module_entry". The ABI id is its first member, so that it
/// can be read from a module of any version.
struct ModuleEntry {
  const char* abi_id;
  Module* (*module)() noexcept;  ///< returns the same object each time, which lives as long as the process
};

}  // namespace sinew

/// Exports a module. Use it once, in one source file of the module: `SINEW_MODULE(my_transport::module)`. The argument
/// is a function `Module& () noexcept`.
#define SINEW_MODULE(function)                                                                   \
  extern "C" __attribute__((visibility("default"))) const sinew::ModuleEntry sinew_module_entry; \
  const sinew::ModuleEntry sinew_module_entry = {sinew::kAbiId, []() noexcept -> sinew::Module* { return &function(); }}

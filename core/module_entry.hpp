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

/// What a module and its host must share before one may call the other: the contract headers, the compiler's C++ ABI,
/// the standard library's, the sanitizer.
#define SINEW_ABI_ID \
  "sinew-" SINEW_CONTRACT_HASH "/c++abi-" SINEW_TEXT_OF(__GXX_ABI_VERSION) "/" SINEW_ABI_LIBRARY "/" SINEW_ABI_SANITIZER

namespace sinew {

inline constexpr char kAbiId[] = SINEW_ABI_ID;

/// What a module file exports under the name "sinew_module_entry": data, of which the ABI id comes first and is
/// compared before anything is called.
struct ModuleEntry {
  const char* abi_id;
  Module* (*module)() noexcept;  ///< the same object each time; it lives as long as the process
};

}  // namespace sinew

/// Once in one source file of a module: `SINEW_MODULE(my_transport::module)`, a function Module& () noexcept.
#define SINEW_MODULE(function)                                                                   \
  extern "C" __attribute__((visibility("default"))) const sinew::ModuleEntry sinew_module_entry; \
  const sinew::ModuleEntry sinew_module_entry = {sinew::kAbiId, []() noexcept -> sinew::Module* { return &function(); }}

#pragma once

#include <cstdint>
#include <optional>

#include <sinew/c/types.h>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::c {

/// The options of a call, as the C++ API takes them. It is not copied, because the options refer to it.
class CallSettings {
 public:
  /// `given` may be null. `element_bytes` are those of the call's dtype; 0: the call does not reduce.
  /// Errors: InvalidArgument for the size of another version, a number that is no enumerator, or a bad deadline.
  CallSettings(const char* function, const sinew_call_options* given, bool waits_at_once, std::uint32_t element_bytes)
      : options_(&none(waits_at_once)) {
    if (given != nullptr) take(function, *given, waits_at_once, element_bytes);
  }
  CallSettings(const CallSettings&) = delete;
  CallSettings& operator=(const CallSettings&) = delete;

  const CallOptions& options() const noexcept { return *options_; }
  Place place() const noexcept { return place_; }

  /// The options of calls for which the caller gives none.
  static const CallOptions& none(bool waits_at_once) noexcept { return waits_at_once ? kWaits : kStarts; }

 private:
  static constexpr CallOptions kStarts{.where = {}};
  static constexpr CallOptions kWaits{.waits_at_once = true, .where = {}};

  struct Given {
    CallOptions options;
    Reducer reducer;
  };

  void take(const char* function, const sinew_call_options& given, bool waits_at_once, std::uint32_t element_bytes);

  const CallOptions* options_;
  std::optional<Given> given_;
  Place place_;
};

/// The function of the C API as one of the C++ API. The two types differ in `noexcept` only.
inline Reducer reducer_of(sinew_reduce_function reduce, const void* context, std::uint32_t element_bytes) noexcept {
  return {reinterpret_cast<ReduceFn>(reduce), context, element_bytes};
}

// These read an enumeration of the C API. Errors: InvalidArgument for a number that is no enumerator.
Place place_of(const char* function, sinew_memory_kind kind, int device);
Determinism determinism_of(const char* function, sinew_determinism level);
Codec codec_of(const char* function, sinew_codec codec);

}  // namespace sinew::c

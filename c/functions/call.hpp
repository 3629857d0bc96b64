#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/call_settings.hpp>
#include <sinew/c/border/last_error.hpp>
#include <sinew/c/handles/use.hpp>

namespace sinew::c {

/// The element type and the operator of a call, as the caller gave them.
struct Elements {
  const char* function;
  DType dtype;

  Elements(const char* of_function, sinew_dtype of)
      : function(of_function), dtype(dtype_of(of_function, static_cast<int>(of))) {}
  std::uint32_t bytes() const noexcept { return static_cast<std::uint32_t>(size_of(dtype)); }
  ReduceOp op(sinew_op given) const {
    return enum_of<ReduceOp>(function, "op", static_cast<int>(given), kReduceOpCount);
  }
  /// A buffer of `blocks` blocks of `count` elements.
  ConstBuffer in(const void* data, std::uint64_t count, std::uint64_t blocks, Place place) const {
    return {static_cast<const std::byte*>(data), bytes_of(function, count, blocks, dtype), place};
  }
  Buffer out(void* data, std::uint64_t count, std::uint64_t blocks, Place place) const {
    return {static_cast<std::byte*>(data), bytes_of(function, count, blocks, dtype), place};
  }
};

/// Starts a call. Without a work it waits for the end of the call; otherwise the work gets a handle.
/// `start` makes the call: Work start(CommunicatorEntry&, const CallOptions&, Place).
/// `element_bytes`: those of the dtype if the call reduces, otherwise 0.
template <class Start>
void start_call(const char* function, sinew_communicator communicator, const sinew_call_options* options,
                sinew_work* work, std::uint32_t element_bytes, Start&& start) {
  if (work != nullptr) work->id = 0;
  const Use<CommunicatorEntry> use(function, communicator.id);
  if (work == nullptr && options == nullptr) {
    // The place is a constant here, so it is written as one word. A place that is read and copied in two halves makes
    // the CPU wait until every store before it has reached the cache.
    start(use.entry(), CallSettings::none(true), Place{}).get();
    return;
  }
  const CallSettings settings(function, options, work == nullptr, element_bytes);
  if (work == nullptr) {
    start(use.entry(), settings.options(), settings.place()).get();
    return;
  }
  NewPlace<WorkEntry> place;
  place->work = start(use.entry(), settings.options(), settings.place());
  work->id = place.open(use->of);
}

}  // namespace sinew::c

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>

namespace sinew::parallel {

/// A part that this rank's optimizer updates: elements [first, last) of a parameter, with their summed gradient.
struct OwnedPart {
  std::int32_t parameter = 0;
  std::int64_t first = 0, last = 0;
  DType dtype = DType::F32;
  Buffer value, gradient;
  std::optional<DType> of_gradient{};  ///< {}: the dtype of the value
  /// The number of the sum that made the gradient: StepProtocol::sums() after that sum. 0: the part has no gradient.
  std::uint64_t sum = 0;

  DType gradient_dtype() const noexcept { return of_gradient.value_or(dtype); }
};

/// Checks, for a call that reads gradients of parts, that the gradients are summed and belong to the present step.
/// Errors: as StepProtocol, whose communicators then end too.
SINEW_API void require_sums(StepProtocol& step, std::string_view call, std::span<const OwnedPart> parts);

}  // namespace sinew::parallel

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew::parallel {

/// An engine's description of a parameter. `path` ("blocks.3.attention.weight") names the parameter, and says which
/// layer and block it belongs to.
struct DataParameter {
  std::string path;
  DType dtype = DType::F32;
  std::int64_t elements = 0;
  /// the part of the model that the engine runs as one, such as a block. Its parameters are gathered and freed together
  std::string unit;
  std::int32_t uses = 1;  ///< how often a backward pass reports the gradient
  /// The dtype in which the gradient is held, added up, and summed over the ranks. F32 is allowed for parameters of 16
  /// bits. {}: the parameter's dtype.
  std::optional<DType> gradient{};

  DType gradient_dtype() const noexcept { return gradient.value_or(dtype); }
};

/// Writes elements [first, last) of a parameter's initial values into `into`. It must write the same values on every
/// rank. Each rank asks only for the elements that it holds.
using InitialValues = std::function<void(std::int32_t parameter, std::int64_t first, std::int64_t last, Buffer into)>;

}  // namespace sinew::parallel

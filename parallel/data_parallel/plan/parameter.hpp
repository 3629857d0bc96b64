#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/box.hpp>

namespace sinew::parallel {

/// An engine's description of a parameter: what data parallelism, norms and checkpoints know of it. `path`
/// ("blocks.3.attention.weight") names the parameter, and says which layer and block it belongs to.
struct DataParameter {
  std::string path;
  DType dtype = DType::F32;
  /// the elements that this rank's group has, such as a tensor-parallel part. 0: as `shape` and `box` say
  std::int64_t elements = 0;
  /// the part of the model that the engine runs as one, such as a block. Its parameters are gathered and freed together
  std::string unit;
  std::int32_t uses = 1;  ///< how often a backward pass reports the gradient
  /// The dtype in which the gradient is held, added up, and summed over the ranks. F32 is allowed for parameters of 16
  /// bits. {}: the parameter's dtype.
  std::optional<DType> gradient{};
  std::vector<std::int64_t> shape{};  ///< of the whole parameter in the model. {}: flat, `elements` long
  Box box{};                          ///< the part of `shape` that this rank's group has. No dimensions: all
  /// The axes along which ranks hold different elements, such as "tp" or "pp-tp"; "" if each rank holds all. An axis
  /// that data parallelism shards does not belong to it.
  std::string spread{};

  DType gradient_dtype() const noexcept { return gradient.value_or(dtype); }
  /// The number in the whole parameter of element k of this part.
  std::int64_t number_in_whole(std::int64_t k) const noexcept {
    return box.first.empty() ? k : sinew::parallel::number_in_whole(shape, box, k);
  }
};

/// Fills in the members that follow from others: then each parameter has elements, a shape and a box.
/// Errors: InvalidArgument naming all parameters whose shape, box and elements do not go together.
SINEW_API std::vector<DataParameter> complete_parameters(std::vector<DataParameter> parameters);

/// Writes elements [first, last) of a parameter's initial values into `into`. It must write the same values on every
/// rank. Each rank asks only for the elements that it holds. DataParameter::number_in_whole() tells where they lie in
/// the whole parameter.
using InitialValues = std::function<void(std::int32_t parameter, std::int64_t first, std::int64_t last, Buffer into)>;

}  // namespace sinew::parallel

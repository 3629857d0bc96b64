#pragma once

// The record of a model's parameter. Layers make it. Data parallelism, norms and checkpoints use it. The room also has
// a parameter's initial values. It may include placements.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/box.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// An engine's description of a parameter: what data parallelism, norms and checkpoints know of it. `path`
/// ("blocks.3.attention.weight") names the parameter, and says which layer and block it belongs to.
struct DataParameter {
  std::string path{};
  DType dtype = DType::F32;
  /// the elements that this rank's group has, such as a tensor-parallel part. 0: as `shape` and `box` say
  std::int64_t elements = 0;
  /// the part of the model that the engine runs as one, such as a block. Its parameters are gathered and freed together
  std::string unit{};
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

/// A parameter of this name and shape, of which every rank has all elements. like: everything else.
SINEW_API DataParameter whole_parameter(DataParameter like, std::string path, std::vector<std::int64_t> shape);

/// The part of a parameter that a rank has when it is cut along dimension `dim` over `ranks`: `mine` of that dimension.
/// With several ranks the axis is added to the spread. A parameter may be cut along several dimensions.
SINEW_API DataParameter cut_along(DataParameter parameter, std::size_t dim, const Rows& mine, const std::string& axis,
                                  int ranks);

/// The initial values that a rank asks for: elements [first, last) of its part of a parameter.
/// Lifetime: valid during the call that it is passed to.
struct SINEW_API InitialPart {
  const DataParameter& parameter;  ///< as complete_parameters() makes it: with the place of the part in the whole
  std::int32_t number = 0;         ///< of the parameter
  std::int64_t first = 0, last = 0;
  Buffer into{};  ///< last - first elements of the parameter's dtype

  /// Writes value(k) for each element, where k is the element's number in the whole parameter. So the values do not
  /// depend on the layout. They are rounded to the parameter's dtype.
  /// Errors: InvalidArgument naming the parameter, unless its dtype is F64, F32, F16 or BF16.
  /// Cost:   per element a call, and a division for each dimension that is cut.
  template <class F>
  void fill(F&& value) const {
    const Write write = write_of_dtype();
    for (std::int64_t k = first; k < last; ++k)
      write(into.data, k - first, static_cast<double>(value(parameter.number_in_whole(k))));
  }

 private:
  using Write = void (*)(std::byte* to, std::int64_t element, double value);
  Write write_of_dtype() const;
};

/// Writes the initial values that it is asked for. It must write the same values on every rank. Each rank asks only for
/// the elements that it holds.
using InitialValues = std::function<void(const InitialPart& part)>;

}  // namespace sinew::parallel

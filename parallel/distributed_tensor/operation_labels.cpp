#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/distributed_tensor/operation_labels.hpp>

namespace sinew::parallel {

void refuse_operation(std::string_view name, const std::string& fault) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", name, fault));
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

char LabelLetters::next() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (given_ == static_cast<int>(kLetters.size()))
    throw Error(Code::InvalidArgument,
                fmt::format("an operation on tensors of more than {} different dimensions; expected fewer", given_));
  return kLetters[static_cast<std::size_t>(given_++)];
}

std::string LabelLetters::next(std::size_t count) {
  std::string letters;
  for (std::size_t i = 0; i < count; ++i) letters += next();
  return letters;
}

BroadcastLabels broadcast_labels(std::string_view name, std::span<const TensorSpec> specs,
                                 std::span<const std::vector<std::int64_t>> shapes, LabelLetters& letters) {
  BroadcastLabels made;
  std::size_t dims = 0;
  for (const auto& shape : shapes) dims = std::max(dims, shape.size());
  made.shape.assign(dims, 1);
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const std::size_t lead = dims - shapes[t].size();
    for (std::size_t d = 0; d < shapes[t].size(); ++d) {
      const std::int64_t extent = shapes[t][d];
      std::int64_t& common = made.shape[lead + d];
      if (extent == 1 || extent == common) continue;
      if (common != 1)
        refuse_operation(name, fmt::format("{} has {} in dimension {}, where other operands have {}; expected {} or 1",
                                           specs[t].to_string(), extent, d, common, common));
      common = extent;
    }
  }
  made.labels = letters.next(dims);
  for (const auto& shape : shapes) {
    std::string& labels = made.tensors.emplace_back();
    const std::size_t lead = dims - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool repeated = shape[d] != made.shape[lead + d];
      labels += repeated ? letters.next() : made.labels[lead + d];
      if (repeated) made.whole += labels.back();
    }
  }
  return made;
}

std::string join_labels(std::span<const std::string> operands, std::span<const std::string> results, char separator) {
  return fmt::format("{}->{}", fmt::join(operands, std::string(1, separator)), fmt::join(results, ","));
}

void require_float_dtypes(std::string_view name, std::span<const TensorSpec> specs) {
  for (const TensorSpec& spec : specs) {
    const DType dtype = spec.dtype;
    if (dtype != DType::F64 && dtype != DType::F32 && dtype != DType::BF16 && dtype != DType::F16)
      refuse_operation(name,
                       fmt::format("{} is of {}; expected f64, f32, bf16 or f16", spec.to_string(), name_of(dtype)));
    if (dtype != specs.front().dtype)
      refuse_operation(name, fmt::format("{} and {} differ in dtype; expected one dtype", specs.front().to_string(),
                                         spec.to_string()));
  }
}

std::size_t dimension_of(std::string_view name, const TensorSpec& spec, int dim) {
  const int dims = static_cast<int>(spec.shape.size());
  if (dim < -dims || dim >= dims)
    refuse_operation(name, fmt::format("dimension {} of {}; expected one of its {} dimensions, from {} to {}", dim,
                                       spec.to_string(), dims, -dims, dims - 1));
  return static_cast<std::size_t>(dim < 0 ? dim + dims : dim);
}

}  // namespace sinew::parallel

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {
namespace {

/// Returns the fault of the parameter's box. Empty: there is none.
std::string fault_of_box(const DataParameter& p) {
  const std::size_t dimensions = p.shape.size();
  if (p.box.first.size() != dimensions || p.box.last.size() != dimensions)
    return fmt::format("has a box of {} and {} bounds, expected {} each, as its shape [{}]", p.box.first.size(),
                       p.box.last.size(), dimensions, fmt::join(p.shape, ", "));
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (p.box.first[d] < 0 || p.box.first[d] > p.box.last[d] || p.box.last[d] > p.shape[d])
      return fmt::format("has the range {} to {} in dimension {} of its box, expected one within its shape [{}]",
                         p.box.first[d], p.box.last[d], d, fmt::join(p.shape, ", "));
  }
  return {};
}

/// Completes the parameter. Returns why its members do not go together. Empty: they do.
std::string complete(DataParameter& p) {
  if (p.shape.empty() && p.elements < 1) return {};  // plan_step() refuses it
  if (p.shape.empty()) {
    if (!p.box.first.empty()) return "has a box, but no shape: expected both or neither";
    p.shape = {p.elements};
  }
  if (p.box.first.empty()) p.box = {std::vector<std::int64_t>(p.shape.size(), 0), p.shape};
  if (std::string fault = fault_of_box(p); !fault.empty()) return fault;
  const std::int64_t elements = p.box.elements();
  if (p.elements == 0) p.elements = elements;
  if (p.elements == elements) return {};
  return fmt::format("has {} elements, expected {}: those of its part of the shape [{}]", p.elements, elements,
                     fmt::join(p.shape, ", "));
}

template <class T>
void write_as(std::byte* to, std::int64_t element, T value) {
  std::memcpy(to + static_cast<std::size_t>(element) * sizeof value, &value, sizeof value);
}

}  // namespace

DataParameter whole_parameter(DataParameter like, std::string path, std::vector<std::int64_t> shape) {
  like.path = std::move(path);
  like.shape = std::move(shape);
  like.box = {std::vector<std::int64_t>(like.shape.size(), 0), like.shape};
  like.elements = 0;
  return like;
}

DataParameter cut_along(DataParameter parameter, std::size_t dim, const Rows& mine, const std::string& axis,
                        int ranks) {
  parameter.box.first[dim] = mine.first;
  parameter.box.last[dim] = mine.last;
  if (ranks > 1) parameter.spread += parameter.spread.empty() ? axis : "-" + axis;
  return parameter;
}

InitialPart::Write InitialPart::write_of_dtype() const {
  switch (parameter.dtype) {
    case DType::F64: return [](std::byte* to, std::int64_t k, double x) { write_as(to, k, x); };
    case DType::F32: return [](std::byte* to, std::int64_t k, double x) { write_as(to, k, static_cast<float>(x)); };
    case DType::F16:
      return [](std::byte* to, std::int64_t k, double x) { write_as(to, k, to_half(static_cast<float>(x))); };
    case DType::BF16:
      return [](std::byte* to, std::int64_t k, double x) { write_as(to, k, to_bfloat16(static_cast<float>(x))); };
    default:
      throw Error(Code::InvalidArgument, fmt::format("InitialPart::fill of '{}': dtype {}, expected f64, f32, f16 or "
                                                     "bf16; write the bytes of others to `into`",
                                                     parameter.path, name_of(parameter.dtype)));
  }
}

std::vector<DataParameter> complete_parameters(std::vector<DataParameter> parameters) {
  std::vector<std::string> wrong;
  for (DataParameter& p : parameters) {
    if (const std::string fault = complete(p); !fault.empty())
      wrong.push_back(fmt::format("parameter '{}' {}", p.path, fault));
  }
  if (wrong.empty()) return parameters;
  throw Error(Code::InvalidArgument, fmt::format("data parallelism: {}", fmt::join(wrong, "; ")));
}

}  // namespace sinew::parallel

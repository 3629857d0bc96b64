#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>

namespace sinew::parallel {
namespace {

class Naming {
 public:
  Naming(const std::vector<DataParameter>& parameters, std::span<const ParameterShape> shapes)
      : parameters_(parameters), shapes_(shapes) {
    if (!shapes.empty() && shapes.size() != parameters.size())
      throw Error(Code::InvalidArgument, fmt::format("checkpoint: {} shapes, expected {}, one per parameter, or none",
                                                     shapes.size(), parameters.size()));
  }

  /// Elements [first, last) of what this rank's group has of the parameter.
  CheckpointPart part(std::int32_t parameter, std::int64_t first, std::int64_t last, Buffer buffer) const {
    const auto p = static_cast<std::size_t>(parameter);
    const DataParameter& known = parameters_[p];
    CheckpointItem item{known.path, known.dtype, {known.elements}};
    Extent extent = range_of(item, first, last);
    if (!shapes_.empty()) {
      item.shape = shapes_[p].shape;
      extent = shapes_[p].box.first.empty() ? range_of(item, first, last) : Extent{shapes_[p].box, first, last};
    }
    if (extent.box.elements() != known.elements)
      throw Error(Code::InvalidArgument,
                  fmt::format("checkpoint: {} has {} elements here, expected {}: those of the parameter",
                              item.to_string(), extent.box.elements(), known.elements));
    return {std::move(item), std::move(extent), buffer};
  }

 private:
  const std::vector<DataParameter>& parameters_;
  std::span<const ParameterShape> shapes_;
};

void add_state(std::vector<CheckpointPart>& parts, const Naming& naming, DataParallel& data, Optimizer& optimizer) {
  for (const StatePart& state : optimizer.state(data.owned_values())) {
    CheckpointPart part = naming.part(state.parameter, state.first, state.last, state.values);
    part.item.name = fmt::format("optimizer.{}.{}", part.item.name, state.kind);
    part.item.dtype = state.dtype;
    parts.push_back(std::move(part));
  }
}

}  // namespace

std::vector<CheckpointPart> parts_to_save(DataParallel& data, Optimizer& optimizer,
                                          std::span<const ParameterShape> shapes) {
  data.begin_checkpoint("parts_to_save()");
  return parts_to_carry(data, optimizer, shapes);
}

std::vector<CheckpointPart> parts_to_carry(DataParallel& data, Optimizer& optimizer,
                                           std::span<const ParameterShape> shapes) {
  const Naming naming(data.parameters(), shapes);
  std::vector<CheckpointPart> parts;
  for (const OwnedPart& own : data.owned_values())
    parts.push_back(naming.part(own.parameter, own.first, own.last, own.value));
  add_state(parts, naming, data, optimizer);
  return parts;
}

std::vector<CheckpointPart> parts_to_load(DataParallel& data, Optimizer& optimizer,
                                          std::span<const ParameterShape> shapes) {
  data.begin_checkpoint("parts_to_load()");
  if (!data.keeps_whole_parameters()) return parts_to_carry(data, optimizer, shapes);
  const Naming naming(data.parameters(), shapes);
  std::vector<CheckpointPart> parts;
  for (std::int32_t p = 0; p < std::ssize(data.parameters()); ++p)
    parts.push_back(naming.part(p, 0, data.parameters()[static_cast<std::size_t>(p)].elements, data.parameter(p)));
  add_state(parts, naming, data, optimizer);
  return parts;
}

}  // namespace sinew::parallel

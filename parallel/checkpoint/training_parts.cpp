#include <fmt/format.h>

#include <sinew/parallel/checkpoint/training_parts.hpp>

namespace sinew::parallel {
namespace {

/// Elements [first, last) of what this rank's group has of the parameter.
CheckpointPart part_of(const DataParameter& parameter, std::int64_t first, std::int64_t last, Buffer buffer) {
  return {{parameter.path, parameter.dtype, parameter.shape}, {parameter.box, first, last}, buffer};
}

const DataParameter& parameter_of(const DataParallel& data, std::int32_t number) {
  return data.parameters()[static_cast<std::size_t>(number)];
}

void add_state(std::vector<CheckpointPart>& parts, DataParallel& data, Optimizer& optimizer) {
  for (const StatePart& state : optimizer.state(data.owned_values())) {
    CheckpointPart part = part_of(parameter_of(data, state.parameter), state.first, state.last, state.values);
    part.item.name = fmt::format("optimizer.{}.{}", part.item.name, state.kind);
    part.item.dtype = state.dtype;
    parts.push_back(std::move(part));
  }
}

}  // namespace

std::vector<CheckpointPart> parts_to_save(DataParallel& data, Optimizer& optimizer) {
  data.begin_checkpoint("parts_to_save()");
  return parts_to_carry(data, optimizer);
}

std::vector<CheckpointPart> parts_to_carry(DataParallel& data, Optimizer& optimizer) {
  if (!data.keeps_state()) return {};
  std::vector<CheckpointPart> parts;
  for (const OwnedPart& own : data.owned_values())
    parts.push_back(part_of(parameter_of(data, own.parameter), own.first, own.last, own.value));
  add_state(parts, data, optimizer);
  return parts;
}

std::vector<CheckpointPart> parts_to_load(DataParallel& data, Optimizer& optimizer) {
  data.begin_checkpoint("parts_to_load()");
  if (!data.keeps_whole_parameters()) return parts_to_carry(data, optimizer);
  std::vector<CheckpointPart> parts;
  for (std::int32_t p = 0; p < std::ssize(data.parameters()); ++p) {
    const DataParameter& known = parameter_of(data, p);
    parts.push_back(part_of(known, 0, known.elements, data.parameter(p)));
  }
  add_state(parts, data, optimizer);
  return parts;
}

}  // namespace sinew::parallel

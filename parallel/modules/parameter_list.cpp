#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>

namespace sinew::parallel {

InitialRule all_equal_to(double value) {
  return [value](const KeyedRandom&, std::int64_t) { return value; };
}

InitialRule normally_distributed(double deviation) {
  return [deviation](const KeyedRandom& random, std::int64_t k) {
    return deviation * random.normal(static_cast<std::uint64_t>(k));
  };
}

std::int32_t ParameterList::add(Family& family, DataParameter parameter, InitialRule initial) {
  if (std::ranges::find(family.parameters, parameter.path, &DataParameter::path) != family.parameters.end())
    throw Error(Code::InvalidArgument,
                fmt::format("modules: two parameters are called '{}', expected names that differ", parameter.path));
  const bool is_part = !parameter.box.first.empty() && !parameter.shape.empty() &&
                       parameter.box != Box{std::vector<std::int64_t>(parameter.shape.size(), 0), parameter.shape};
  if (is_part && parameter.spread == like_.spread)
    throw Error(Code::InvalidArgument,
                fmt::format("modules: '{}' is a part of a parameter of shape [{}], but is spread along '{}' only; "
                            "expected the axis along which other ranks have the other parts, too",
                            parameter.path, fmt::join(parameter.shape, ", "), parameter.spread));
  family.parameters.push_back(std::move(parameter));
  family.rules.push_back(std::move(initial));
  return static_cast<std::int32_t>(family.parameters.size()) - 1;
}

std::int32_t ParameterList::add_shared(DataParameter parameter, InitialRule initial) {
  ++shared_[parameter.path];
  const auto found = std::ranges::find(dense_.parameters, parameter.path, &DataParameter::path);
  if (found == dense_.parameters.end()) {
    parameter.unit = shared_unit_;
    return add(std::move(parameter), std::move(initial));
  }
  if (found->shape != parameter.shape || found->box != parameter.box)
    throw Error(Code::InvalidArgument,
                fmt::format("modules: '{}' of shape [{}] is shared with a module that has it with shape [{}], expected "
                            "the same shape, and the same part of it on this rank",
                            parameter.path, fmt::join(parameter.shape, ", "), fmt::join(found->shape, ", ")));
  if (!has_stages_) ++found->uses;  // stages report nothing
  return static_cast<std::int32_t>(found - dense_.parameters.begin());
}

std::int32_t ParameterList::add_copy(DataParameter parameter) {
  copies_.push_back(std::move(parameter));
  return kFirstCopy + static_cast<std::int32_t>(copies_.size()) - 1;
}

void ParameterList::begin_unit(const std::string& unit) {
  if (is_in_unit_)
    throw Error(Code::InvalidArgument,
                fmt::format("modules: unit '{}' is within unit '{}', expected one after the other", unit, like_.unit));
  is_in_unit_ = true;
  like_.unit = unit;
}

void ParameterList::end_unit() {
  is_in_unit_ = false;
  like_.unit = outer_unit_;
}

InitialValues ParameterList::Family::initial(std::uint64_t seed) const {
  return [seed, rules = rules](const InitialPart& part) {
    const KeyedRandom random(seed, part.parameter.path);
    const InitialRule& rule = rules[static_cast<std::size_t>(part.number)];
    part.fill([&](std::int64_t k) { return rule(random, k); });
  };
}

}  // namespace sinew::parallel

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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
  family.parameters.push_back(std::move(parameter));
  family.rules.push_back(std::move(initial));
  return static_cast<std::int32_t>(family.parameters.size()) - 1;
}

InitialValues ParameterList::Family::initial(std::uint64_t seed) const {
  return [seed, rules = rules](const InitialPart& part) {
    const KeyedRandom random(seed, part.parameter.path);
    const InitialRule& rule = rules[static_cast<std::size_t>(part.number)];
    part.fill([&](std::int64_t k) { return rule(random, k); });
  };
}

}  // namespace sinew::parallel

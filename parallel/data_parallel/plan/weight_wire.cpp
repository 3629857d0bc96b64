#include <fmt/format.h>

#include <sinew/parallel/data_parallel/plan/weight_wire.hpp>

namespace sinew::parallel {

std::string_view name_of(WeightWire wire) noexcept { return wire == WeightWire::Plain ? "plain" : "int8"; }

std::vector<std::string> violations_of(WeightWire wire, Determinism determinism, const DataRow& row) {
  std::vector<std::string> wrong;
  if (wire == WeightWire::Plain) return wrong;
  if (sharded_axis(row).parameter == Held::Whole)
    wrong.push_back(fmt::format("weights {}: row '{}' keeps whole parameters; expected one that shards them",
                                name_of(wire), row.name));
  if (determinism == Determinism::LayoutInvariant)
    wrong.push_back(
        fmt::format("weights {} and layout_invariant: blocks begin where shards do, so their scales depend "
                    "on the layout; expected plain weights, or fast or reproducible",
                    name_of(wire)));
  return wrong;
}

}  // namespace sinew::parallel

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>

namespace sinew::parallel {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"ddp", "zero1", "zero2", "zero3", "hsdp"};

constexpr Held sharded_if(bool yes) { return yes ? Held::Sharded : Held::Whole; }

/// The axis of a row for a stage of ZeRO. Stage 0 is ddp.
DataAxis zero(std::string axis, int stage) {
  return {std::move(axis), sharded_if(stage >= 3), sharded_if(stage >= 2), sharded_if(stage >= 1)};
}

}  // namespace

std::span<const std::string_view> data_row_names() noexcept { return kNames; }

DataRow data_row(std::string_view name, const std::vector<std::string>& axes) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw Error(Code::InvalidArgument, fmt::format("data row '{}': expected one of {}", name, fmt::join(kNames, ", ")));
  }
  const bool both = name == "hsdp";
  const std::size_t expected = both ? 2 : 1;
  if (axes.size() != expected) {
    throw Error(Code::InvalidArgument, fmt::format("data row '{}' over {} axes ({}): expected {}", name, axes.size(),
                                                   fmt::join(axes, ", "), both ? "two, the sharded one first" : "one"));
  }
  if (both) return {"hsdp", {zero(axes[0], 3), zero(axes[1], 0)}};
  return {std::string(name), {zero(axes[0], static_cast<int>(found - kNames.begin()))}};
}

DataAxis sharded_axis(const DataRow& row) {
  const auto found = std::ranges::find(row.axes, Held::Sharded, &DataAxis::optimizer);
  return found == row.axes.end() ? DataAxis{} : *found;
}

std::vector<std::string> violations_of(const DataRow& row) {
  std::vector<std::string> wrong;
  if (row.axes.empty()) wrong.push_back(fmt::format("row '{}' has no axis", row.name));
  std::vector<std::string> seen, sharding;
  for (const DataAxis& a : row.axes) {
    if (std::ranges::count(seen, a.axis) > 0) wrong.push_back(fmt::format("axis '{}' is named twice", a.axis));
    seen.push_back(a.axis);
    if (a.parameter == Held::Sharded && a.gradient == Held::Whole)
      wrong.push_back(fmt::format("along '{}' parameters are sharded and gradients are not: shard both", a.axis));
    if (a.gradient == Held::Sharded && a.optimizer == Held::Whole)
      wrong.push_back(fmt::format("along '{}' gradients are sharded and the optimizer is not: shard both", a.axis));
    if (a.optimizer == Held::Sharded) sharding.push_back(a.axis);
  }
  if (sharding.size() > 1)
    wrong.push_back(fmt::format("{} shard; expected one, flatten them to one axis", fmt::join(sharding, " and ")));
  return wrong;
}

}  // namespace sinew::parallel

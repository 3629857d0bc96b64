#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>

namespace sinew::parallel::test {

template <class T>
ConstBuffer bytes_of(const std::vector<T>& v) {
  return {reinterpret_cast<const std::byte*>(v.data()), v.size() * sizeof(T)};
}

/// A strategy over all ranks of the world, of one parameter per unit.
struct Small {
  Small(World& world, const std::string& row, std::vector<DataParameter> list, const DataParallelOptions& options = {},
        float first_value = 1)
      : mesh(world.communicator(), Factorisation({{"dp", world.size()}})),
        parameters(complete_parameters(std::move(list))) {
    for (const DataParameter& p : parameters) memory.emplace_back(static_cast<std::size_t>(p.elements), first_value);
    for (const auto& v : memory) values.push_back(bytes_of(v));
    data.emplace(
        mesh, parameters, values, data_row(row, {"dp"}), [&world](std::size_t bytes) { return world.allocate(bytes); },
        options);
  }

  Mesh mesh;
  std::vector<DataParameter> parameters;
  std::vector<std::vector<float>> memory;
  std::vector<ConstBuffer> values;
  std::optional<DataParallel> data;
};

/// Of two units, "a" and "b".
inline std::vector<DataParameter> two_parameters() {
  return {{.path = "a.weight", .elements = 5, .unit = "a"}, {.path = "b.weight", .elements = 6, .unit = "b"}};
}

/// Passes over all units, of one parameter each, up to finish_backward. Each gradient begins with `gradient` more.
inline void whole_step(DataParallel& data, float gradient) {
  const auto units = static_cast<std::int32_t>(data.parameters().size());
  for (std::int32_t u = 0; u < units; ++u) data.before_forward(u), data.after_forward(u);
  for (std::int32_t u = units; u-- > 0;) {
    data.before_backward(u);
    reinterpret_cast<float*>(data.gradient(u).data)[0] += gradient;
    data.gradient_ready(u);
    data.after_backward(u);
  }
}

}  // namespace sinew::parallel::test

#include <cstdint>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/layer_parameters.hpp>

namespace sinew::parallel {
namespace {

Rows cut_of_rank(const Shard& cut, const std::string& name, const std::string& axis, int rank, int ranks,
                 std::int64_t extent) {
  if (rank < 0 || rank >= ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("parameters of '{}': rank {} along {}, expected 0 to {}", name, rank, axis, ranks - 1));
  return rows_of(checked_cut(cut, ranks, extent, name, axis), rank, ranks, extent);
}

}  // namespace

LinearParameters column_parameters(const LinearShape& shape, const std::string& axis, int rank, int ranks,
                                   const DataParameter& like) {
  const Rows mine = cut_of_rank(shape.cut, shape.name, axis, rank, ranks, shape.outputs);
  return {cut_along(whole_parameter(like, shape.name + ".weight", {shape.outputs, shape.inputs}), 0, mine, axis, ranks),
          cut_along(whole_parameter(like, shape.name + ".bias", {shape.outputs}), 0, mine, axis, ranks)};
}

LinearParameters row_parameters(const LinearShape& shape, const std::string& axis, int rank, int ranks,
                                const DataParameter& like) {
  const Rows mine = cut_of_rank(shape.cut, shape.name, axis, rank, ranks, shape.inputs);
  return {cut_along(whole_parameter(like, shape.name + ".weight", {shape.outputs, shape.inputs}), 1, mine, axis, ranks),
          whole_parameter(like, shape.name + ".bias", {shape.outputs})};
}

DataParameter embedding_parameter(const EmbeddingShape& shape, const std::string& axis, int rank, int ranks,
                                  const DataParameter& like) {
  const Rows mine = cut_of_rank(shape.cut, shape.name, axis, rank, ranks, shape.vocabulary);
  return cut_along(whole_parameter(like, shape.name + ".weight", {shape.vocabulary, shape.width}), 0, mine, axis,
                   ranks);
}

}  // namespace sinew::parallel

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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

/// A parameter of which this rank has `mine` along dimension `dim`, and everything along the others.
DataParameter cut_parameter(DataParameter like, std::string path, std::vector<std::int64_t> shape, std::size_t dim,
                            const Rows& mine, const std::string& axis, int ranks) {
  like.path = std::move(path);
  like.box = {std::vector<std::int64_t>(shape.size(), 0), shape};
  like.box.first[dim] = mine.first;
  like.box.last[dim] = mine.last;
  like.shape = std::move(shape);
  like.elements = 0;
  if (ranks > 1) like.spread += like.spread.empty() ? axis : "-" + axis;
  return like;
}

DataParameter whole_parameter(DataParameter like, std::string path, std::vector<std::int64_t> shape) {
  like.path = std::move(path);
  like.box = {};
  like.shape = std::move(shape);
  like.elements = 0;
  return like;
}

}  // namespace

LinearParameters column_parameters(const LinearShape& shape, const std::string& axis, int rank, int ranks,
                                   const DataParameter& like) {
  const Rows mine = cut_of_rank(shape.cut, shape.name, axis, rank, ranks, shape.outputs);
  return {cut_parameter(like, shape.name + ".weight", {shape.outputs, shape.inputs}, 0, mine, axis, ranks),
          cut_parameter(like, shape.name + ".bias", {shape.outputs}, 0, mine, axis, ranks)};
}

LinearParameters row_parameters(const LinearShape& shape, const std::string& axis, int rank, int ranks,
                                const DataParameter& like) {
  const Rows mine = cut_of_rank(shape.cut, shape.name, axis, rank, ranks, shape.inputs);
  return {cut_parameter(like, shape.name + ".weight", {shape.outputs, shape.inputs}, 1, mine, axis, ranks),
          whole_parameter(like, shape.name + ".bias", {shape.outputs})};
}

DataParameter embedding_parameter(const EmbeddingShape& shape, const std::string& axis, int rank, int ranks,
                                  const DataParameter& like) {
  const Rows mine = cut_of_rank(shape.cut, shape.name, axis, rank, ranks, shape.vocabulary);
  return cut_parameter(like, shape.name + ".weight", {shape.vocabulary, shape.width}, 0, mine, axis, ranks);
}

}  // namespace sinew::parallel

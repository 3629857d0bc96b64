#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>

namespace sinew::parallel {

/// The parameters of a linear layer as one of the ranks that share it has them.
struct LinearParameters {
  DataParameter weight{};  ///< "NAME.weight" [outputs, inputs]
  DataParameter bias{};    ///< "NAME.bias" [outputs]
};

/// The parameters of three layers. Weight and bias of a ColumnLinear are cut. A RowLinear has its weight cut and its
/// bias whole. A VocabularyEmbedding has one parameter, "NAME.weight" [vocabulary, width].
/// like: dtype, gradient, unit and uses of the parameters. Its `spread` names the axes along which other ranks have
///       other layers, such as "pp". The layer's axis is added to it if the parameter is cut over several
///       ranks.
/// rank: this rank among the `ranks` that share the layer.
/// Errors: InvalidArgument as checked_cut; for a rank that is not one of `ranks`.
SINEW_API LinearParameters column_parameters(const LinearShape& shape, const std::string& axis, int rank, int ranks,
                                             const DataParameter& like = {});
SINEW_API LinearParameters row_parameters(const LinearShape& shape, const std::string& axis, int rank, int ranks,
                                          const DataParameter& like = {});
SINEW_API DataParameter embedding_parameter(const EmbeddingShape& shape, const std::string& axis, int rank, int ranks,
                                            const DataParameter& like = {});

}  // namespace sinew::parallel

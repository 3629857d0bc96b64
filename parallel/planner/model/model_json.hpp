#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// Reads a model from the text of a JSON object whose members are those of ModelShape. layers, hidden, heads,
/// feed_forward, vocabulary and context are required. feed_forward is not required if all layers have experts, or with
/// mamba. heads is not required if no layer has attention.
/// Errors: InvalidArgument that begins with `file` and names the member. It is thrown for a member that is absent,
///         unknown, or of a wrong type or range, with what was found. It is also thrown with the faults of faults_of().
SINEW_API ModelShape model_from_json(std::string_view text, std::string_view file);

/// A model by its name (named_models.hpp), or from the JSON file of that name.
/// Errors: as named_model and model_from_json. Error{System} for a file that cannot be read.
SINEW_API ModelShape find_model(const std::string& name_or_file);

}  // namespace sinew::parallel

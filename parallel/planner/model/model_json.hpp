#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// A model of a JSON object's text: the members of ModelShape by their names; layers, hidden, heads, feed_forward,
/// vocabulary and context must be there, feed_forward not where all layers have experts.
/// Errors: InvalidArgument that begins with `file` and names the member: one that is absent, unknown, or of a wrong
///         type or range, with what was found; all of faults_of.
SINEW_API ModelShape model_from_json(std::string_view text, std::string_view file);

/// The one or the other: what names a file is read.
/// Errors: as both; Error{System} for a file that cannot be read.
SINEW_API ModelShape find_model(const std::string& name_or_file);

}  // namespace sinew::parallel

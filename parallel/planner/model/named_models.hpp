#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// "gpt2", "gpt3-175b", "llama3-70b", "mixtral-8x7b", "deepseek-v3", ...
SINEW_API std::vector<std::string> model_names();

/// A model by its name, as its paper or its published configuration describes it.
/// Errors: InvalidArgument that lists the names.
SINEW_API ModelShape named_model(std::string_view name);

}  // namespace sinew::parallel

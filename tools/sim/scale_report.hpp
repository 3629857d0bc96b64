#pragma once

#include <string>

#include "scale.hpp"

namespace sinew::tools {

/// The times of all candidates by ranks, the fastest of each size, and what was not simulated.
std::string as_table(const Scale& scale);
/// The same as one JSON object on one line.
std::string as_json(const Scale& scale);
/// The same as SVG.
/// Errors: Error{Unavailable} if nothing was simulated.
std::string as_plot(const Scale& scale);

}  // namespace sinew::tools

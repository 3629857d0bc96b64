#pragma once

#include <string>

#include "scale.hpp"

namespace sinew::tools {

/// Times of all ways by ranks, who is the fastest where, and what was not simulated.
std::string as_table(const Scale& scale);
/// The same as one JSON object in one line.
std::string as_json(const Scale& scale);
/// The same as SVG. Errors: Error{Unavailable} if nothing was simulated.
std::string as_plot(const Scale& scale);

}  // namespace sinew::tools

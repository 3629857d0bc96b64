#pragma once

#include <string_view>

namespace sinew::json_fields {

/// The line, from 1, on which the value at a path such as "nics[2].bytes_per_s" begins; of what is not there, its
/// nearest holder that is. `text` is JSON.
int line_of(std::string_view text, std::string_view path);

}  // namespace sinew::json_fields

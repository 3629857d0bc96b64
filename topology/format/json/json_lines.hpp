#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sinew::json_fields {

/// The line, from 1, on which the value at a path such as "nics[2].bytes_per_s" begins; of what is not there, its
/// nearest holder that is. `text` is JSON.
int line_of(std::string_view text, std::string_view path);

/// Calls `place` for each member and each element of `text`, which is JSON, in the order of the text. `again`: a member
/// of this name has been in the same object before.
void each_place(std::string_view text, const std::function<void(const std::string& path, int line, bool again)>& place);

}  // namespace sinew::json_fields

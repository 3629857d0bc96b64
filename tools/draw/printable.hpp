#pragma once

#include <string>
#include <string_view>

namespace sinew::draw {

/// The text as XML and DOT may hold it: control characters and bytes that are not UTF-8 (in the names that devices give
/// themselves) become U+FFFD; a line's end becomes a space.
std::string printable(std::string_view text);

}  // namespace sinew::draw

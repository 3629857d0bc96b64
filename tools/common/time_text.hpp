#pragma once

#include <string>

namespace sinew::tools {

/// "0", "850 ns", "12.5 us", "3 ms", "1.2 s": at most four digits, in a unit that suits.
std::string time_text(double seconds);

}  // namespace sinew::tools

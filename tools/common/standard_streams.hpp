#pragma once

#include <string_view>

namespace sinew::tools {

/// Puts /dev/null, for reading only, where descriptor 0, 1 or 2 is closed: otherwise the next socket would get that
/// number and what is printed would go into it. Reading finds the end; writing fails, so that lost output is noticed.
void open_missing_streams();

/// Flushes standard output; false, after one line on stderr, if some of what was printed is lost. A pipe that nobody
/// reads any more counts as written, in silence.
bool output_arrived(std::string_view program);

}  // namespace sinew::tools

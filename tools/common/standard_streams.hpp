#pragma once

#include <string_view>

namespace sinew::tools {

/// Opens /dev/null, for reading only, where descriptor 0, 1 or 2 is closed. Otherwise the next socket would get that
/// number, and printed text would go into the socket. Reading finds the end of the file. Writing fails, so that lost
/// output is noticed.
void open_missing_streams();

/// Flushes standard output. Returns false, after one line on stderr, if some of the output is lost. Output to a pipe
/// whose reader has gone counts as written.
bool output_arrived(std::string_view program);

}  // namespace sinew::tools

#pragma once

#include <string>

namespace sinew::python {

/// Lines of files below this folder belong to the package sinew. Errors show the lines of its users.
void set_library_folder(std::string folder);
bool is_library(const std::string& file);

}  // namespace sinew::python

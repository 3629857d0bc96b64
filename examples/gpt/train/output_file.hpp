#pragma once

#include <string>

namespace gpt {

/// Replaces what the file held.
/// Errors: Error{System} naming it, with the system's reason.
void write_file(const std::string& name, const std::string& content);

}  // namespace gpt

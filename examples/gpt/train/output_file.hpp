#pragma once

#include <string>

namespace gpt {

/// What it holds stays; where there is none an empty one is made.
/// Errors: Error{System} naming it, with the system's reason.
void require_writable(const std::string& name);

/// Replaces what the file held.
/// Errors: Error{System} naming it, with the system's reason.
void write_file(const std::string& name, const std::string& content);

}  // namespace gpt

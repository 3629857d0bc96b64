#pragma once

#include <string>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::parallel {

/// A new file without a name, for reading and writing. It is gone when nothing holds it open.
/// Errors: System with the folder and the system's text if no file can be made there.
FileDescriptor scratch_file(const std::string& folder);

}  // namespace sinew::parallel

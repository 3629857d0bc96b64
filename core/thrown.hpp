#pragma once

#include <sinew/core/error.hpp>
#include <sinew/core/export.hpp>

namespace sinew {

/// What an operation ends with that the exception of this handler stopped: as status_of for a std::exception; of a
/// string its text, of anything else the name of its type, with code System.
SINEW_API Status status_of_current_exception();

}  // namespace sinew

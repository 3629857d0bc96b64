#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// Converts the exception that is being handled to a Status. status_of() converts a std::exception. Anything else gives
/// code System, with the text of a thrown string or the type name of another thrown value.
SINEW_API Status status_of_current_exception();

}  // namespace sinew

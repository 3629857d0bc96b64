#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// Returns a machine by its name (machine_names()), or reads it from a file. The file has hwloc's XML, the topology XML
/// of NCCL or RCCL, or the JSON of to_json(). Parts of the file that Machine cannot hold are in Machine::ignored. One
/// warning in the log names the parts that the reader does not know.
/// Errors: Error{InvalidArgument} that lists the names if there is no such name or file. If the file is broken, the
///         error tells the file, the line (except for hwloc's XML) and the reason.
SINEW_API Machine described_machine(const std::string& name_or_file);

/// Reads a machine from the text of a file. The beginning of the text tells its format.
SINEW_API Machine machine_from_text(const std::string& text, const std::string& file);

}  // namespace sinew

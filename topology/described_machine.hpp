#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// A machine that is elsewhere: one of machine_names(), or a file of hwloc XML, NCCL's or RCCL's topology XML or
/// to_json()'s JSON. What is in the file and not in the Machine is in Machine::ignored; one warning in the log names
/// those parts of it that are not understood. Errors: Error{InvalidArgument} that lists the names if it is neither, or
/// names file, line and reason if the file is broken (hwloc's XML: file and reason).
SINEW_API Machine described_machine(const std::string& name_or_file);

/// A file's text; what it is shows in what it begins with.
SINEW_API Machine machine_from_text(const std::string& text, const std::string& file);

}  // namespace sinew

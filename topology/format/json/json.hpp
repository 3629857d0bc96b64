#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The machine as JSON, every field by its name in machine.hpp; a Figure is {"value": number or null, "source": text}.
/// `indent`: spaces per level, -1 for one line.
SINEW_API std::string to_json(const Machine& machine, int indent = 2);

/// Reads what to_json wrote, for another rank. Members it does not know are skipped; indices and names that lead
/// nowhere are not accepted. Errors: Error{InvalidArgument} that names the place: "nics[2].bytes_per_s.value: expected
/// a number or null, found true".
SINEW_API Machine machine_from_json(std::string_view text);
/// The same of a file's text. Members it does not know are added to Machine::ignored. Errors begin with the file and,
/// where there is one, the line: "dgx.json:17: nics[2]...".
SINEW_API Machine machine_from_json(std::string_view text, std::string_view file);

}  // namespace sinew

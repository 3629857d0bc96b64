#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/format/hwloc/hwloc_xml.hpp>
#include <sinew/topology/format/ignored.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/json/json_lines.hpp>
#include <sinew/topology/format/nccl/nccl_xml.hpp>
#include <sinew/topology/model/field_error.hpp>
#include <sinew/topology/model/plausible.hpp>

namespace sinew {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::size_t kLargestFile = std::size_t{64} << 20;

/// "topology" of "<?xml ...?> <!-- ... --> <topology version=...": the name of the first element.
std::string_view root_element(std::string_view text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    if (rest.starts_with("!--")) {
      at = text.find("-->", at);
      if (at == std::string_view::npos) return {};
    } else if (!rest.starts_with('?') && !rest.starts_with('!')) {
      return rest.substr(0, rest.find_first_of(" \t\r\n/>"));
    }
  }
  return {};
}

/// `json`: the text that it was read from, which has lines; empty: XML, where it stands as another part.
Machine plausible(Machine machine, const std::string& file, std::string_view json = {}) {
  try {
    reject_implausible(machine);
  } catch (const FieldError& error) {
    const std::string line = json.empty() ? "" : fmt::format(":{}", json_fields::line_of(json, error.path()));
    throw Error(error.code(), fmt::format("{}{}: {}", file, line, error.what()));
  }
  return machine;
}

}  // namespace

Machine machine_from_text(const std::string& text, const std::string& file) {
  constexpr std::string_view kExpected =
      "expected sinew's JSON (sinew-info topology --json), NCCL or RCCL topology XML (NCCL_TOPO_DUMP_FILE) or hwloc "
      "XML (lstopo FILE.xml)";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) throw Error(Code::InvalidArgument, fmt::format("{}: empty; {}", file, kExpected));
  const auto checked = [&](Machine machine, std::string_view json = {}) {
    machine = plausible(std::move(machine), file, json);
    warn_of_unknown(machine.ignored, file);
    return machine;
  };
  if (text[first] == '{') return checked(machine_from_json(text, file), text);
  const std::string_view root = text[first] == '<' ? root_element(text) : std::string_view();
  if (root == "system" || root == "graphs") return checked(machine_from_nccl_xml(text, file));
  if (root == "topology") return checked(machine_from_hwloc_xml(text, file));
  throw Error(Code::InvalidArgument, root.empty() ? fmt::format("{}: neither JSON nor XML; {}", file, kExpected)
                                                  : fmt::format("{}: XML of a <{}>; {}", file, root, kExpected));
}

Machine described_machine(const std::string& name_or_file) {
  const std::vector<std::string_view> names = machine_names();
  if (std::ranges::find(names, name_or_file) != names.end()) return named_machine(name_or_file);
  const auto text = file_text(name_or_file, kLargestFile + 1);
  if (!text) {
    throw Error(Code::InvalidArgument, fmt::format("'{}': expected a file that can be read, or one of the machines {}",
                                                   name_or_file, fmt::join(names, ", ")));
  }
  if (text->size() > kLargestFile) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: expected a description of one machine, {} MiB at most; it is longer", name_or_file,
                            kLargestFile >> 20));
  }
  return machine_from_text(*text, name_or_file);
}

}  // namespace sinew

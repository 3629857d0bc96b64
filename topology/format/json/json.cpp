#include <set>

#include <sinew/topology/format/ignored.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/json/json_lines.hpp>
#include <sinew/topology/format/json/json_text.hpp>
#include <sinew/topology/format/json/topology_fields.hpp>
#include <sinew/topology/model/consistency.hpp>
#include <sinew/topology/model/field_error.hpp>

namespace sinew {
namespace json_fields {
namespace {

constexpr std::string_view kMachineFormat = "sinew machine 3";

template <class T>
std::string write(std::string_view format, const T& value, int indent) {
  Json out = {{"format", std::string(format)}};
  fields(Writer{out}, value);
  return json_text(out, indent);
}

/// `unknown`: as in Reader.
template <class T>
T read(std::string_view format, std::string_view text, std::vector<std::string>* unknown = nullptr) {
  const Json in = parse(text);
  Reader reader{in, "", unknown};
  std::string found;
  reader("format", found);
  if (found != format) reject("format", fmt::format("\"{}\"", format), in["format"]);
  T value;
  fields(reader, value);
  reader.list_unknown();
  return value;
}

/// "nics[2].frob" -> "nics[].frob"
std::string without_indices(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

bool is_within(std::string_view path, std::string_view holder) {
  return !holder.empty() && path.size() > holder.size() && path.starts_with(holder) &&
         (path[holder.size()] == '.' || path[holder.size()] == '[');
}

/// The members at these paths, and those that are given twice.
std::vector<Ignored> ignored_of(std::string_view text, std::string_view file, const std::vector<std::string>& unknown) {
  const std::set<std::string_view> paths(unknown.begin(), unknown.end());
  IgnoredList ignored{std::string(file)};
  std::string holder;  // the last unknown member: what is inside is not listed again
  each_place(text, [&](const std::string& path, int line, bool again) {
    if (is_within(path, holder)) return;
    const std::string what = fmt::format("member {}", without_indices(path));
    if (again) ignored.add(line, what, "given twice: the last counts", false);
    if (!paths.contains(path)) return;
    holder = path;
    if (!again) ignored.add(line, what, "not understood", false);
  });
  return ignored.take();
}

}  // namespace
}  // namespace json_fields

std::string to_json(const Machine& machine, int indent) {
  return json_fields::write(json_fields::kMachineFormat, machine, indent);
}

Machine machine_from_json(std::string_view text) {
  auto machine = json_fields::read<Machine>(json_fields::kMachineFormat, text);
  reject_inconsistent(machine);
  return machine;
}

Machine machine_from_json(std::string_view text, std::string_view file) {
  try {
    std::vector<std::string> unknown;
    auto machine = json_fields::read<Machine>(json_fields::kMachineFormat, text, &unknown);
    reject_inconsistent(machine);
    for (Ignored& one : json_fields::ignored_of(text, file, unknown)) machine.ignored.push_back(std::move(one));
    return machine;
  } catch (const FieldError& error) {
    throw Error(error.code(), fmt::format("{}:{}: {}", file, json_fields::line_of(text, error.path()), error.what()));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace sinew

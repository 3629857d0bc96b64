#include <sinew/topology/consistency.hpp>
#include <sinew/topology/field_error.hpp>
#include <sinew/topology/json.hpp>
#include <sinew/topology/json_lines.hpp>
#include <sinew/topology/json_text.hpp>
#include <sinew/topology/topology_fields.hpp>

namespace sinew {
namespace json_fields {
namespace {

constexpr std::string_view kMachineFormat = "sinew machine 3";
constexpr std::string_view kClusterFormat = "sinew cluster 4";

template <class T>
std::string write(std::string_view format, const T& value, int indent) {
  Json out = {{"format", std::string(format)}};
  fields(Writer{out}, value);
  return json_text(out, indent);
}

template <class T>
T read(std::string_view format, std::string_view text) {
  const Json in = parse(text);
  const Reader reader{in, ""};
  std::string found;
  reader("format", found);
  if (found != format) reject("format", fmt::format("\"{}\"", format), in["format"]);
  T value;
  fields(reader, value);
  return value;
}

}  // namespace
}  // namespace json_fields

std::string to_json(const Machine& machine, int indent) {
  return json_fields::write(json_fields::kMachineFormat, machine, indent);
}

std::string to_json(const Cluster& cluster, int indent) {
  return json_fields::write(json_fields::kClusterFormat, cluster, indent);
}

Machine machine_from_json(std::string_view text) {
  auto machine = json_fields::read<Machine>(json_fields::kMachineFormat, text);
  reject_inconsistent(machine);
  return machine;
}

Machine machine_from_json(std::string_view text, std::string_view file) {
  try {
    return machine_from_json(text);
  } catch (const FieldError& error) {
    throw Error(error.code(), fmt::format("{}:{}: {}", file, json_fields::line_of(text, error.path()), error.what()));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

Cluster cluster_from_json(std::string_view text) {
  auto cluster = json_fields::read<Cluster>(json_fields::kClusterFormat, text);
  for (const Machine& host : cluster.hosts) reject_inconsistent(host);
  for (std::size_t r = 0; r < cluster.ranks.size(); ++r) {
    const int host = cluster.ranks[r].host;
    if (host < 0 || static_cast<std::size_t>(host) >= cluster.hosts.size()) {
      throw FieldError(
          fmt::format("ranks[{}].host", r),
          fmt::format("expected an index of \"hosts\", which has {}, found {}", cluster.hosts.size(), host));
    }
  }
  return cluster;
}

}  // namespace sinew

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <sinew/topology/virtual_cluster.hpp>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sinew::tools {

/// Adds the options that say how the hosts of a virtual cluster are joined: --network, --hosts-per-leaf and
/// --oversubscription. They fill `shape` and need the option `cluster`.
void add_network_options(CLI::App& app, CLI::Option* cluster, NetworkShape& shape);

/// "fat_tree of 32 hosts per leaf, oversubscription 2"
std::string form_text(const Network& network);
/// Adds the same facts to a JSON object.
void describe_form(const Network& network, nlohmann::ordered_json& out);

}  // namespace sinew::tools

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <sinew/topology/virtual_cluster.hpp>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sinew::tools {

/// How the hosts of a virtual cluster are joined: --network, --hosts-per-leaf and --oversubscription, which fill
/// `shape` and want `cluster` beside them.
void add_network_options(CLI::App& app, CLI::Option* cluster, NetworkShape& shape);

/// "fat_tree of 32 hosts per leaf, oversubscription 2"
std::string form_text(const Network& network);
/// The same as members of a JSON object.
void describe_form(const Network& network, nlohmann::ordered_json& out);

}  // namespace sinew::tools

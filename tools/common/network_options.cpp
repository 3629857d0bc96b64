#include "network_options.hpp"

#include <array>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "whole_number.hpp"

namespace sinew::tools {
namespace {

constexpr std::array kForms = {NetworkForm::OneSwitch, NetworkForm::FatTree, NetworkForm::RailOptimised};

std::vector<std::string> form_names() {
  std::vector<std::string> names;
  for (const NetworkForm form : kForms) names.emplace_back(name_of(form));
  return names;
}

NetworkForm form_of(std::string_view name) {
  for (const NetworkForm form : kForms) {
    if (name_of(form) == name) return form;
  }
  return NetworkForm::OneSwitch;
}

}  // namespace

void add_network_options(CLI::App& app, CLI::Option* cluster, NetworkShape& shape) {
  app.add_option_function<std::string>(
         "--network", [&shape](const std::string& name) { shape.form = form_of(name); },
         "how its hosts are joined: one_switch (default), fat_tree or rail_optimised")
      ->check(CLI::IsMember(form_names()))
      ->type_name("FORM")
      ->needs(cluster);
  app.add_option("--hosts-per-leaf", shape.hosts_per_leaf, "of a fat tree; 32 if not given")
      ->transform(whole_number(1, 1 << 20))
      ->type_name("N")
      ->needs(cluster);
  app.add_option("--oversubscription", shape.oversubscription,
                 "of the leaves of a fat tree or of rails: rate of what is below them to that above; 1 if not given")
      ->type_name("FACTOR")
      ->needs(cluster);
}

std::string form_text(const Network& n) {
  std::string text(name_of(n.form));
  if (n.form == NetworkForm::FatTree) text += fmt::format(" of {} hosts per leaf", n.hosts_per_leaf);
  if (n.form != NetworkForm::OneSwitch) text += fmt::format(", oversubscription {}", n.oversubscription);
  return text;
}

void describe_form(const Network& n, nlohmann::ordered_json& out) {
  out["network"] = name_of(n.form);
  if (n.form == NetworkForm::FatTree) out["hosts_per_leaf"] = n.hosts_per_leaf;
  if (n.form != NetworkForm::OneSwitch) out["oversubscription"] = n.oversubscription;
}

}  // namespace sinew::tools

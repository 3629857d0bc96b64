#include "named_interfaces.hpp"

#include <algorithm>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "interfaces.hpp"

namespace sinew::doctor {
namespace {

bool works(std::span<const Nic> nics, const std::string& name) {
  const auto nic = std::ranges::find(nics, name, &Nic::name);
  return nic != nics.end() && nic->up && !addresses_of(nics, name).empty();
}

bool is_rdma_device(std::span<const Nic> nics, const std::string& name) {
  return std::ranges::any_of(nics, [&](const Nic& nic) { return nic.rdma.device == name; });
}

std::string cure_for(std::span<const Nic> nics, std::span<const std::string> broken) {
  std::set<std::string> usable;
  for (const Nic& nic : nics) {
    if (works(nics, nic.name)) usable.insert(nic.name);
  }
  std::string cure = fmt::format("SINEW_INTERFACE names interfaces that are up: here {}", fmt::join(usable, ", "));
  for (const std::string& name : broken) {
    if (std::ranges::find(nics, name, &Nic::name) != nics.end()) cure += fmt::format("; or ip link set {} up", name);
  }
  return cure;
}

}  // namespace

NamedInterfaces look_at_named(std::span<const Nic> nics, const std::string& names) {
  std::vector<std::string> broken;
  bool any_works = names.empty();
  for (const auto word : std::views::split(std::string_view(names), ',')) {
    const std::string name(word.begin(), word.end());
    if (name.empty()) continue;
    if (works(nics, name)) {
      any_works = true;
    } else {
      broken.push_back(name);
    }
  }
  if (any_works) std::erase_if(broken, [&](const std::string& name) { return is_rdma_device(nics, name); });
  if (any_works && broken.empty()) return {};
  const std::string problem = any_works
                                  ? fmt::format("left out, as not up here with an address: {}", fmt::join(broken, ", "))
                                  : "no interface of that name is up here with an address; tcp is left out";
  return {
      any_works,
      {{Severity::Warns, "interface", fmt::format("SINEW_INTERFACE={}: {}", names, problem), cure_for(nics, broken)}}};
}

}  // namespace sinew::doctor

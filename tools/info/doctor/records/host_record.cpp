#include "host_record.hpp"

#include <algorithm>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/info/doctor/finding/lists.hpp>
#include <sinew/tools/info/doctor/interfaces/named_interfaces.hpp>
#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew::doctor {

HostRecord record_of_this_host(const Config& config) {
  HostRecord record;
  std::vector<Unseen> unseen;
  std::vector<Nic> nics = read_network_interfaces(unseen);
  add_sysfs("/sys", nics);
  NamedInterfaces named = look_at_named(nics, config.interface);
  record.addresses = addresses_of(nics, named.any_works ? config.interface : "");  // as ranks' connections for control
  record.findings = std::move(named.findings);
  try {
    for (const std::string& name : module_names(config)) {
      const std::vector<std::string>& wanted = config.transports;
      if (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end()) {
        record.modules.push_back({name, false, "left out by SINEW_TRANSPORTS"});
        continue;
      }
      Module* module = find_module(name, config);
      const Availability available = module == nullptr ? Availability{false, "not found"} : module->available();
      record.modules.push_back({name, available.ok, available.reason});
    }
  } catch (const Error& e) {
    record.findings.push_back(
        {Severity::Fails, "transports", e.what(), "SINEW_TRANSPORT_PATH names folders of every host"});
  }
  return record;
}

Bytes to_bytes(const HostRecord& record) {
  WireWriter to;
  write_list(to, record.addresses, [&](const HostAddress& a) { write(to, a); });
  write_list(to, record.modules, [&](const ModuleRecord& m) { to.text(m.name).value(m.ok).text(m.reason); });
  to.value(record.port).value(record.claim);
  write_list(to, record.findings, [&](const Finding& f) { write(to, f); });
  return to.take();
}

HostRecord host_record_from(const Bytes& bytes) {
  WireReader from(bytes);
  HostRecord record;
  record.addresses = read_list(from, [&] { return read_address(from); });
  record.modules = read_list(from, [&] {
    ModuleRecord m;
    m.name = from.text();
    m.ok = from.value<bool>();
    m.reason = from.text();
    return m;
  });
  record.port = from.value<std::uint16_t>();
  record.claim = from.value<AuthClaim>();
  record.findings = read_list(from, [&] { return read_finding(from); });
  return record;
}

}  // namespace sinew::doctor

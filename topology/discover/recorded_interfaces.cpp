#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <string>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

/// "0x1003": the file has IFF_UP and its like, but not IFF_RUNNING.
unsigned flags_of(const fs::path& folder) {
  const std::string text = read_line(folder / "flags").value_or("0x0");
  return parse_number<unsigned>(std::string_view(text).substr(std::min<std::size_t>(text.size(), 2)), 16).value_or(0);
}

Nic interface_at(const fs::path& folder) {
  Nic nic{.name = folder.filename().string()};
  const unsigned flags = flags_of(folder);
  nic.loopback = (flags & IFF_LOOPBACK) != 0;
  nic.up = (flags & IFF_UP) != 0;
  nic.running = nic.up && int_or(read_line(folder / "carrier"), 0) == 1;
  nic.kind = nic_kind_of(static_cast<unsigned>(int_or(read_line(folder / "type"), ARPHRD_ETHER)));
  nic.hardware_address = read_line(folder / "address").value_or("");
  nic.driver = link_name(folder / "device" / "driver");
  return nic;
}

}  // namespace

std::vector<Nic> read_recorded_interfaces(const fs::path& sys, std::vector<Unseen>& unseen) {
  std::vector<Nic> nics;
  const fs::path all = sys / "class" / "net";
  for (const std::string& name : entries(all)) {
    std::error_code error;
    if (fs::is_directory(all / name, error)) nics.push_back(interface_at(all / name));  // bonding_masters is a file
  }
  if (!nics.empty()) unseen.push_back({"addresses of network interfaces", "/sys does not hold them"});
  return nics;
}

}  // namespace sinew

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <map>
#include <optional>
#include <regex>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sinew/core/host/cpu_list.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/topology/discover.hpp>
#include <support/run_program.hpp>

namespace sinew {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;

/// What discover() shares with the tools that people know: equal in every number.
class Agreement : public testing::Test {
 protected:
  static const Machine& here() {
    static const Machine machine = discover(Config{});
    return machine;
  }

  /// Output of a tool; the test is skipped where it is not installed.
  std::string output_of(const std::vector<std::string>& command) {
    const Outcome outcome = run_program(command);
    if (outcome.exit_code != 0) missing_ = command.front() + " does not run here: " + outcome.err;
    return outcome.out;
  }

  std::string missing_;
};

#define SKIP_IF_MISSING() \
  if (!missing_.empty()) GTEST_SKIP() << missing_

TEST_F(Agreement, WithLscpu_OnCpusCoresSocketsAndNodes) {
  const std::string text = output_of({"lscpu", "-J", "-e=CPU,CORE,SOCKET,NODE"});
  SKIP_IF_MISSING();
  std::map<int, std::set<int>> cores;  // lscpu's number of a core -> its CPUs
  std::size_t cpus = 0;
  const json rows = json::parse(text).at("cpus");
  for (const json& row : rows) {
    const int cpu = row.at("cpu");
    cores[row.at("core")].insert(cpu);
    ++cpus;
    const auto own = std::ranges::find_if(
        here().cores, [&](const Core& core) { return std::ranges::find(core.cpus, cpu) != core.cpus.end(); });
    ASSERT_NE(own, here().cores.end()) << cpu;
    EXPECT_EQ(own->package, row.at("socket").get<int>()) << cpu;
    if (row.contains("node") && row.at("node").is_number()) {
      EXPECT_EQ(own->numa_node, row.at("node").get<int>()) << cpu;
    }
  }
  std::size_t ours = 0;
  for (const Core& core : here().cores) {
    ours += core.cpus.size();
    const std::set<int> together(core.cpus.begin(), core.cpus.end());
    EXPECT_TRUE(std::ranges::any_of(cores, [&](const auto& entry) { return entry.second == together; }))
        << testing::PrintToString(core.cpus);
  }
  EXPECT_EQ(ours, cpus);
  EXPECT_EQ(here().cores.size(), cores.size());
}

TEST_F(Agreement, WithLscpu_OnCaches) {
  const std::string text = output_of({"lscpu", "-B", "-J", "-C=LEVEL,TYPE,ONE-SIZE,ALL-SIZE,COHERENCY-SIZE"});
  SKIP_IF_MISSING();
  if (text.empty()) GTEST_SKIP() << "lscpu sees no caches";
  const auto number = [](const json& value) {
    return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<unsigned long long>();
  };
  const json rows = json::parse(text).at("caches");
  EXPECT_FALSE(rows.empty());
  for (const json& row : rows) {
    if (row.at("type") == "Instruction") continue;
    std::uint64_t all = 0;
    for (const Cache& cache : here().caches) {
      if (cache.level != static_cast<int>(number(row.at("level")))) continue;
      all += cache.bytes;
      EXPECT_EQ(cache.bytes, number(row.at("one-size"))) << row.dump();
      EXPECT_EQ(cache.line_bytes, number(row.at("coherency-size"))) << row.dump();
    }
    EXPECT_EQ(all, number(row.at("all-size"))) << row.dump();
  }
}

/// The rows of `lscpu -J`, also where they are nested.
void collect(const json& rows, std::map<std::string, std::string>& into) {
  for (const json& row : rows) {
    if (row.contains("data") && row.at("data").is_string()) into[row.at("field")] = row.at("data");
    if (row.contains("children")) collect(row.at("children"), into);
  }
}

TEST_F(Agreement, WithLscpu_OnModelsAndCounts) {
  const std::string text = output_of({"lscpu", "-J"});
  SKIP_IF_MISSING();
  std::map<std::string, std::string> rows;
  collect(json::parse(text).at("lscpu"), rows);
  if (!rows.contains("Core(s) per socket:")) GTEST_SKIP() << "lscpu counts no cores of this processor";
  const auto number = [&](const char* field) { return std::stoul(rows.at(field)); };
  EXPECT_EQ(here().architecture, rows.at("Architecture:"));
  EXPECT_EQ(here().packages.size(), number("Socket(s):"));
  EXPECT_EQ(here().cores.size(), number("Socket(s):") * number("Core(s) per socket:"));
  for (const Package& package : here().packages) {
    if (!package.model.empty()) {
      EXPECT_EQ(package.model, rows.at("Model name:"));
    }
  }
  for (const Core& core : here().cores) EXPECT_EQ(core.cpus.size(), number("Thread(s) per core:"));
  if (!rows.contains("NUMA node(s):")) return;
  EXPECT_EQ(here().numa_nodes.size(), number("NUMA node(s):"));
  for (const NumaNode& node : here().numa_nodes) {
    std::vector<int> cpus;
    for (const int core : node.cores) {
      const std::vector<int>& its = here().cores.at(static_cast<std::size_t>(core)).cpus;
      cpus.insert(cpus.end(), its.begin(), its.end());
    }
    std::ranges::sort(cpus);
    EXPECT_EQ(cpus, parse_cpu_list(rows.at(fmt::format("NUMA node{} CPU(s):", node.id)))) << node.id;
  }
}

TEST_F(Agreement, WithIp_OnEveryInterface) {
  const std::string text = output_of({"ip", "-j", "-s", "-d", "addr"});
  SKIP_IF_MISSING();
  const json interfaces = json::parse(text);
  for (const json& row : interfaces) {
    const auto nic = std::ranges::find(here().nics, row.at("ifname").get<std::string>(), &Nic::name);
    ASSERT_NE(nic, here().nics.end()) << row.at("ifname");
    const auto has = [&](const char* flag) {
      return std::ranges::find(row.at("flags"), json(flag)) != row.at("flags").end();
    };
    EXPECT_EQ(nic->mtu_bytes, row.at("mtu").get<std::uint32_t>()) << nic->name;
    EXPECT_EQ(nic->up, has("UP")) << nic->name;
    EXPECT_EQ(nic->loopback, has("LOOPBACK")) << nic->name;
    // The kernel's IFF_RUNNING, which ip shows as the state: unknown is that of drivers without one, such as lo.
    const std::string state = row.at("operstate");
    EXPECT_EQ(nic->running, has("UP") && (state == "UP" || state == "UNKNOWN")) << nic->name << " " << state;
    const std::string type = row.at("link_type");
    EXPECT_EQ(nic->kind == NicKind::Ethernet || nic->kind == NicKind::RoCE, type == "ether") << nic->name;
    EXPECT_EQ(nic->kind == NicKind::InfiniBand, type == "infiniband") << nic->name;
    if (row.value("parentbus", "") == "pci") {
      EXPECT_EQ(nic->pci, row.at("parentdev").get<std::string>()) << nic->name;
    }
    if (row.contains("address")) {
      EXPECT_EQ(nic->hardware_address, row.at("address").get<std::string>());
    }
    std::set<std::pair<std::string, int>> theirs;
    std::set<std::pair<std::string, int>> ours;
    for (const json& address : row.at("addr_info")) {
      if (address.contains("local")) theirs.emplace(address.at("local"), address.at("prefixlen"));
    }
    for (const NicAddress& address : nic->addresses) ours.emplace(address.text, address.prefix);
    EXPECT_EQ(ours, theirs) << nic->name;
  }
  const auto interface = [](const Nic& nic) { return nic.name.find(':') == std::string::npos; };
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(here().nics, interface)), interfaces.size());
}

/// What the driver itself answers (ethtool's own question), not by way of sysfs.
TEST_F(Agreement, WithTheDriver_OnTheSpeedOfItsInterface) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(socket);
  for (const Nic& nic : here().nics) {
    if (nic.pci.empty() || !nic.rdma.device.empty()) continue;  // no wire of its own, or RDMA's rate may stand in
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    ifreq request{};
    nic.name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&command);
    const bool answered = ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
    const std::uint32_t megabits = answered ? ethtool_cmd_speed(&command) : 0;
    const bool known = megabits != 0 && megabits != static_cast<std::uint32_t>(SPEED_UNKNOWN);
    EXPECT_EQ(nic.bytes_per_s.value, known ? std::optional(megabits * 1e6 / 8) : std::nullopt) << nic.name;
  }
}

/// An object of lstopo's XML: its attributes, and its infos by their names.
using Attributes = std::map<std::string, std::string>;

std::vector<Attributes> objects_in(const std::string& xml) {
  const std::regex tag("<(object|info) ([^>]*)>");
  const std::regex attribute("([a-z_]+)=\"([^\"]*)\"");
  std::vector<Attributes> objects;
  for (std::sregex_iterator m(xml.begin(), xml.end(), tag), end; m != end; ++m) {
    const std::string text = (*m)[2];
    Attributes found;
    for (std::sregex_iterator a(text.begin(), text.end(), attribute); a != end; ++a) found[(*a)[1]] = (*a)[2];
    if ((*m)[1] == "object") {
      objects.push_back(std::move(found));
    } else if (!objects.empty()) {
      objects.back()[found["name"]] = found["value"];
    }
  }
  return objects;
}

class AgreementWithLstopo : public Agreement {
 protected:
  void SetUp() override {
    const std::string xml = output_of({"lstopo-no-graphics", "--disallowed", "--of", "xml"});
    SKIP_IF_MISSING();
    objects_ = objects_in(xml);
    ASSERT_FALSE(objects_.empty());
  }
  std::vector<Attributes> of_type(const char* type) const {
    const std::regex wanted(type);
    std::vector<Attributes> found;
    for (const Attributes& object : objects_) {
      if (std::regex_match(object.at("type"), wanted)) found.push_back(object);
    }
    return found;
  }

  std::vector<Attributes> objects_;
};

TEST_F(AgreementWithLstopo, OnPackagesNodesAndThreads) {
  const auto packages = of_type("Package");
  ASSERT_EQ(here().packages.size(), packages.size());
  for (const Attributes& theirs : packages) {
    const auto ours = std::ranges::find(here().packages, std::stoi(theirs.at("os_index")), &Package::id);
    ASSERT_NE(ours, here().packages.end()) << theirs.at("os_index");
    EXPECT_EQ(ours->model, theirs.contains("CPUModel") ? theirs.at("CPUModel") : "");
  }
  const auto nodes = of_type("NUMANode");
  ASSERT_EQ(here().numa_nodes.size(), nodes.size());
  for (const Attributes& theirs : nodes) {
    const auto ours = std::ranges::find(here().numa_nodes, std::stoi(theirs.at("os_index")), &NumaNode::id);
    ASSERT_NE(ours, here().numa_nodes.end()) << theirs.at("os_index");
    EXPECT_EQ(ours->memory_bytes, std::stoull(theirs.at("local_memory")));
  }
  EXPECT_EQ(here().cores.size(), of_type("Core").size());
  std::size_t threads = 0;
  for (const Core& core : here().cores) threads += core.cpus.size();
  EXPECT_EQ(threads, of_type("PU").size());
}

TEST_F(AgreementWithLstopo, OnEveryCache) {
  using Key = std::tuple<int, std::uint64_t, std::uint32_t>;
  std::multiset<Key> ours;
  std::multiset<Key> theirs;
  for (const Cache& cache : here().caches) ours.emplace(cache.level, cache.bytes, cache.line_bytes);
  for (const Attributes& cache : of_type("L[1-5]Cache")) {
    theirs.emplace(std::stoi(cache.at("depth")), std::stoull(cache.at("cache_size")),
                   std::stoul(cache.at("cache_linesize")));
  }
  EXPECT_EQ(ours, theirs);
}

TEST_F(AgreementWithLstopo, OnPciDevicesTheirLinksAndInterfaces) {
  auto devices = of_type("PCIDev");
  for (const Attributes& bridge : of_type("Bridge")) {
    if (bridge.contains("pci_busid")) devices.push_back(bridge);
  }
  EXPECT_EQ(here().pci_devices.size(), devices.size());
  for (const Attributes& theirs : devices) {
    const std::string& address = theirs.at("pci_busid");
    const auto ours = std::ranges::find(here().pci_devices, address, &PciDevice::address);
    ASSERT_NE(ours, here().pci_devices.end()) << address;
    const std::string ids = fmt::format("[{:04x}:{:04x}]", ours->vendor_id, ours->device_id);
    EXPECT_THAT(theirs.at("pci_type"), testing::HasSubstr(ids)) << address;
    const auto link = std::ranges::find(here().links, "pci:" + address, &Link::from);
    ASSERT_NE(link, here().links.end()) << address;
    EXPECT_NEAR(link->bytes_per_s.value.value_or(0) / 1e9, std::stod(theirs.at("pci_link_speed")), 1e-5) << address;
  }
  for (const Attributes& theirs : of_type("OSDev")) {
    if (!theirs.contains("Address")) continue;  // no interface
    const auto ours = std::ranges::find(here().nics, theirs.at("name"), &Nic::name);
    ASSERT_NE(ours, here().nics.end()) << theirs.at("name");
    EXPECT_EQ(ours->hardware_address, theirs.at("Address")) << theirs.at("name");
  }
}

}  // namespace
}  // namespace sinew

#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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

TEST_F(Agreement, WithIp_OnEveryInterface) {
  const std::string text = output_of({"ip", "-j", "-s", "addr"});
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

TEST_F(Agreement, WithLstopo_OnObjectsMemoryAndPciLinks) {
  const std::string xml = output_of({"lstopo-no-graphics", "--disallowed", "--of", "xml"});
  SKIP_IF_MISSING();
  const auto count = [&](const std::string& type) {
    const std::regex object("<object type=\"" + type + "\"");
    return static_cast<std::size_t>(std::distance(std::sregex_iterator(xml.begin(), xml.end(), object), {}));
  };
  EXPECT_EQ(here().packages.size(), count("Package"));
  EXPECT_EQ(here().numa_nodes.size(), count("NUMANode"));
  EXPECT_EQ(here().cores.size(), count("Core"));
  EXPECT_EQ(here().caches.size(), count("L[1-5]Cache"));
  std::uint64_t memory = 0;
  const std::regex local_memory("local_memory=\"([0-9]+)\"");
  for (std::sregex_iterator m(xml.begin(), xml.end(), local_memory), end; m != end; ++m) memory += std::stoull((*m)[1]);
  std::uint64_t ours = 0;
  for (const NumaNode& node : here().numa_nodes) ours += node.memory_bytes;
  EXPECT_EQ(ours, memory);
  const std::regex device("<object type=\"PCIDev\"[^>]* pci_busid=\"([0-9a-f:.]+)\"[^>]* pci_link_speed=\"([0-9.]+)\"");
  std::size_t devices = 0;
  for (std::sregex_iterator m(xml.begin(), xml.end(), device), end; m != end; ++m, ++devices) {
    const auto link = std::ranges::find(here().links, "pci:" + (*m)[1].str(), &Link::from);
    ASSERT_NE(link, here().links.end()) << (*m)[1];
    EXPECT_NEAR(link->bytes_per_s.value.value_or(0) / 1e9, std::stod((*m)[2]), 1e-5) << (*m)[1];
  }
  const auto bridge = [](const PciDevice& d) { return d.kind == PciKind::Bridge; };
  EXPECT_EQ(devices + static_cast<std::size_t>(std::ranges::count_if(here().pci_devices, bridge)),
            here().pci_devices.size());
}

}  // namespace
}  // namespace sinew

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/host/cgroups.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/cpu_list.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/discover/host_identity.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::Field;

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

std::set<int> cpus_of_cpuinfo() {
  std::set<int> cpus;
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("processor\t")) cpus.insert(std::stoi(line.substr(line.find(':') + 1)));
  }
  return cpus;
}

class Discover : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    testing::internal::CaptureStderr();
    machine_ = new Machine(discover(Config{}));
    said_ = new std::string(testing::internal::GetCapturedStderr());
  }
  static void TearDownTestSuite() {
    delete machine_;
    delete said_;
  }
  static inline const Machine* machine_ = nullptr;
  static inline const std::string* said_ = nullptr;
};

TEST_F(Discover, SaysNothingOnStderr) { EXPECT_EQ(*said_, ""); }

TEST_F(Discover, CarriesHostIdentityAndUsableCores) {
  EXPECT_EQ(machine_->identity, host_identity(Config{}));
  EXPECT_EQ(machine_->host_name, host_name());
  EXPECT_EQ(machine_->usable_cores, usable_cores());
  EXPECT_EQ(machine_->cpu_quota, Cgroups("/").cpu());
  EXPECT_FALSE(machine_->system.empty());
  EXPECT_FALSE(machine_->architecture.empty());
}

TEST_F(Discover, FindsTheCpusOfProcCpuinfo) {
  std::set<int> found;
  for (const Core& core : machine_->cores) found.insert(core.cpus.begin(), core.cpus.end());
  EXPECT_EQ(found, cpus_of_cpuinfo());
}

TEST_F(Discover, PutsCpusOfOneCoreTogether_AsSysfsDoes) {
  for (const Core& core : machine_->cores) {
    const fs::path topology = "/sys/devices/system/cpu/cpu" + std::to_string(core.cpus.front()) + "/topology";
    if (!fs::exists(topology / "thread_siblings_list")) GTEST_SKIP() << "no thread_siblings_list in sysfs";
    EXPECT_EQ(format_cpu_list(core.cpus), first_line(topology / "thread_siblings_list"));
    EXPECT_EQ(core.package, std::stoi(first_line(topology / "physical_package_id")));
  }
}

TEST_F(Discover, MarksUsableExactlyTheCoresOfTheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  for (const Core& core : machine_->cores) {
    bool any = false;
    for (const int cpu : core.cpus) any = any || CPU_ISSET(static_cast<std::size_t>(cpu), &mask);
    EXPECT_EQ(core.usable, any);
  }
}

TEST_F(Discover, FindsTheMemoryOfProcMeminfo) {
  std::istringstream line(first_line("/proc/meminfo"));
  std::string label;
  std::uint64_t kib = 0;
  line >> label >> kib;
  ASSERT_EQ(label, "MemTotal:");
  EXPECT_EQ(machine_->memory_bytes, kib << 10);
}

TEST_F(Discover, FindsTheNumaNodesOfSysfs) {
  const fs::path root = "/sys/devices/system/node";
  if (!fs::exists(root / "online")) GTEST_SKIP() << "no NUMA nodes in sysfs";
  std::vector<int> ids;
  for (const NumaNode& node : machine_->numa_nodes) {
    ids.push_back(node.id);
    std::vector<int> cpus;
    for (const int core : node.cores) {
      const auto& its = machine_->cores.at(static_cast<std::size_t>(core)).cpus;
      cpus.insert(cpus.end(), its.begin(), its.end());
    }
    std::ranges::sort(cpus);
    EXPECT_EQ(format_cpu_list(cpus), first_line(root / ("node" + std::to_string(node.id)) / "cpulist"));
  }
  std::ranges::sort(ids);
  EXPECT_EQ(format_cpu_list(ids), first_line(root / "online"));
}

TEST_F(Discover, FindsTheCachesOfSysfs) {
  const fs::path root = "/sys/devices/system/cpu/cpu0/cache";
  if (!fs::exists(root)) GTEST_SKIP() << "no caches in sysfs";
  for (const auto& entry : fs::directory_iterator(root)) {
    if (!entry.path().filename().string().starts_with("index") || first_line(entry.path() / "type") == "Instruction")
      continue;
    const int level = std::stoi(first_line(entry.path() / "level"));
    const std::uint64_t kib = std::stoull(first_line(entry.path() / "size"));  // "1024K"
    const auto same = [&](const Cache& c) { return c.level == level && c.bytes == kib << 10; };
    EXPECT_TRUE(std::ranges::any_of(machine_->caches, same)) << "L" << level << " of " << kib << " KiB";
  }
}

TEST_F(Discover, GivesEveryPciDeviceAPlaceAndALink) {
  std::set<std::string> addresses;
  for (const PciDevice& device : machine_->pci_devices) addresses.insert(device.address);
  for (const PciDevice& device : machine_->pci_devices) {
    EXPECT_TRUE(fs::exists("/sys/bus/pci/devices/" + device.address)) << device.address;
    EXPECT_TRUE(device.parent.empty() || addresses.contains(device.parent)) << device.parent;
    EXPECT_EQ(std::ranges::count(machine_->links, "pci:" + device.address, &Link::from), 1) << device.address;
  }
}

TEST_F(Discover, SaysWhereEveryNumberIsFrom) {
  for (const Link& link : machine_->links) {
    EXPECT_FALSE(link.bytes_per_s.source.empty()) << link.from;
    EXPECT_FALSE(link.latency_s.source.empty()) << link.from;
    if (link.bytes_per_s.value) {
      EXPECT_GT(*link.bytes_per_s.value, 0) << link.from;
    }
  }
  for (const Nic& nic : machine_->nics) EXPECT_FALSE(nic.bytes_per_s.source.empty()) << nic.name;
  for (const Unseen& gap : machine_->unseen) EXPECT_FALSE(gap.what.empty() || gap.why.empty());
}

TEST_F(Discover, LeavesTheAffinityAlone) {
  const std::vector<int> before = affinity_cpus();
  (void)discover(Config{});
  EXPECT_EQ(affinity_cpus(), before);
}

/// hwloc's own variable describes a machine that nobody here has.
TEST(DiscoverSynthetic, ShowsPackagesNodesAndSharedCaches) {
  setenv("HWLOC_SYNTHETIC", "pack:2 numa:2 l3:1(size=8388608) core:4 pu:2", 1);
  const Machine m = discover(Config{});
  unsetenv("HWLOC_SYNTHETIC");
  ASSERT_EQ(m.packages.size(), 2u);
  ASSERT_EQ(m.numa_nodes.size(), 4u);
  ASSERT_EQ(m.cores.size(), 16u);
  EXPECT_EQ(m.packages[1].cores, (std::vector{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(m.numa_nodes[1].cores, (std::vector{4, 5, 6, 7}));
  EXPECT_EQ(m.numa_nodes[2].package, 1);
  EXPECT_EQ(m.cores[5].numa_node, 1);
  EXPECT_EQ(m.cores[5].cpus, (std::vector{10, 11}));
  EXPECT_EQ(m.caches.front().bytes, 8388608u);
  EXPECT_EQ(m.caches.front().cores, (std::vector{0, 1, 2, 3}));
  EXPECT_THAT(m.cores, Each(Field(&Core::usable, true)));
  EXPECT_EQ(std::ranges::count(m.links, LinkKind::Memory, &Link::kind), 4);
}

}  // namespace
}  // namespace sinew

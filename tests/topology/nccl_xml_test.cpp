#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/distance.hpp>
#include <sinew/topology/json.hpp>
#include <sinew/topology/nccl_xml.hpp>

namespace sinew {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kDgx = TOPOLOGY_DATA "/dgx_h100_nccl.xml";

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string complaint(const std::string& text) {
  try {
    (void)machine_from_nccl_xml(text, "t.xml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no error";
}

/// One <cpu> with `inside`, which begins on line 3.
std::string system_of(const std::string& inside, const std::string& cpu = R"(numaid="0" affinity="ff")") {
  return "<system version=\"1\">\n<cpu " + cpu + " arch=\"x86_64\">\n" + inside + "\n</cpu>\n</system>\n";
}

std::string pci(const std::string& attributes, const std::string& inside = "") {
  return "<pci " + attributes + ">\n" + inside + "\n</pci>";
}

TEST(NcclXml, OfADgxH100HasEightGpusOnNvSwitch) {
  const Machine m = machine_from_nccl_xml(text_of(kDgx), kDgx);
  ASSERT_EQ(m.gpus.size(), 8u);
  const char* const buses[] = {"1b", "43", "52", "61", "9d", "c3", "d1", "df"};
  for (std::size_t g = 0; g < 8; ++g) {
    EXPECT_EQ(m.gpus[g].pci, "0000:" + std::string(buses[g]) + ":00.0");
    EXPECT_EQ(m.gpus[g].numa_node, g < 4 ? 0 : 1);
    EXPECT_EQ(m.gpus[g].nvlinks, 18);
    EXPECT_EQ(m.gpus[g].nvlink_generation, 4);
    for (std::size_t other = 0; other < 8; ++other) {
      const std::string a = "gpu:" + std::to_string(g);
      const std::string b = "gpu:" + std::to_string(other);
      EXPECT_EQ(to_text(distance(m, a, b)), g == other ? "X" : "NV18");
    }
  }
  EXPECT_TRUE(m.gpu_peers.empty());
  EXPECT_THAT(m.unseen, testing::Contains(Unseen{"peer access between GPUs", "unknown: NCCL's XML does not list it"}));
  ASSERT_EQ(m.nvswitches.size(), 4u);
  EXPECT_EQ(m.nvswitches[0].pci, "0000:05:00.0");
  double bytes_per_s = 0;
  for (const Link& link : m.links) {
    if (link.kind == LinkKind::NvLink && link.from == "gpu:6") bytes_per_s += link.bytes_per_s.value.value();
  }
  EXPECT_EQ(bytes_per_s, 450e9) << "the datasheet: 900 GB/s both ways";
}

TEST(NcclXml, OfADgxH100HasEightRails_EachBesideItsGpu) {
  const Machine m = machine_from_nccl_xml(text_of(kDgx), kDgx);
  ASSERT_EQ(m.nics.size(), 8u);
  const int device_of_gpu[] = {0, 3, 4, 5, 6, 9, 10, 11};  // DGX H100/H200 User Guide, network modules
  for (std::size_t g = 0; g < 8; ++g) {
    for (const Nic& nic : m.nics) {
      EXPECT_EQ(nic.kind, NicKind::InfiniBand);
      EXPECT_EQ(nic.bytes_per_s.value, 50e9);
      const bool own = nic.name == "mlx5_" + std::to_string(device_of_gpu[g]) + ":1";
      const std::string expected = own ? "PIX" : m.gpus[g].numa_node == nic.numa_node ? "PHB" : "SYS";
      EXPECT_EQ(to_text(distance(m, "gpu:" + std::to_string(g), "nic:" + nic.name)), expected) << g << nic.name;
    }
  }
}

TEST(NcclXml, OfADgxH100HasItsCpus) {
  const Machine m = machine_from_nccl_xml(text_of(kDgx), kDgx);
  ASSERT_EQ(m.numa_nodes.size(), 2u);
  EXPECT_EQ(m.cores.size(), 224u);
  EXPECT_EQ(m.numa_nodes[1].cores.size(), 112u);
  EXPECT_EQ(m.cores[55].numa_node, 0);
  EXPECT_EQ(m.cores[56].numa_node, 1);
  EXPECT_EQ(m.cores[112].numa_node, 0);
  EXPECT_EQ(m.cores[223].cpus, std::vector{223});
  EXPECT_EQ(m.architecture, "x86_64");
  EXPECT_EQ(m.identity, "nccl:0x16fe256e956b115c");
  const auto pci_link = std::ranges::find(m.links, "pci:0000:1b:00.0", &Link::from);
  ASSERT_NE(pci_link, m.links.end());
  EXPECT_EQ(pci_link->to, "pci:0000:16:00.0");
  EXPECT_NEAR(pci_link->bytes_per_s.value.value(), 63.015e9, 1e6) << "32 GT/s x16 after 128b/130b";
}

TEST(NcclXml, ComesBackEqualThroughJson) {
  const Machine m = machine_from_nccl_xml(text_of(kDgx), kDgx);
  EXPECT_EQ(machine_from_json(to_json(m)), m);
}

TEST(NcclXml, OrdersGpusByDev_AndTakesDirectNvLinksOnce) {
  const std::string gpu = R"(class="0x030200" vendor="0x10de" link_speed="" link_width="0" busid=)";
  const Machine m = machine_from_nccl_xml(
      system_of(pci(gpu + "\"0000:0B:00.0\"",
                    R"(<gpu dev="1" sm="70"><nvlink target="00000000:0a:00.0" count="2" tclass="0x030200"/></gpu>)") +
                pci(gpu + "\"0000:0a:00.0\"",
                    R"(<gpu dev="0" sm="70"><nvlink target="0000:0b:00.0" count="2"/>
                       <nvlink target="0000:0f:00.0" count="1" tclass="0x030200"/></gpu>)")),
      "t.xml");
  ASSERT_EQ(m.gpus.size(), 2u);
  EXPECT_EQ(m.gpus[1].pci, "0000:0b:00.0");
  EXPECT_EQ(std::ranges::count(m.links, LinkKind::NvLink, &Link::kind), 1);
  EXPECT_EQ(distance(m, "gpu:0", "gpu:1"), (Distance{Between::NvLink, 2}));
  EXPECT_THAT(m.unseen, testing::Contains(Unseen{"NVLinks of gpu:0 to 0000:0f:00.0", "that GPU is not in the file"}));
  const auto pci_link = std::ranges::find(m.links, LinkKind::Pci, &Link::kind);
  EXPECT_FALSE(pci_link->bytes_per_s.value);
}

TEST(NcclXml, TakesInvisibleTargetsForOneNvSwitch) {
  const std::string gpu = R"(class="0x030200" link_speed="" link_width="0" busid=)";
  const std::string link = R"(<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>)";
  const Machine m =
      machine_from_nccl_xml(system_of(pci(gpu + "\"0000:0a:00.0\"", R"(<gpu dev="0" sm="90">)" + link + "</gpu>") +
                                      pci(gpu + "\"0000:0b:00.0\"", R"(<gpu dev="1" sm="90">)" + link + "</gpu>")),
                            "t.xml");
  EXPECT_EQ(m.nvswitches, std::vector{NvSwitch{""}});
  EXPECT_EQ(to_text(distance(m, "gpu:0", "gpu:1")), "NV18");
}

TEST(NcclXml, ListsAnInterfaceWithoutPciOnce_ThoughEveryCpuHasIt) {
  const std::string eth = R"(<nic><net name="eth0" dev="0" speed="-1" port="0" guid="0x0"/></nic>)";
  const Machine m = machine_from_nccl_xml("<system version='1'><cpu numaid='0' affinity='1'>" + eth +
                                              "</cpu><cpu numaid='1' affinity='2'>" + eth + "</cpu></system>",
                                          "t.xml");
  ASSERT_EQ(m.nics.size(), 1u);
  EXPECT_EQ(m.nics[0].name, "eth0");
  EXPECT_EQ(m.nics[0].rdma.device, "");
  EXPECT_EQ(m.nics[0].numa_node, -1);
  EXPECT_FALSE(m.nics[0].bytes_per_s.value);
}

TEST(NcclXml, GivesFileLineAndReason_WhenBroken) {
  EXPECT_EQ(complaint(""), "t.xml:1: not XML: No document element found");
  EXPECT_THAT(complaint("<system version=\"1\">\n<cpu\n"), StartsWith("t.xml:2: not XML: "));
  EXPECT_EQ(complaint("\n<graphs version=\"1\"/>"), "t.xml:2: <graphs>: expected NCCL's <system>");
  EXPECT_EQ(complaint("<system version=\"2\"/>"), "t.xml:1: <system>: version=\"2\": expected an integer from 1 to 1");
  EXPECT_EQ(complaint("<system/>"), "t.xml:1: <system>: expected an attribute version");
  EXPECT_EQ(complaint(system_of("", "affinity=\"1\"")), "t.xml:2: <cpu>: expected an attribute numaid");
  for (const char* mask : {"0-63", "123456789", "1,,1", ",1", "1,", "x"}) {
    EXPECT_EQ(complaint(system_of("", "numaid=\"0\" affinity=\"" + std::string(mask) + "\"")),
              "t.xml:2: <cpu>: affinity=\"" + std::string(mask) +
                  "\": expected words of up to 8 hexadecimal digits, such as 00000000,0000ffff");
  }
  EXPECT_EQ(complaint("<system version='1'>\n<cpu numaid='0'/>\n<cpu numaid='0'/></system>"),
            "t.xml:3: <cpu>: numaid=\"0\" is listed twice");
  EXPECT_THAT(
      complaint("<system version='1'>\n<cpu numaid='0' host_hash='1'/>\n<cpu numaid='1' host_hash='2'/></system>"),
      StartsWith("t.xml:3: <cpu>: host_hash=\"2\": expected \"1\" as above"));
}

TEST(NcclXml, GivesFileLineAndReason_WhenADeviceIsBroken) {
  const auto device = [](const std::string& attributes, const std::string& inside = "") {
    return complaint(system_of(pci(attributes, inside)));
  };
  EXPECT_EQ(device(""), "t.xml:3: <pci>: expected an attribute busid");
  EXPECT_EQ(device(R"(busid="0000:0g:00.0" class="0x02")"),
            "t.xml:3: <pci>: busid=\"0000:0g:00.0\": expected an address such as 0000:3b:00.0");
  EXPECT_EQ(device(R"(busid="0000:0a:00.0")"), "t.xml:3: <pci>: expected an attribute class");
  EXPECT_EQ(device(R"(busid="0000:0a:00.0" class="0x020")"),
            "t.xml:3: <pci>: class=\"0x020\": expected 2, 4 or 6 hexadecimal digits after 0x");
  const std::string at = R"(busid="0000:0a:00.0" class="0x030200" )";
  EXPECT_EQ(device(at + R"(link_speed="fast" link_width="16")"),
            "t.xml:3: <pci>: link_speed=\"fast\": expected a speed such as \"32.0 GT/s PCIe\"");
  EXPECT_EQ(device(at + R"(link_speed="8 GT/s" link_width="x")"),
            "t.xml:3: <pci>: link_width=\"x\": expected an integer from 0 to 255");
  EXPECT_EQ(device(at, "<gpu sm=\"90\"/>"), "t.xml:4: <gpu>: expected an attribute dev");
  EXPECT_EQ(device(at, "<gpu dev=\"0\">\n<nvlink target=\"0000:0b:00.0\"/></gpu>"),
            "t.xml:5: <nvlink>: expected an attribute count");
  EXPECT_EQ(device(at, "<gpu dev=\"0\">\n<nvlink target=\"x\" count=\"1\"/></gpu>"),
            "t.xml:5: <nvlink>: target=\"x\": expected an address such as 0000:3b:00.0");
  EXPECT_EQ(device(at, "<gpu dev=\"0\">\n<nvlink target=\"0000:0a:00.0\" count=\"1\"/></gpu>"),
            "t.xml:5: <nvlink>: target=\"0000:0a:00.0\": a GPU has no NVLink to itself");
  EXPECT_THAT(device(at, "<gpu dev=\"0\">\n<nvlink target=\"0000:0b:00.0\" count=\"1\" tclass=\"0x02\"/></gpu>"),
              StartsWith("t.xml:5: <nvlink>: tclass=\"0x02\": expected 0x03"));
  EXPECT_EQ(device(at, "<nic>\n<net dev=\"0\"/></nic>"), "t.xml:5: <net>: expected an attribute name");
  EXPECT_EQ(device(at, "<nic>\n<net name=\"a\"/>\n<net name=\"a\"/></nic>"),
            "t.xml:6: <net>: name=\"a\": a is listed twice");
  EXPECT_EQ(device(at, pci(at)), "t.xml:4: <pci>: busid=\"0000:0a:00.0\" is listed twice");
}

TEST(NcclXml, RefusesATreeThatIsTooDeep) {
  std::string open;
  std::string close;
  for (int i = 0; i < 100; ++i) {
    const char digits[] = {static_cast<char>('a' + i / 10 % 6), static_cast<char>('0' + i % 10), '\0'};
    open += "<pci class=\"0x060400\" busid=\"00" + std::to_string(10 + i / 60) + ":" + digits + ":00.0\">";
    close += "</pci>";
  }
  EXPECT_THAT(complaint(system_of(open + close)), HasSubstr("more than 64 PCI devices above each other"));
}

}  // namespace
}  // namespace sinew

#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/nccl/nccl_xml.hpp>
#include <sinew/topology/model/distance.hpp>

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
  EXPECT_EQ(
      complaint("\n<graphs version=\"1\"/>"),
      "t.xml:2: <graphs>: these are rings and trees of NCCL's (NCCL_GRAPH_DUMP_FILE), not a machine; expected the "
      "<system> that NCCL_TOPO_DUMP_FILE writes");
  EXPECT_EQ(complaint("\n<algo name=\"a\"/>"), "t.xml:2: <algo>: expected NCCL's <system>");
  EXPECT_EQ(complaint("<system version=\"3\"/>"), "t.xml:1: <system>: version=\"3\": expected an integer from 1 to 2");
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

TEST(NcclXml, RefusesTwoArchitectures) {
  EXPECT_EQ(complaint("<system version='1'>\n<cpu numaid='0' arch='x86_64'/>\n<cpu numaid='1' arch='arm64'/></system>"),
            "t.xml:3: <cpu>: arch=\"arm64\": expected \"x86_64\" as above: a machine has one architecture");
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
            "t.xml:5: <nvlink>: target=\"0000:0a:00.0\": a GPU has no link to itself");
  EXPECT_THAT(device(at, "<gpu dev=\"0\">\n<nvlink target=\"0000:0b:00.0\" count=\"1\" tclass=\"0x02\"/></gpu>"),
              StartsWith("t.xml:5: <nvlink>: tclass=\"0x02\": expected 0x03"));
  EXPECT_EQ(device(at, "<nic>\n<net dev=\"0\"/></nic>"), "t.xml:5: <net>: expected an attribute name");
  EXPECT_EQ(device(at, "<nic>\n<net name=\"a\"/>\n<net name=\"a\"/></nic>"),
            "t.xml:6: <net>: name=\"a\": a is listed twice");
  EXPECT_EQ(device(at, "<nic>\n<net name=\"a\" latency=\"fast\"/></nic>"),
            "t.xml:5: <net>: latency=\"fast\": expected microseconds such as 1.5");
  EXPECT_EQ(device(at, "<pcilink target=\"0000:0a:00.0\"/>"),
            "t.xml:4: <pcilink>: target=\"0000:0a:00.0\": expected the address of another PCI switch, such as "
            "0000:3b:00.0");
  EXPECT_EQ(device(at, "<pcilink target=\"0000:0b:00.0\"/>\n<pcilink target=\"0000:0b:00.0\"/>"),
            "t.xml:5: <pcilink>: target=\"0000:0b:00.0\" is listed twice");
  EXPECT_EQ(device(at, "<gpu dev=\"0\">\n<c2c bw=\"1\" count=\"1\"/>\n<c2c bw=\"1\" count=\"1\"/></gpu>"),
            "t.xml:6: <c2c>: listed twice: a GPU has one <c2c>, with a count");
  EXPECT_EQ(device(at, pci(at)), "t.xml:4: <pci>: busid=\"0000:0a:00.0\" is listed twice");
}

Machine machine_in(const std::string& name) {
  const std::string file = TOPOLOGY_DATA "/nccl/" + name;
  return machine_from_nccl_xml(text_of(file), file);
}

/// Of one link to the other end, each way.
double rate_between(const Machine& m, const std::string& from, const std::string& to) {
  for (const Link& link : m.links) {
    if (link.from == from && link.to == to) return link.bytes_per_s.value.value_or(0) / link.width;
  }
  ADD_FAILURE() << from << " " << to;
  return 0;
}

TEST(NcclXml, OfRccl_HasXgmiLinksAsTheyAre) {
  const Machine m = machine_in("rccl_6_mi250.xml");
  EXPECT_EQ(m.system, "RCCL topology");
  ASSERT_EQ(m.gpus.size(), 3u);
  EXPECT_EQ(m.gpus[0].architecture, "gfx90a");
  EXPECT_EQ(m.gpus[2].architecture, "gfx90a") << "from 910";
  EXPECT_EQ(m.gpus[0].xgmi_links, 7);
  EXPECT_EQ(m.gpus[2].xgmi_links, 0);
  EXPECT_EQ(m.gpus[0].nvlinks, -1);
  EXPECT_EQ(distance(m, "gpu:0", "gpu:1"), (Distance{Between::Xgmi, 4}));
  EXPECT_EQ(to_text(distance(m, "gpu:1", "gpu:0")), "XGMI4");
  EXPECT_EQ(to_text(distance(m, "gpu:2", "gpu:0")), "XGMI2");
  EXPECT_EQ(to_text(distance(m, "gpu:1", "gpu:2")), "PHB");
  EXPECT_EQ(rate_between(m, "gpu:0", "gpu:1"), 50e9);
  EXPECT_THAT(m.unseen, testing::Contains(Unseen{"XGMI links between gpu:0 and gpu:2",
                                                 "one lists 2, the other 0: the more are shown"}));
  EXPECT_THAT(m.unseen,
              testing::Contains(Unseen{"XGMI links of gpu:0 to 0000:99:00.0", "that GPU is not in the file"}));
}

TEST(NcclXml, OfRccl_TakesTheGpuOfTheAddress_AndACpu) {
  const Machine m = machine_in("rccl_7_mi300x.xml");
  ASSERT_EQ(m.gpus.size(), 3u);
  EXPECT_TRUE(m.nvswitches.empty());
  for (const auto& [a, b] : {std::pair("gpu:0", "gpu:1"), {"gpu:0", "gpu:2"}, {"gpu:1", "gpu:2"}}) {
    EXPECT_EQ(to_text(distance(m, a, b)), "XGMI1");
    EXPECT_EQ(rate_between(m, a, b), 64e9);
  }
  EXPECT_EQ(rate_between(m, "gpu:0", "numa:0"), 64e9);
  EXPECT_THAT(m.unseen, testing::Contains(
                            Unseen{"what the XGMI links of gpu:0 to 0000:46:00.0 end at",
                                   "tclass=\"0x068000\" says a switch, the address is a GPU's: taken for the GPU"}));
  EXPECT_EQ(machine_in("rccl_5_mi100.xml").gpus[0].architecture, "gfx908");
}

TEST(NcclXml, HasWhatIsInUnusualPlaces) {
  const Machine m = machine_in("nccl_by_hand.xml");
  ASSERT_EQ(m.gpus.size(), 4u) << "one <gpu> is one too many for its <pci>";
  EXPECT_EQ(m.gpus[0].pci, "0000:12:00.0");
  EXPECT_EQ(m.gpus[1].pci, "0000:13:00.0");
  EXPECT_EQ(m.gpus[2].pci, "");
  EXPECT_EQ(m.gpus[2].numa_node, 0);
  EXPECT_EQ(m.gpus[3].numa_node, -1);
  EXPECT_THAT(m.unseen, testing::Contains(Unseen{"GPUs between those of the file",
                                                 "in NCCL's numbers gpu:1 is 2, gpu:2 is 3, gpu:3 is 4"}));
  std::vector<std::string> nics;
  for (const Nic& nic : m.nics) nics.push_back(nic.name + " at " + nic.pci);
  EXPECT_THAT(nics, testing::UnorderedElementsAre("mlx5_7:2 at 0000:11:00.0", "eth1 at ", "eth2 at ", "eth3 at "));
  EXPECT_EQ(to_text(distance(m, "gpu:1", "nic:mlx5_7:2")), "PIX");
  EXPECT_EQ(std::ranges::count(m.pci_devices, "0000:20:00.0", &PciDevice::address), 1);
}

TEST(NcclXml, ListsWhatItLeavesOut_WithLines) {
  const Machine m = machine_in("nccl_by_hand.xml");
  std::vector<std::string> unknown;
  for (const Ignored& one : m.ignored) {
    EXPECT_EQ(one.file, TOPOLOGY_DATA "/nccl/nccl_by_hand.xml");
    if (!one.known) unknown.push_back(fmt::format("{} {}: {}", fmt::join(one.lines, ","), one.what, one.why));
  }
  const std::string twice = "attribute sm of <gpu>: given twice: the first counts";
  EXPECT_THAT(unknown,
              testing::ElementsAre(
                  "2 attribute site of <system>: not understood", "5 attribute slot of <pci>: not understood",
                  "10 attribute localrank of <gpu>: not understood",
                  "11 another <gpu> in one <pci>: not understood: a PCI device is one GPU", "13 " + twice,
                  "16 <retimer> in <pci>: not understood", "21 text in <cpu>: not understood",
                  "27 <switch> in <system>: not understood", "29 <leftover> in the file's top level: not understood"));
  const auto empty = std::ranges::find(m.ignored, "<nic> without a new <net>", &Ignored::what);
  ASSERT_NE(empty, m.ignored.end());
  EXPECT_EQ(empty->lines, std::vector{20});
  EXPECT_TRUE(empty->known);
}

TEST(NcclXml, JoinsSwitchesBesideThePciTree) {
  const Machine m = machine_in("nccl_2.27_broadcom.xml");
  EXPECT_EQ(to_text(distance(m, "gpu:1", "nic:mlx5_0:1")), "PXB") << "without the link: PHB";
  const auto between = [](const Link& link) {
    return link.from == "pci:0000:41:00.0" && link.to == "pci:0000:81:00.0";
  };
  EXPECT_EQ(std::ranges::count_if(m.links, between), 1) << "both ends list it";
  EXPECT_THAT(m.unseen, testing::Contains(Unseen{"link between the PCI switches 0000:41:00.0 and 0000:c1:00.0",
                                                 "only one of them is in the file"}));
}

TEST(NcclXml, SaysWhatAGpusSecondRankAndItsCpusLinksAre) {
  const Machine rails = machine_in("nccl_2.30_rails.xml");
  EXPECT_EQ(rails.gpus.size(), 2u);
  EXPECT_EQ(rails.gpus[0].architecture, "sm_103");
  EXPECT_THAT(rails.ignored,
              testing::Contains(testing::AllOf(testing::Field(&Ignored::what, "another <gpu> in one <pci>"),
                                               testing::Field(&Ignored::why, "another rank on the same GPU"),
                                               testing::Field(&Ignored::known, true))));
  const Machine grace = machine_in("nccl_2.22_grace.xml");
  EXPECT_EQ(rate_between(grace, "gpu:0", "numa:0"), 44712e6);
  EXPECT_THAT(grace.unseen,
              testing::Contains(Unseen{"NVLinks of gpu:2 to its CPU", "which NUMA node that is: unknown"}));
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

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/format/json/json.hpp>
#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

#include "../topology/sample_machine.hpp"
#include "drawing.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Outcome topology(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {SINEW_INFO, "topology"});
  return run_program(arguments, {});
}

std::string picture_of(const std::string& machine) {
  const Outcome o = topology({"--from", machine, "--svg", "-"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return o.out;
}

Machine machine_of(const std::string& machine) {
  return machine_from_json(topology({"--from", machine, "--json"}).out);
}

std::multiset<std::string> headings(const std::string& svg) {
  std::multiset<std::string> texts;
  for (const Shape& s : shapes_of(svg, "ink")) texts.insert(s.text);
  return texts;
}

std::string sample_file(const ScratchFolder& folder) {
  const std::string file = folder / "sample.json";
  std::ofstream(file) << to_json(sample_machine());
  return file;
}

TEST(MachinePicture, ShowsEveryCoreGpuAndNicOnce) {
  const ScratchFolder folder;
  for (const std::string& name :
       {std::string("dgx-h100"), std::string("dgx-a100"), std::string("epyc-2s"),
        std::string(TOPOLOGY_DATA "/dgx_h100_nccl.xml"), std::string(TOPOLOGY_DATA "/nccl/rccl_6_mi250.xml"),
        std::string(TOPOLOGY_DATA "/nccl/nccl_by_hand.xml"), std::string(TOPOLOGY_DATA "/two_sockets_hwloc.xml"),
        sample_file(folder)}) {
    SCOPED_TRACE(name);
    const std::string svg = picture_of(name);
    const Machine machine = machine_of(name);
    EXPECT_EQ(shapes_of(svg, "core").size(), machine.cores.size());
    EXPECT_EQ(shapes_of(svg, "gpu").size(), machine.gpus.size());
    EXPECT_EQ(shapes_of(svg, "nic").size(), machine.nics.size());
    EXPECT_EQ(shapes_of(svg, "nvswitch").size(), machine.nvswitches.size());
    const auto texts = headings(svg);
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) EXPECT_EQ(texts.count("GPU " + std::to_string(i)), 1U);
    for (const Nic& nic : machine.nics) EXPECT_EQ(texts.count(nic.name), 1U) << nic.name;
    std::set<std::string> cores;
    for (const Shape& s : shapes_of(svg, "core")) cores.insert(s.tooltip);
    EXPECT_EQ(cores.size(), machine.cores.size()) << "each another one";
  }
}

TEST(MachinePicture, ShowsThisMachine) {
  const Outcome o = topology({"--svg", "-"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, StartsWith("<?xml"));
  EXPECT_FALSE(shapes_of(o.out, "core").empty());
}

TEST(MachinePicture, HasRatesWithTheirSources_AndSaysWhatIsUnknown) {
  const std::string dgx = picture_of("dgx-h100");
  EXPECT_THAT(dgx, HasSubstr("18 NVLinks to 4 NVSwitches: 450 GB/s"));
  EXPECT_THAT(dgx, HasSubstr("400 Gbit/s = 50 GB/s (ConnectX-7 datasheet: NDR, 400 Gbit/s)"));
  EXPECT_THAT(dgx, HasSubstr("not seen: network adapters for storage and management"));
  const ScratchFolder folder;
  const std::string sample = picture_of(sample_file(folder));
  EXPECT_THAT(sample, HasSubstr("rate unknown (loopback is no wire)"));
  EXPECT_THAT(sample, HasSubstr("core 2: cpus 2,6, not for this process"));
  EXPECT_THAT(sample, HasSubstr("PCI rate unknown")) << "of the bridge";
  EXPECT_THAT(sample, HasSubstr("memory rate unknown")) << "of node 1";
  EXPECT_THAT(sample, HasSubstr("up without a link"));
}

TEST(MachinePicture, ShowsXgmiLinks_AndWhatWasLeftOutOfTheFile) {
  const std::string svg = picture_of(TOPOLOGY_DATA "/nccl/rccl_6_mi250.xml");
  EXPECT_THAT(svg, HasSubstr("4 XGMI links to gpu:1: 200 GB/s"));
  EXPECT_THAT(svg, HasSubstr("left out: known, but not described here: attribute "));
  EXPECT_THAT(topology({"--from", TOPOLOGY_DATA "/nccl/rccl_6_mi250.xml", "--dot", "-"}).out,
              HasSubstr("\"gpu:0\" -- \"gpu:1\" [label=\"4 XGMI links 200 GB/s\""));
}

TEST(MachinePicture, PutsDevicesIntoTheirNumaNodes) {
  const std::string svg = picture_of("dgx-h100");
  std::map<std::string, Shape> nodes;
  for (const Shape& s : shapes_of(svg, "inner")) {
    if (s.tooltip.starts_with("NUMA node ")) nodes[s.tooltip.substr(0, 11)] = s;
  }
  ASSERT_EQ(nodes.size(), 2U);
  const auto gpus = shapes_of(svg, "gpu");
  ASSERT_EQ(gpus.size(), 8U);
  for (const Shape& gpu : gpus) {
    const bool first = gpu.tooltip.find(", NUMA node 0") != std::string::npos;
    EXPECT_TRUE(holds(nodes[first ? "NUMA node 0" : "NUMA node 1"], gpu)) << gpu.tooltip;
    EXPECT_FALSE(holds(nodes[first ? "NUMA node 1" : "NUMA node 0"], gpu)) << gpu.tooltip;
  }
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(MachineGraph, HasEveryPartOnce_AndEveryLink) {
  for (const char* name :
       {"dgx-h100", TOPOLOGY_DATA "/dgx_h100_nccl.xml", TOPOLOGY_DATA "/nccl/rccl_6_mi250.xml",
        TOPOLOGY_DATA "/nccl/nccl_by_hand.xml", TOPOLOGY_DATA "/nccl/nccl_2.27_broadcom.xml", "epyc-2s"}) {
    SCOPED_TRACE(name);
    const Outcome o = topology({"--from", name, "--dot", "-"});
    ASSERT_EQ(o.exit_code, 0) << o.err;
    const Machine machine = machine_of(name);
    EXPECT_EQ(std::ranges::count(o.out, '{'), std::ranges::count(o.out, '}'));
    EXPECT_EQ(std::ranges::count(o.out, '"') % 2, 0);
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
      EXPECT_EQ(count_of(o.out, "  \"gpu:" + std::to_string(i) + "\" [label="), 1U);
    for (const Nic& nic : machine.nics) EXPECT_EQ(count_of(o.out, "  \"nic:" + nic.name + "\" [label="), 1U);
    const auto drawn =
        std::ranges::count_if(machine.links, [](const Link& l) { return !l.to.starts_with("package:"); });
    EXPECT_GE(count_of(o.out, " -- "), static_cast<std::size_t>(drawn));
    EXPECT_GT(drawn, 0);
  }
}

TEST(MachineGraph, EscapesNames) {
  const ScratchFolder folder;
  Machine machine = sample_machine();
  machine.host_name = "a \"b\" \\ c";
  const std::string file = folder / "machine.json";
  std::ofstream(file) << to_json(machine);
  EXPECT_THAT(topology({"--from", file, "--dot", "-"}).out, StartsWith("graph \"a \\\"b\\\" \\\\ c\" {\n"));
}

TEST(MachinePicture, GoesIntoAFile_BesideTheText) {
  const ScratchFolder folder;
  const Outcome o = topology({"--from", "dgx-h100", "--svg", folder / "a.svg", "--dot", folder / "a.dot"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_THAT(o.out, StartsWith("dgx-h100: "));
  EXPECT_EQ(text_of(folder / "a.svg"), picture_of("dgx-h100"));
  EXPECT_THAT(text_of(folder / "a.dot"), StartsWith("graph \"dgx-h100\" {"));
}

TEST(MachinePicture, EndsWithOneLine_WhenItHasNowhereToGo) {
  const ScratchFolder folder;
  const auto complaint = [](const std::vector<std::string>& arguments, int exit_code = 2) {
    const Outcome o = topology(arguments);
    EXPECT_EQ(o.exit_code, exit_code) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
    return o.err;
  };
  const std::string nowhere = folder / "no/such/folder.svg";
  EXPECT_EQ(complaint({"--svg", nowhere}),
            "sinew-info: --svg: '" + nowhere + "': expected a file that can be written: No such file or directory\n");
  EXPECT_THAT(complaint({"--dot", folder / ""}), HasSubstr("Is a directory"));
  EXPECT_THAT(complaint({"--svg", "-", "--dot", "-"}), HasSubstr("--svg - and --dot -: expected one of them"));
  EXPECT_THAT(complaint({"--svg", "-", "--json"}), HasSubstr("--json and --svg -: expected one of them"));
  EXPECT_THAT(complaint({"--svg", "/dev/full"}, 1), HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace sinew::test

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/described_machine.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <support/log_guard.hpp>

#include "sample_machine.hpp"

namespace sinew {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string complaint_about_machine(const std::string& text) {
  try {
    (void)machine_from_text(text, "given");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(DescribedMachine, IsToldApartByContent) {
  EXPECT_EQ(machine_from_text(" \n" + to_json(test::sample_machine()), "x"), test::sample_machine());
  const Machine nccl = machine_from_text("<?xml version='1.0'?><!-- <topology> --><system version='1'/>", "x/box.xml");
  EXPECT_EQ(nccl.host_name, "box");
  EXPECT_EQ(nccl.system, "NCCL topology");
  EXPECT_EQ(described_machine("dgx-h200").gpus.size(), 8u);
}

TEST(DescribedMachine, SaysWhatItWouldRead_WhenItIsSomethingElse) {
  EXPECT_THAT(complaint_about_machine(""), StartsWith("given: empty; expected sinew's JSON"));
  EXPECT_THAT(complaint_about_machine("hello"), StartsWith("given: neither JSON nor XML; expected "));
  EXPECT_THAT(complaint_about_machine("<algo name='a'/>"), StartsWith("given: XML of a <algo>; expected "));
  EXPECT_THAT(complaint_about_machine("<graphs version='1'/>"),
              StartsWith("given:1: <graphs>: these are rings and trees of NCCL's"));
  EXPECT_THAT(complaint_about_machine("<!-- only"), StartsWith("given: neither JSON nor XML"));
  EXPECT_THAT(complaint_about_machine("{}"), StartsWith("given:1: top level: expected a member"));
}

/// The sample with something that no machine has, as JSON; what is said of it, without the file and the line.
template <class Change>
std::string refusal(Change change) {
  Machine machine = test::sample_machine();
  change(machine);
  const std::string said = complaint_about_machine(to_json(machine));
  EXPECT_TRUE(said.starts_with("given:")) << said;
  return said.substr(said.find(": ") + 2);
}

TEST(DescribedMachine, RefusesWhatNoMachineHas) {
  EXPECT_EQ(refusal([](Machine& m) { m.nics[1].bytes_per_s.value = -5; }),
            "nics[1].bytes_per_s.value: expected 1 to 1e+15 bytes/s, found -5");
  EXPECT_EQ(refusal([](Machine& m) { m.links[0].bytes_per_s.value = 1e308; }),
            "links[0].bytes_per_s.value: expected 1 to 1e+15 bytes/s, found 1e+308");
  EXPECT_EQ(refusal([](Machine& m) { m.links[0].latency_s.value = -1; }),
            "links[0].latency_s.value: expected 0 to 1 s, found -1");
  EXPECT_EQ(refusal([](Machine& m) { m.usable_cores = -1; }), "usable_cores: expected 0 or more, found -1");
  EXPECT_EQ(refusal([](Machine& m) {
              m.cpu_quota = CpuQuota{-1, "cpu.max"};
            }),
            "cpu_quota.cores: expected more than 0, found -1");
  EXPECT_EQ(refusal([](Machine& m) { m.gpus.resize(5000); }), "gpus: expected 4096 at most on one host, found 5000");
}

TEST(DescribedMachine, RefusesPartsThatAreThereTwice) {
  EXPECT_EQ(refusal([](Machine& m) { m.nics.push_back(m.nics[1]); }), "nics[2].name: ib0 is listed twice");
  EXPECT_EQ(refusal([](Machine& m) { m.gpus.push_back(m.gpus[0]); }),
            "gpus[2].pci: 0000:3b:00.0 GPU-257d8671 is listed twice");
  EXPECT_EQ(refusal([](Machine& m) { m.numa_nodes[1].id = 0; }), "numa_nodes[1].id: 0 is listed twice");
}

TEST(DescribedMachine, RefusesPlacesThatAreNotThere) {
  EXPECT_EQ(refusal([](Machine& m) { m.gpus[1].numa_node = 7; }),
            "gpus[1].numa_node: expected the id of one of 2 \"numa_nodes\", or -1, found 7");
  EXPECT_EQ(refusal([](Machine& m) { m.nics[1].numa_node = 7; }),
            "nics[1].numa_node: expected the id of one of 2 \"numa_nodes\", or -1, found 7");
}

/// A terminal would obey them.
TEST(DescribedMachine, RefusesControlCharactersInNames) {
  EXPECT_EQ(refusal([](Machine& m) { m.host_name = "a\033[2Jb"; }),
            "host_name: expected a name without control characters, found byte 27 in it");
}

TEST(DescribedMachine, NamesTheFileOfXmlThatNoMachineHas) {
  EXPECT_THAT(
      complaint_about_machine("<system version='1'><cpu numaid='0' affinity='1' arch='x86_64'><nic><net name='a&#27;b' "
                              "dev='0' speed='100000' port='1' guid='0x1'/></nic></cpu></system>"),
      StartsWith("given: "));
}

/// One warning for a file, however much there is in it, and none for what is known but has no place in a Machine.
TEST(DescribedMachine, WarnsOnceOfWhatIsNotUnderstood) {
  const std::string file = TOPOLOGY_DATA "/nccl/nccl_by_hand.xml";
  test::ExpectLog warning(log::Level::Warning, file + ": not understood, and left out: ");
  const Machine machine = described_machine(file);
  const std::vector<std::string> said = warning.lines();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], AllOf(HasSubstr("attribute slot of <pci> (line 5)"), HasSubstr(" and 1 more; ")));
  for (const char* known : {"nccl_2.30_rails.xml", "rccl_7_mi300x.xml"}) {
    static_cast<void>(described_machine(TOPOLOGY_DATA "/nccl/" + std::string(known)));
  }
  const std::string written = to_json(machine);
  EXPECT_EQ(machine_from_text(written, "again.json"), machine) << "without another warning";
}

TEST(DescribedMachine, WarnsOfMembersThatJsonDoesNotHave) {
  std::string changed = to_json(test::sample_machine());
  const auto insert = [&](std::string_view before, std::string_view text) {
    changed.insert(changed.find(before), text);
  };
  insert("\"host_name\"", "\"colour\": {\"deep\": 1},\n  ");
  insert("\"driver\": \"mlx5_core\"", "\"driver\": \"other\",\n      \"blinks\": true,\n      ");
  test::ExpectLog warning(log::Level::Warning, "box.json: not understood, and left out: ");
  Machine machine = machine_from_text(changed, "box.json");
  ASSERT_EQ(warning.lines().size(), 1u);
  EXPECT_THAT(warning.lines()[0], AllOf(HasSubstr("member colour (line 4)"), HasSubstr("member nics[].blinks (line ")));
  ASSERT_EQ(machine.ignored.size(), 4u) << "its own, which the file has, and three";
  EXPECT_EQ(machine.ignored[1], (Ignored{"box.json", {4}, "member colour", "not understood", false}));
  EXPECT_EQ(machine.ignored[3].what, "member nics[].driver");
  EXPECT_EQ(machine.ignored[3].why, "given twice: the last counts");
  machine.ignored.resize(1);
  EXPECT_EQ(machine, test::sample_machine());
}

TEST(DescribedMachine, ReadsNoMoreThanADescriptionHas) {
  try {
    (void)described_machine("/dev/zero");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/dev/zero: expected a description of one machine, 64 MiB at most; it is longer");
  }
}

TEST(DescribedMachine, ListsTheNames_WhenThereIsNoSuchFileEither) {
  try {
    (void)described_machine("dgx-h10");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'dgx-h10': expected a file that can be read, or one of the machines dgx-a100, dgx-h100, dgx-h200, "
                 "dgx-b200, aws-p5, xeon-2s, epyc-2s");
  }
}

class HwlocXml : public testing::Test {
 protected:
  static const Machine& machine() {
    static const Machine read = described_machine(TOPOLOGY_DATA "/two_sockets_hwloc.xml");
    return read;
  }
};

/// What the file says, counted by hand.
TEST_F(HwlocXml, GivesProcessorsMemoryAndCaches) {
  const Machine& m = machine();
  EXPECT_EQ(m.host_name, "box7");
  EXPECT_EQ(m.system, "Linux 6.1.0");
  EXPECT_EQ(m.architecture, "x86_64");
  ASSERT_EQ(m.packages.size(), 2u);
  EXPECT_EQ(m.packages[1].model, "Model B");
  ASSERT_EQ(m.numa_nodes.size(), 2u);
  EXPECT_EQ(m.numa_nodes[1].memory_bytes, 68719476736u);
  EXPECT_EQ(m.memory_bytes, 2 * 68719476736u);
  ASSERT_EQ(m.cores.size(), 4u);
  EXPECT_EQ(m.cores[1].cpus, (std::vector{1, 5}));
  EXPECT_EQ(m.usable_cores, 4);
  EXPECT_EQ(m.caches.front().bytes, 33554432u);
}

TEST_F(HwlocXml, GivesNicsAndGpusWithTheirPlaces) {
  const Machine& m = machine();
  ASSERT_EQ(m.nics.size(), 2u);
  const auto ib = std::ranges::find(m.nics, "ib0", &Nic::name);
  ASSERT_NE(ib, m.nics.end());
  EXPECT_EQ(ib->kind, NicKind::InfiniBand);
  EXPECT_EQ(ib->rdma, (RdmaPort{"mlx5_0", 1, RdmaState::Active, "fe80:0000:0000:0000:b83f:d203:0018:0000"}));
  EXPECT_EQ(ib->pci, "0000:18:00.0");
  EXPECT_EQ(ib->numa_node, 0);
  EXPECT_FALSE(ib->bytes_per_s.value);
  EXPECT_EQ(m.nics[1].name, "eth0");
  EXPECT_EQ(m.nics[1].kind, NicKind::Ethernet);
  ASSERT_EQ(m.gpus.size(), 1u);
  EXPECT_EQ(m.gpus[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(m.gpus[0].uuid, "GPU-257d8671-d0e6-d1a7-dea9-952249a668fa");
  EXPECT_EQ(m.gpus[0].pci, "0000:1b:00.0");
  EXPECT_EQ(machine_from_json(to_json(m)), m);
}

/// hwloc passes over attributes that it does not know, and says so to nobody.
TEST_F(HwlocXml, ListsWhatIsLeftOut) {
  const auto entry = [](const Machine& m, std::string_view what) {
    const auto found = std::ranges::find(m.ignored, what, &Ignored::what);
    return found == m.ignored.end() ? Ignored{} : *found;
  };
  const std::string file = TOPOLOGY_DATA "/two_sockets_hwloc.xml";
  EXPECT_THAT(machine().ignored, testing::Each(testing::Field(&Ignored::known, true)));
  EXPECT_EQ(entry(machine(), "<page_type>"),
            (Ignored{file, {16, 62}, "<page_type>", "how much of the memory has pages of which size", true}));
  EXPECT_EQ(entry(machine(), "info NodeGUID of <OSDev>").lines, std::vector{38});

  std::ifstream in(file);
  std::string text(std::istreambuf_iterator<char>(in), {});
  const auto replace = [&](std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("<object type=\"Core\" ", "<object type=\"Core\" smell=\"none\" ");
  replace("<object type=\"Bridge\" gp_index=\"30\"",
          "<object type=\"Misc\" gp_index=\"90\" name=\"a note\"/>\n<object type=\"Bridge\" gp_index=\"30\"");
  test::ExpectLog warning(log::Level::Warning, "box.xml: not understood, and left out: ");
  const Machine other = machine_from_text(text, "box.xml");
  ASSERT_EQ(warning.lines().size(), 1u);
  EXPECT_THAT(warning.lines()[0], HasSubstr(": attribute smell of <object> (line 19); "));
  EXPECT_EQ(entry(other, "<object type=\"Misc\">").lines, std::vector{28});
  EXPECT_FALSE(entry(other, "attribute smell of <object>").known);
}

TEST_F(HwlocXml, NamesTheFile_WhenItIsNotRead) {
  EXPECT_THAT(complaint_about_machine("<topology version=\"2.0\"/>"),
              testing::AllOf(StartsWith("given: hwloc "), HasSubstr(" does not read it: ")));
  EXPECT_THAT(complaint_about_machine("<topology version=\"2.0\">"), StartsWith("given:1: not XML: "));
}

/// hwloc ends the process, or takes a gigabyte and a minute.
TEST_F(HwlocXml, NamesTheLine_OfWhatHwlocCannotBear) {
  const std::string sets = R"(cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1")";
  const auto said_of = [](const std::string& object) {
    return complaint_about_machine("<topology version=\"2.0\">\n" + object + "</topology>");
  };
  EXPECT_THAT(said_of("<object type=\"PU\" " + sets + "/>"),
              StartsWith("given:2: <object>: expected an attribute os_index"));
  EXPECT_THAT(said_of("<object type=\"PU\" os_index=\"4294967295\" " + sets + "/>"), HasSubstr("from 0 to 1048576"));
  EXPECT_THAT(said_of(R"(<object type="Core" cpuset="0x1"/>)"), HasSubstr("expected an attribute complete_cpuset"));
  EXPECT_THAT(said_of(R"(<object type="Core" cpuset=",x1"/>)"), HasSubstr("expected a set such as 0x0000000f"));
  std::string deep;
  for (int level = 0; level < 100; ++level) deep.insert(0, "<object type=\"Misc\">").append("</object>");
  EXPECT_THAT(said_of(deep), HasSubstr("nested deeper than 64 levels"));
}

}  // namespace
}  // namespace sinew

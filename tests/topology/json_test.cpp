#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/discover.hpp>
#include <sinew/topology/format/json/json.hpp>

#include "sample_machine.hpp"

namespace sinew {
namespace {

using test::sample_machine;

std::string message_of(std::string_view text) {
  try {
    (void)machine_from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no error";
}

/// The sample's JSON with one occurrence of `from` replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text = to_json(sample_machine(), -1);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TopologyJson, ComesBackEqual) {
  const Machine sample = sample_machine();
  EXPECT_EQ(machine_from_json(to_json(sample)), sample);
  EXPECT_EQ(machine_from_json(to_json(sample, -1)), sample);
  const Machine here = discover(Config{});
  EXPECT_EQ(machine_from_json(to_json(here)), here);
}

/// As an older sinew wrote it.
TEST(TopologyJson, ReadsWhatHasNotYetTheNewerFields) {
  Machine sample = sample_machine();
  std::string text = to_json(sample, -1);
  const auto cut = [&](std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.erase(at, text.find(to, at) - at);
  };
  text = text.substr(0, text.find(R"(,"ignored":)")) + "}";  // it is the last
  for (int gpu = 0; gpu < 2; ++gpu) cut(R"(,"xgmi_links":)", "}");
  sample.ignored.clear();
  for (Gpu& gpu : sample.gpus) {
    gpu.xgmi_links = -1;
    gpu.architecture.clear();
  }
  EXPECT_EQ(machine_from_json(text), sample);
}

TEST(TopologyJson, KeepsACpuQuota_AndBearsItsAbsence) {
  Machine limited = sample_machine();
  limited.cpu_quota = CpuQuota{1.5, "/sys/fs/cgroup/cpu.max"};
  const std::string text = to_json(limited, -1);
  EXPECT_THAT(text, testing::HasSubstr(R"("cpu_quota":{"cores":1.5,"where":"/sys/fs/cgroup/cpu.max"})"));
  EXPECT_EQ(machine_from_json(text), limited);
  EXPECT_EQ(machine_from_json(edited(R"("cpu_quota":null,)", "")), sample_machine()) << "as older versions wrote it";
  EXPECT_EQ(message_of(edited(R"("cpu_quota":null)", R"("cpu_quota":2)")), "cpu_quota: expected an object, found 2");
  EXPECT_EQ(message_of(edited(R"("cpu_quota":null)", R"("cpu_quota":{"cores":2})")),
            "cpu_quota: expected a member \"where\"");
}

TEST(TopologyJson, NamesUnknownFiguresNull) {
  EXPECT_THAT(to_json(sample_machine(), -1), testing::HasSubstr(R"({"value":null,"source":"loopback is no wire"})"));
}

TEST(TopologyJson, SaysWhereItIsWrong) {
  EXPECT_THAT(message_of("{\"format\": "), testing::StartsWith("not JSON: line 1, column 12"));
  EXPECT_EQ(message_of("{\"format\": 1e999}"), "not JSON that can be held: number overflow parsing '1e999'");
  EXPECT_EQ(message_of("[]"), "top level: expected an object, found array");
  EXPECT_EQ(message_of("{}"), "top level: expected a member \"format\"");
  EXPECT_EQ(message_of(R"({"format":"sinew machine 2"})"),
            "format: expected \"sinew machine 3\", found \"sinew machine 2\"");
  EXPECT_EQ(message_of(edited(R"("usable_cores":4)", R"("usable_cores":"4")")),
            "usable_cores: expected an integer from -2147483648 to 2147483647, found \"4\"");
  EXPECT_EQ(message_of(edited(R"("memory_bytes":)", R"("memory_bytes":-)")).substr(0, 12), "memory_bytes");
  EXPECT_EQ(message_of(edited(R"("vendor_id":4318)", R"("vendor_id":70000)")),
            "pci_devices[1].vendor_id: expected an integer from 0 to 65535, found 70000");
  EXPECT_EQ(message_of(edited(R"("kind":"InfiniBand")", R"("kind":"Infiniband")")),
            "nics[1].kind: expected one of Ethernet InfiniBand RoCE other, found \"Infiniband\"");
  EXPECT_EQ(message_of(edited(R"({"value":null)", R"({"value":true)")),
            "nics[0].bytes_per_s.value: expected a number or null, found true");
  EXPECT_EQ(message_of(edited(R"("loopback":true)", R"("loopback":1)")),
            "nics[0].loopback: expected true or false, found 1");
  EXPECT_EQ(message_of(edited(R"("unseen":[)", R"("unseenn":[)")), "top level: expected a member \"unseen\"");
  EXPECT_EQ(message_of(edited(R"("gpus":[{)", R"("gpus":[3,{)")), "gpus[0]: expected an object, found 3");
}

TEST(TopologyJson, RejectsWhatLeadsNowhere) {
  EXPECT_EQ(message_of(edited(R"("model":"Model A","cores":[0,1])", R"("model":"Model A","cores":[0,4])")),
            "packages[0].cores[1]: expected an index of \"cores\", which has 4, found 4");
  EXPECT_EQ(message_of(edited(R"("cores":[0]}])", R"("cores":[-1]}])")),
            "caches[2].cores[0]: expected an index of \"cores\", which has 4, found -1");
  EXPECT_EQ(message_of(edited(R"("parent":"0000:3a:00.0")", R"("parent":"0000:3f:00.0")")),
            "pci_devices[1].parent: expected the address of a device of \"pci_devices\", found \"0000:3f:00.0\"");
  EXPECT_EQ(message_of(edited(R"("parent":"")", R"("parent":"0000:3b:00.0")")),
            "pci_devices[0].parent: the bridges above 0000:3a:00.0 go round");
  EXPECT_EQ(message_of(edited(R"("address":"0000:3a:00.0")", R"("address":"0000:3b:00.0")")),
            "pci_devices[1].address: \"0000:3b:00.0\" is listed twice");
  EXPECT_EQ(message_of(edited(R"("from":"gpu:0")", R"("from":"gpu:2")")),
            "links[2].from: expected one of 2 GPUs and 1 NVSwitches, found \"gpu:2\"");
  EXPECT_EQ(message_of(edited(R"("to":"nvswitch:0")", R"("to":"nvswitch:x")")),
            "links[2].to: expected one of 2 GPUs and 1 NVSwitches, found \"nvswitch:x\"");
  EXPECT_EQ(message_of(edited(R"("width":18)", R"("width":0)")), "links[2].width: expected 1 to 1024, found 0");
  EXPECT_EQ(message_of(edited(R"("mig":"off")", R"("mig":"half")")),
            "gpus[0].mig: expected one of unknown off on, found \"half\"");
  EXPECT_EQ(message_of(edited(R"("from":0,"to":1)", R"("from":0,"to":2)")),
            "gpu_peers[0].to: expected an index of \"gpus\", which has 2, found 2");
  EXPECT_EQ(message_of(edited(R"("from":0,"to":1)", R"("from":0,"to":0)")),
            "gpu_peers[0].to: expected another GPU than gpu_peers[0].from, found 0");
  EXPECT_EQ(message_of(edited(R"("from":0,"to":1)", R"("from":1,"to":0)")), "gpu_peers[1]: GPU 1 to 0 is listed twice");
  EXPECT_EQ(message_of(edited(R"("read":"ok")", R"("read":"OK")")),
            "gpu_peers[0].read: expected one of unknown ok chipset_not_supported gpu_not_supported "
            "topology_not_supported disabled not_supported, found \"OK\"");
}

TEST(TopologyJson, NamesFileAndLine_WhenReadFromAFile) {
  const std::string good = to_json(sample_machine());
  const auto complaint = [](const std::string& text) -> std::string {
    try {
      (void)machine_from_json(text, "box.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  /// Line, from 1, of the `nth` place that has `what`.
  const auto line_of = [&](std::string_view what, int nth) {
    std::size_t at = good.find(what);
    for (; nth > 1; --nth) at = good.find(what, at + 1);
    EXPECT_NE(at, std::string::npos) << what;
    return std::to_string(1 + std::count(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  };
  const auto broken = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(complaint(good), "no error");
  EXPECT_EQ(complaint(broken("\"state\": \"armed\"", "\"state\": 7")),
            "box.json:" + line_of("\"state\"", 2) +
                ": nics[1].rdma.state: expected one of unknown down init armed active, found 7");
  EXPECT_EQ(complaint(broken("\"width\": 18", "\"width\": 0")),
            "box.json:" + line_of("\"width\"", 3) + ": links[2].width: expected 1 to 1024, found 0");
  std::string negative = good;  // the last of a list of numbers, one per line
  const std::size_t last = negative.find("7\n");
  negative.replace(last, 1, "\"7\"");
  EXPECT_EQ(complaint(negative), "box.json:" + line_of("7\n", 1) +
                                     ": cores[3].cpus[1]: expected an integer from -2147483648 to 2147483647, found "
                                     "\"7\"");
  EXPECT_EQ(complaint(broken("\"unseen\"", "\"unsaid\"")), "box.json:1: top level: expected a member \"unseen\"");
  EXPECT_EQ(complaint(broken("\"pci\": \"0000:07:00.0\"", "\"pcie\": 1")),
            "box.json:" + line_of("{\n      \"pci\": \"0000:07", 1) + ": nvswitches[0]: expected a member \"pci\"");
  EXPECT_THAT(complaint("{\n\n  \"format\": ,"), testing::StartsWith("box.json: not JSON: line 3, column 13"));
}

}  // namespace
}  // namespace sinew

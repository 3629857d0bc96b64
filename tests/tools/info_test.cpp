#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/version.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Outcome info(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), SINEW_INFO);
  return run_program(arguments, environment);
}

TEST(SinewInfo, ShowsTheTopology_WithAndWithoutTheCommand) {
  const Outcome bare = info({});
  EXPECT_EQ(bare.exit_code, 0);
  EXPECT_EQ(bare.err, "");
  EXPECT_THAT(bare.out, HasSubstr("├─ identity: "));
  EXPECT_EQ(info({"topology"}).out, bare.out);
}

TEST(SinewInfo, PrintsTopologyAsJsonThatCanBeRead) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"topology", "--json"}, {"--json"}}) {
    const Outcome outcome = info(arguments, {"SINEW_HOST_ID=box"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(machine_from_json(outcome.out).identity, "box");
  }
}

TEST(SinewInfo, ShowsAnotherMachine_ByNameOrFile) {
  const Outcome named = info({"topology", "--from", "dgx-h100"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, StartsWith("dgx-h100: "));
  EXPECT_THAT(named.out, HasSubstr("├─ GPU 7: NVIDIA H100 80GB HBM3 at 0000:df:00.0, NUMA node 1, 80 GiB, 18 NVLinks"));
  EXPECT_THAT(named.out, HasSubstr("18 NVLinks to 4 NVSwitches: 450 GB/s (H100 datasheet"));
  EXPECT_THAT(named.out, HasSubstr("NV#: so many NVLinks; PIX: at most one PCI switch"));
  const Outcome file = info({"topology", "--json", "--from", TOPOLOGY_DATA "/dgx_h100_nccl.xml"});
  EXPECT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(machine_from_json(file.out).gpus.size(), 8u);
}

TEST(SinewInfo, ShowsXgmiLinks_OfRcclsFile) {
  const Outcome text = info({"topology", "--from", TOPOLOGY_DATA "/nccl/rccl_7_mi300x.xml"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.err, "") << "everything in it is known";
  EXPECT_THAT(text.out, HasSubstr("GPU 0: unnamed at 0000:05:00.0, gfx942, NUMA node 0, 3 XGMI links"));
  EXPECT_THAT(text.out, HasSubstr("1 XGMI link to gpu:1: 64 GB/s (MI300X datasheet"));
  EXPECT_THAT(text.out, HasSubstr("XGMI#: so many XGMI links"));
  EXPECT_THAT(text.out, HasSubstr("known, but not described here: attribute "));
}

/// One warning for people; in the JSON every place, for scripts.
TEST(SinewInfo, NamesWhatItDoesNotUnderstand_InAFile) {
  const std::string file = TOPOLOGY_DATA "/nccl/nccl_by_hand.xml";
  const Outcome text = info({"topology", "--from", file});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(std::ranges::count(text.err, '\n'), 1) << text.err;
  EXPECT_THAT(text.err, HasSubstr("warning: " + file + ": not understood, and left out: "));
  EXPECT_THAT(text.err, HasSubstr("<retimer> in <pci> (line 16)"));
  EXPECT_THAT(text.out, HasSubstr("attribute slot of <pci>, line 5 of " + file + ": not understood"));
  const Outcome json = info({"topology", "--json", "--from", file});
  const Machine machine = machine_from_json(json.out);
  const auto switches = std::ranges::find(machine.ignored, "<switch> in <system>", &Ignored::what);
  ASSERT_NE(switches, machine.ignored.end());
  EXPECT_EQ(*switches, (Ignored{file, {27}, "<switch> in <system>", "not understood", false}));
}

TEST(SinewInfo, SaysThatAFileOfGraphsIsNoMachine) {
  const Outcome o = info({"topology", "--from", TOPOLOGY_DATA "/nccl/nccl_graphs.xml"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("nccl_graphs.xml:1: <graphs>: these are rings and trees of NCCL's"));
}

TEST(SinewInfo, ShowsConfigurationInEffect) {
  const Outcome text = info({"config"}, {"SINEW_TIMEOUT=30s"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, testing::ContainsRegex("SINEW_TIMEOUT +30s +set"));
  EXPECT_THAT(info({"config", "--json"}, {"SINEW_TIMEOUT=30s"}).out, HasSubstr("\"value\": \"30s\""));
}

TEST(SinewInfo, WithinALauncherThatItCannotUse_NeedsSinewAloneForAWorldOnly) {
  std::vector<std::string> launcher = {"FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=4", "FLUX_JOB_NNODES=2"};
  EXPECT_EQ(info({"config"}, launcher).exit_code, 0);
  EXPECT_EQ(info({"topology", "--from", "dgx-h100"}, launcher).exit_code, 0);
  const Outcome world = info({"transports"}, launcher);
  EXPECT_EQ(world.exit_code, 1);
  EXPECT_EQ(world.out, "");
  EXPECT_THAT(world.err, StartsWith("sinew-info: FLUX_JOB_SIZE=4: flux run has started this process as rank 1 of 4"));
  launcher.emplace_back("SINEW_ALONE=1");
  const Outcome alone = info({"transports"}, launcher);
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("inproc"));
}

TEST(SinewInfo, EndsWithTwoAndOneLine_WhenInputIsBad) {
  const auto complaint = [](const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment = {}) {
    const Outcome outcome = info(arguments, environment);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(complaint({"topologie"}), StartsWith("sinew-info: topologie: expected one of topology, "));
  EXPECT_EQ(
      complaint({"topology", "--from", "dgx-9"}),
      "sinew-info: 'dgx-9': expected a file that can be read, or one of the machines dgx-a100, dgx-h100, dgx-h200, "
      "dgx-b200, aws-p5, xeon-2s, epyc-2s\n");
  const std::string broken = testing::TempDir() + "sinew-broken-hwloc.xml";
  std::ofstream(broken) << "<topology version=\"2.0\"><object type=\"Nonsense\">\n</topology>\n";
  EXPECT_THAT(complaint({"topology", "--from", broken}), StartsWith("sinew-info: " + broken + ":2: not XML: "));
  std::ofstream(broken) << "<system version=\"1\">\n<cpu/></system>\n";
  EXPECT_EQ(complaint({"topology", "--from", broken}),
            "sinew-info: " + broken + ":2: <cpu>: expected an attribute numaid\n");
  EXPECT_THAT(complaint({"topology", "--from", SINEW_INFO}),
              HasSubstr(": neither JSON nor XML; expected sinew's JSON"));
  EXPECT_THAT(complaint({"trace"}), HasSubstr("folder"));
  EXPECT_EQ(complaint({"config", "more"}), "sinew-info: more: expected nothing more\n");
  EXPECT_EQ(complaint({"config", "--jason"}), "sinew-info: --jason: no such option; --help lists them\n");
  EXPECT_THAT(complaint({"plan", "foo", "8"}), HasSubstr("'foo': expected a collective, one of all_reduce, "));
  EXPECT_THAT(complaint({"plan", "foo", "8"}), HasSubstr(", sendrecv\n"));
  EXPECT_EQ(complaint({"plan", "all_reduce"}), "sinew-info: all_reduce: expected BYTES, such as 64MiB\n");
  EXPECT_EQ(complaint({"plan", "barrier", "8"}), "sinew-info: barrier 8: expected no BYTES\n");
  EXPECT_THAT(complaint({"plan", "all_reduce", "8", "--dtype", "f33"}),
              HasSubstr("'f33': expected a type, one of bool, i8, "));
  EXPECT_THAT(complaint({"plan", "all_reduce", "8", "--determinism", "much"}),
              HasSubstr("'much': expected fast, reproducible or layout_invariant"));
  EXPECT_EQ(complaint({"plan", "all_to_all", "6", "-n", "3"}),
            "sinew-info: all_to_all of 6: expected 12B at least, an element for each of 3 ranks\n");
  EXPECT_THAT(complaint({"plan", "all_reduce", "8", "--op", "band"}), HasSubstr("--op: band is not defined for f32"));
  EXPECT_THAT(complaint({"plan", "broadcast", "8", "--codec", "int8"}), HasSubstr("--codec: broadcast is not coded"));
  EXPECT_THAT(complaint({"plan", "all_reduce", "8", "--op", "nix"}), HasSubstr("expected an operator, one of sum, "));
  for (const char* ranks : {"0", "-1", "1025", "99999999999", "99999999999999999999999"}) {
    EXPECT_THAT(complaint({"plan", "all_reduce", "8", "-n", ranks}), HasSubstr("expected a whole number, 1 to 1024"))
        << ranks;
  }
  EXPECT_EQ(complaint({"plan", "all_reduce", "8"}, {"SINEW_TIMEOUT=5x"}),
            "sinew-info: SINEW_TIMEOUT=5x: expected a duration above 0 with a unit, such as 30s or 5min (this host: " +
                host_name() + ")\n");
  EXPECT_THAT(complaint({"plan", "all_gather", "1MiB", "--op", "max"}),
              HasSubstr("--op: max: expected none, as all_gather combines nothing"));
  EXPECT_EQ(complaint({"config"}, {"SINEW_TIMEOUT=5x"}),
            "sinew-info: SINEW_TIMEOUT=5x: expected a duration above 0 with a unit, such as 30s or 5min (this host: " +
                host_name() + ")\n");
  EXPECT_THAT(complaint({"config"}, {"SINEW_TIMEOUT=0s"}), HasSubstr("expected a duration above 0"));
  EXPECT_THAT(complaint({}, {"SINEW_NONSENSE=1"}),
              StartsWith("sinew-info: SINEW_NONSENSE: no such variable; known are "));
  for (const char* command : {"config", "doctor"}) {
    EXPECT_THAT(complaint({command}, {"SINEW_START_TREE=foo"}),
                StartsWith("sinew-info: SINEW_START_TREE=foo: expected "));
    EXPECT_THAT(complaint({command}, {"SINEW_ELASTIC=9:1"}), StartsWith("sinew-info: SINEW_ELASTIC=9:1: expected "));
  }
  EXPECT_EQ(complaint({"topology", "--from", ""}), "sinew-info: --from: expected a value, found none\n");
  EXPECT_EQ(complaint({"topology", "--svg", ""}), "sinew-info: --svg: expected a value, found none\n");
}

TEST(SinewInfo, ListsTheOptionJson_InTheHelpOfEachCommand) {
  for (const char* command : {"topology", "transports", "plan", "config", "doctor", "hang", "trace"}) {
    const Outcome help = info({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, testing::ContainsRegex("\n +--json +Print JSON instead of text")) << command;
  }
  EXPECT_THAT(info({"--json", "config"}).out, StartsWith("["));
}

TEST(SinewInfo, PlansForRanksThatItStarts_AsJsonThatCanBeRead) {
  for (const char* what : {"all_reduce", "send", "sendrecv"}) {
    const Outcome outcome = info({"plan", what, "64KiB", "-n", "2", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, StartsWith("{\"")) << what;
    EXPECT_THAT(outcome.out, HasSubstr(what == std::string("all_reduce") ? "\"shm\"" : "\"message\"")) << outcome.out;
  }
}

TEST(SinewInfo, PlansForALevelOfDeterminism) {
  const Outcome outcome = info({"plan", "all_reduce", "64KiB", "-n", "3", "--determinism", "reproducible"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(", reproducible)"));
  EXPECT_THAT(outcome.out, HasSubstr("adds in an order of its own, not by the canonical tree"));
}

TEST(SinewInfo, PlansABarrier_WhichHasNoBytes) {
  const Outcome outcome = info({"plan", "barrier", "-n", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("barrier"));
}

TEST(SinewInfo, ListsEveryTransport_WithWhatItIsGoodForOrWhyNot) {
  const std::string text = info({"transports"}).out;
  for (const char* name : {"inproc", "shm", "tcp", "ucx", "ofi", "cuda_ipc", "nccl"}) {
    EXPECT_THAT(text, testing::ContainsRegex(std::string(name) + " +(ok|no) +[a-z]")) << text;
  }
}

TEST(SinewInfo, SaysWhichNicIsNearest_AndThatOfiTookIt) {
  const Outcome outcome = run_program({SINEW_INFO, "transports"}, {"SINEW_TRANSPORTS=ofi", "SINEW_INTERFACE=wire9,lo"});
  if (outcome.out.find("ofi        ok") == std::string::npos) GTEST_SKIP() << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("ofi +ok +messages over tcp;ofi_rxm on lo: .*the nearest NIC .the only"));
  EXPECT_THAT(outcome.out, HasSubstr(": NIC lo of rank 0: the only choice\n"));
}

TEST(SinewInfo, SaysWhyUcxCarriesNoDeviceMemory) {
  const Outcome outcome = run_program({SINEW_INFO, "transports"}, {"SINEW_TRANSPORTS=ucx"});
  if (outcome.out.find("ucx        ok") == std::string::npos) GTEST_SKIP() << outcome.out << outcome.err;
  if (outcome.out.find("device memory") == std::string::npos) GTEST_SKIP() << "this UCX carries it";
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("ucx +ok +messages; .*device memory through the host: (UCX|this rank)"));
}

TEST(SinewInfo, EndsWithOneAndOneLine_WhenWhatItPrintedIsLost) {
  for (const char* arguments : {" --json >/dev/full", " config >/dev/full", " config >&-", " --version >/dev/full"}) {
    const Outcome outcome = run_program({"sh", "-c", SINEW_INFO + std::string(arguments)});
    EXPECT_EQ(outcome.exit_code, 1) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("sinew-info: standard output: ")) << arguments;
  }
  const Outcome no_reader = run_program({"sh", "-c", SINEW_INFO + std::string(" config | head -1")});
  EXPECT_EQ(no_reader.err, "");
}

TEST(SinewInfo, TeachesAndNamesItsVersion) {
  EXPECT_THAT(info({"--help"}).out, HasSubstr("Examples:"));
  EXPECT_THAT(info({"--version"}).out, StartsWith("sinew " + std::string(version()) + "\n"));
}

}  // namespace
}  // namespace sinew::test

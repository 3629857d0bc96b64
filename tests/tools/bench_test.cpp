#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

#include "bench_job.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(SinewBench, EndsWithTwoAndOneLine_WhenInputIsBad) {
  const auto complaint = [](const Words& arguments) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(complaint({"gather_up"}), HasSubstr("'gather_up': expected one of all_reduce, all_gather, "));
  EXPECT_THAT(complaint({}), HasSubstr("expected what to measure, one of all_reduce"));
  EXPECT_THAT(complaint({"all_reduce", "-d", "f33"}), HasSubstr("'f33': expected all, or one of bool, i8, "));
  EXPECT_THAT(complaint({"all_reduce", "-o", "nix"}), HasSubstr("'nix': expected all, or one of sum, "));
  EXPECT_THAT(complaint({"all_reduce", "--determinism", "much"}),
              HasSubstr("'much': expected fast, reproducible or layout_invariant"));
  EXPECT_THAT(complaint({"all_reduce", "-b", "9x"}), HasSubstr("'9x': expected a size in bytes such as 8, 4KiB"));
  EXPECT_THAT(complaint({"latency", "-e", "18446744073709551615"}), HasSubstr("64TiB at most"));
  EXPECT_THAT(complaint({"all_reduce", "-b", "64", "-e", "8"}),
              HasSubstr("-e: 8B: expected at least -b, which is 64B"));
  EXPECT_THAT(complaint({"all_reduce", "-f", "1"}), HasSubstr("'1': expected a whole number, 2 or more"));
  EXPECT_THAT(complaint({"all_reduce", "-n", "many"}), HasSubstr("'many': expected a whole number, 0 or more"));
  for (const char* much : {"9999999999", "99999999999999999999999"}) {
    EXPECT_THAT(complaint({"all_reduce", "-n", much}), HasSubstr("expected a whole number, 999999999 at most"));
  }
  EXPECT_THAT(complaint({"all_reduce", "-c", "2"}), HasSubstr("'2': expected 0 or 1"));
  for (const char* batch : {"0s", "7", "-1ms"}) {
    EXPECT_THAT(complaint({"all_reduce", "--batch", batch}), HasSubstr("expected a duration above 0 such as 200us"));
  }
  EXPECT_THAT(complaint({"all_reduce", "--transport", "tcp,shmem"}),
              HasSubstr("--transport: 'shmem': expected some of inproc, shm, tcp, "));
  EXPECT_THAT(complaint({"all_reduce", "--algorithm", "nope"}), HasSubstr("'nope': expected bidirectional_ring, "));
  EXPECT_THAT(complaint({"all_gather", "-o", "max"}),
              HasSubstr("--op: max: expected none, as all_gather combines nothing"));
  EXPECT_THAT(complaint({"all_reduce", "-o", "band"}), HasSubstr("band is not defined for f32"));
  EXPECT_THAT(complaint({"all_reduce", "--codec", "fp4"}),
              HasSubstr("'fp4': expected none, bf16, f16, int8 or f8e4m3"));
  EXPECT_THAT(complaint({"broadcast", "--codec", "int8"}), HasSubstr("--codec: broadcast is not coded"));
  EXPECT_THAT(complaint({"all_reduce", "--codec", "int8", "-d", "i32"}), HasSubstr("sum of i32: expected f32 and sum"));
  EXPECT_THAT(complaint({"all_reduce", "--codec", "bf16", "-o", "max"}), HasSubstr("max of f32: expected f32 and sum"));
  EXPECT_THAT(complaint({"barrier", "--device"}), HasSubstr("--device: barrier has no buffers"));
  EXPECT_THAT(complaint({"all_reduce", "--device", "--peer", "mpi"}), HasSubstr("--device: expected no --peer"));
  EXPECT_THAT(complaint({"broadcast", "--in-place"}), HasSubstr("broadcast has no input beside its output"));
  EXPECT_THAT(complaint({"latency"}), HasSubstr("latency: expected at least 2 ranks, found 1"));
  EXPECT_THAT(complaint({"all_reduce", "--peer", "mpi"}),
              HasSubstr("expected ranks that mpirun of Open MPI or MPICH has started"));
  EXPECT_THAT(complaint({"all_reduce", "--peer", "/nowhere"}), HasSubstr("'/nowhere': expected mpi, or the folder of"));
  EXPECT_THAT(complaint({"all_reduce", "--peer", "/"}),
              HasSubstr("--peer /: there is no /include/mpi.h or /include/mpi/mpi.h; expected the prefix of an MPI"));
  EXPECT_THAT(complaint({"all_reduce", "--json", "/nowhere/file"}), HasSubstr("expected a file that can be written"));
  EXPECT_THAT(complaint({"all_reduce", "--json", ""}), HasSubstr("--json: expected a value, found none"));
  EXPECT_THAT(complaint({"all_reduce", "--output", "file"}), HasSubstr("--output: expected tune"));
  EXPECT_THAT(complaint({"all_reduce", "--nix"}), HasSubstr("--nix: no such option"));
  EXPECT_THAT(complaint({"tune"}), HasSubstr("tune: expected at least 2 ranks, found 1"));
  EXPECT_THAT(complaint({"tune", "--registered"}), HasSubstr("--registered: tune has no such option: expected -b, -e"));
}

/// On a fake driver, whose devices are memory of the host.
TEST(SinewBench, MeasuresDeviceMemory) {
  const Words environment{"LD_LIBRARY_PATH=" FAKE_CUDA};
  const Words sizes{"--device", "-b", "4KiB", "-e", "64KiB", "-f", "16", "-n", "3"};
  for (const std::string what : {"all_gather", "all_reduce", "all_to_allv", "latency"}) {
    Words arguments{what};
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    const bool by_devices = what == "all_gather";  // which needs no kernels: there may be none in this build
    if (by_devices) arguments.insert(arguments.end(), {"--algorithm", "cuda_ipc"});
    const Job job = job_of({SINEW_RUN, "-n", "2"}, arguments, environment);
    ASSERT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
    ASSERT_EQ(job.lines.size(), 2U) << job.outcome.out;
    for (const json& line : job.lines) {
      EXPECT_EQ(line["wrong"], 0) << line;
      EXPECT_EQ(line["device"], true) << line;
      EXPECT_TRUE(!by_devices || line["transport"] == "cuda_ipc") << line;
    }
  }
  const Job known = job_of({SINEW_RUN, "-n", "2"}, {"all_reduce", "--device", "--registered", "-e", "8"}, environment);
  ASSERT_EQ(known.outcome.exit_code, 0) << known.outcome.err;
  EXPECT_EQ(known.lines.at(0)["wrong"], 0) << known.lines.at(0);
}

/// A driver of GPUs that are memory of the host, and what it says of their NVLinks.
Words with_fake_gpus(const std::string& cache) {
  return {"LD_LIBRARY_PATH=" FAKE_CUDA ":" FAKE_NVML, "FAKE_NVML=dgx-h100", "SINEW_CACHE=" + cache};
}

TEST(SinewBench, TellsLaterJobsWhatCallsOnDevicesTook) {
  const ScratchFolder folder;
  const Words environment = with_fake_gpus(folder / "costs.json");
  const Words plan{SINEW_RUN, "--no-prefix", "-n", "2", SINEW_INFO, "plan", "all_gather", "64KiB", "--device"};
  const Outcome before = run_program(plan, environment);
  ASSERT_EQ(before.exit_code, 0) << before.err;
  EXPECT_THAT(before.out, testing::ContainsRegex("cuda_ipc over cuda_ipc +[0-9.]+ us +catalog"));
  const Job job =
      job_of({SINEW_RUN, "-n", "2"},
             {"all_gather", "--device", "-b", "64KiB", "-e", "64KiB", "--algorithm", "cuda_ipc"}, environment);
  ASSERT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
  const Outcome after = run_program(plan, environment);
  ASSERT_EQ(after.exit_code, 0) << after.err;
  EXPECT_THAT(after.out,
              testing::ContainsRegex("cuda_ipc over cuda_ipc +[0-9.]+ us +measured +.*as earlier jobs saw it"));
  EXPECT_THAT(after.out, HasSubstr("calls of earlier jobs on such devices"));
  Words on_host = plan;
  on_host.pop_back();
  EXPECT_THAT(run_program(on_host, environment).out, Not(HasSubstr("as earlier jobs saw it")));
}

TEST(SinewBench, TunesDeviceMemory_ForCallsOnSuchDevices_BesideThatOfHosts) {
  const ScratchFolder folder;
  Words environment = with_fake_gpus(folder / "costs.json");
  const std::string file = folder / "tuned.json";
  const Words tune{SINEW_RUN, "-n", "2",     SINEW_BENCH, "tune", "--device", "cuda", "-b",
                   "64KiB",   "-e", "64KiB", "-n",        "3",    "--output", file};
  const Outcome tuned = run_program(tune, environment);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  std::ifstream stream(file);
  const json found = json::parse(stream);
  std::set<std::string> algorithms;
  for (const json& way : found.at("ways")) {
    EXPECT_THAT(way.at("devices").get<std::string>(), HasSubstr("18 NVLinks 4 by NVSwitch")) << way;
    algorithms.insert(way.at("algorithm"));
  }
  EXPECT_THAT(algorithms, testing::IsSupersetOf({"cuda_ipc", "staged"}));
  environment.push_back("SINEW_TUNE_FILE=" + file);
  const Words plan{SINEW_RUN, "--no-prefix", "-n", "2", SINEW_INFO, "plan", "all_gather", "64KiB"};
  Words on_device = plan;
  on_device.emplace_back("--device");
  EXPECT_THAT(run_program(on_device, environment).out,
              testing::ContainsRegex("cuda_ipc over cuda_ipc +[0-9.]+ (us|ms) +tuned file"));
  EXPECT_THAT(run_program(plan, environment).out, Not(HasSubstr("tuned file"))) << "the host was not tuned";
  const Words tune_host{SINEW_RUN, "-n", "2",     SINEW_BENCH, "tune", "--transport", "tcp", "-b",
                        "64KiB",   "-e", "64KiB", "-n",        "3",    "--output",    file};
  ASSERT_EQ(run_program(tune_host, environment).exit_code, 0);
  EXPECT_THAT(run_program(plan, environment).out, HasSubstr("tuned file"));
  EXPECT_THAT(run_program(on_device, environment).out,
              testing::ContainsRegex("cuda_ipc over cuda_ipc +[0-9.]+ (us|ms) +tuned file"));
}

TEST(SinewBench, SaysWhatAnAlgorithmOfDevicesNeeds) {
  const auto complaint = [](const Words& arguments) {
    const Job job = job_of({SINEW_RUN, "-n", "2"}, arguments, {"LD_LIBRARY_PATH=" FAKE_CUDA});
    EXPECT_EQ(job.outcome.exit_code, 2);
    return job.outcome.err;
  };
  EXPECT_THAT(complaint({"all_reduce", "--algorithm", "cuda_ipc"}), HasSubstr("'cuda_ipc': expected --device"));
  EXPECT_THAT(complaint({"gather", "--device", "--algorithm", "cuda_ipc"}), HasSubstr("cuda_ipc has no gather"));
}

TEST(SinewBench, SaysWhyThereIsNoDeviceMemory) {
  const Outcome outcome = run_program({SINEW_BENCH, "all_reduce", "--device"}, {"CUDA_VISIBLE_DEVICES="});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--device: expected an accelerator for each rank; no CUDA driver"));
}

TEST(SinewBench, PredictsWhatTuneHasTimed) {
  const std::string file = std::filesystem::temp_directory_path() / ("sinew-tune-" + std::to_string(getpid()));
  const Outcome tune = run_program({SINEW_RUN, "-n", "2", SINEW_BENCH, "tune", "-b", "64", "-e", "1KiB", "-f", "16",
                                    "-n", "3", "--transport", "tcp", "--output", file});
  ASSERT_EQ(tune.exit_code, 0) << tune.err;
  std::ifstream stream(file);
  const json timed = json::parse(stream);
  std::map<std::string, double> best;
  for (const json& way : timed.at("ways")) {
    if (way.at("points").back().at(0) != 1024) continue;
    const double seconds = way.at("points").back().at(1);
    const auto [at, fresh] = best.try_emplace(way.at("collective"), seconds);
    at->second = std::min(at->second, seconds);
  }
  ASSERT_TRUE(best.contains("all_reduce"));
  const Job job = job_of({SINEW_RUN, "-n", "2"}, {"all_reduce", "-b", "1KiB", "-e", "1KiB", "--transport", "tcp"},
                         {"SINEW_TUNE_FILE=" + file});
  ASSERT_EQ(job.lines.size(), 1U) << job.outcome.err;
  EXPECT_NEAR(job.lines[0].at("predicted_us"), best["all_reduce"] * 1e6, best["all_reduce"] * 1e3);
  std::filesystem::remove(file);
  const Outcome gone = run_program({SINEW_RUN, "-n", "2", SINEW_BENCH, "all_reduce"}, {"SINEW_TUNE_FILE=" + file});
  EXPECT_NE(gone.exit_code, 0);
  EXPECT_THAT(gone.err, HasSubstr("it cannot be read: expected a file that sinew-bench tune has written"));
}

TEST(SinewBench, TakesALevelOfDeterminism_AndRecordsIt) {
  for (const char* level : {"reproducible", "layout_invariant"}) {
    const Job job =
        job_of({SINEW_RUN, "-n", "4"}, {"all_reduce", "-b", "8", "-e", "8", "-n", "1", "--determinism", level});
    EXPECT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
    ASSERT_EQ(job.lines.size(), 1u);
    EXPECT_EQ(job.lines[0]["determinism"], level);
    EXPECT_EQ(job.lines[0]["wrong"], 0);
  }
  const Job three = job_of({SINEW_RUN, "-n", "3"}, {"all_reduce", "--determinism", "layout_invariant"});
  EXPECT_EQ(three.outcome.exit_code, 2);
  EXPECT_THAT(three.outcome.err, HasSubstr("--determinism: 3 ranks cannot hold aligned ranges of the 64 leaf blocks"));
}

TEST(SinewBench, JudgesCodedResultsByTheStatedError) {
  for (const char* codec : {"bf16", "int8", "f8e4m3"}) {
    for (const char* what : {"all_reduce", "reduce_scatter", "all_gather", "reduce_scatterv", "all_gatherv"}) {
      const Job job = two_ranks({what, "--codec", codec, "-b", "4KiB", "-e", "4MiB", "-f", "32", "-n", "1"});
      EXPECT_EQ(job.outcome.exit_code, 0) << what << ' ' << job.outcome.err;
      ASSERT_EQ(job.lines.size(), 3u);
      for (const json& line : job.lines) {
        EXPECT_EQ(line["codec"], codec);
        EXPECT_EQ(line["wrong"], 0) << what << ' ' << codec << ' ' << line.dump();
      }
    }
  }
}

TEST(SinewBench, SaysWhatIsWrong_OnWhicheverRankItIs) {
  const auto complaint = [](const Words& environment, const Words& arguments) {
    Words command{SINEW_BENCH};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(command, environment);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << environment[0] << ": " << outcome.err;
    return outcome.err;
  };
  const auto place = [](const std::string& rank) {
    return Words{"RANK=" + rank, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=5555"};
  };
  for (const char* rank : {"2", "-1", "99999999999999999999", "x"}) {
    EXPECT_THAT(complaint(place(rank), {"all_reduce"}), HasSubstr(rank));
    EXPECT_THAT(complaint(place(rank), {"all_reduce", "--nix"}), HasSubstr("--nix: no such option"));
  }
  EXPECT_THAT(complaint({"RANK=1", "WORLD_SIZE=2"}, {"all_reduce"}), HasSubstr("MASTER_ADDR"));
  Words typo = place("1");
  typo.emplace_back("SINEW_TYPO=1");
  EXPECT_THAT(complaint(typo, {"all_reduce"}), HasSubstr("SINEW_TYPO: no such variable"));
}

/// The ranks say it once. The launcher's summary repeats it behind " | ".
TEST(SinewBench, SaysWhatIsWrongOnTheCommandLineOnce_InAJob) {
  for (const Words& arguments : {Words{"all_reduce", "--nix"}, Words{"all_reduce", "--algorithm", "nope"}}) {
    Words command{SINEW_RUN, "-n", "3", "--on-failure", "continue", SINEW_BENCH};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 2);
    const std::string& all = outcome.err;
    const std::size_t first = all.find("] sinew-bench: --");
    EXPECT_NE(first, std::string::npos) << all;
    EXPECT_EQ(all.find("] sinew-bench: --", first + 1), std::string::npos) << all;
  }
}

TEST(SinewBench, SaysWhichRankSpeaks_WhereTheJobFails) {
  const Outcome outcome = run_program(
      {SINEW_BENCH, "all_reduce"},
      {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=9", "SINEW_TIMEOUT=300ms", "SINEW_JOB=nobodys"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, StartsWith("sinew-bench: rank 1: MASTER_ADDR=127.0.0.1"));
  EXPECT_THAT(run_program({SINEW_BENCH, "all_reduce"}, {"SINEW_TIMEOUT=5x"}).err,
              StartsWith("sinew-bench: SINEW_TIMEOUT=5x"));
}

TEST(SinewBench, EndsWithOneAndOneLine_WhenWhatItWroteIsLost) {
  const std::string command = std::string(SINEW_BENCH) + " all_reduce -b 8 -e 8 -n 1 ";
  for (const char* where : {">/dev/full", ">&-", "--json - >/dev/full", "--json /dev/full", "--help >/dev/full"}) {
    const Outcome outcome = run_program({"sh", "-c", command + where});
    EXPECT_EQ(outcome.exit_code, 1) << where;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << where << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("lost")) << where;
  }
  const Outcome all_there = run_program({"sh", "-c", command + "--json /dev/null | head -1"});
  EXPECT_EQ(all_there.exit_code, 0);
  EXPECT_EQ(all_there.err, "");
}

TEST(SinewBench, KeepsItsSocketsApartFromItsOutput_WhenItHasNoStreams) {
  const std::string bench = std::string(SINEW_BENCH) + " all_reduce -b 8 -e 8 -n 1 --transport tcp";
  const std::string file = std::filesystem::temp_directory_path() / ("sinew-streams-" + std::to_string(getpid()));
  const Outcome outcome =
      run_program({SINEW_RUN, "-n", "2", "sh", "-c", "exec " + bench + " --json " + file + " <&- >&- 2>&-"});
  EXPECT_EQ(outcome.exit_code, 1) << "the table is lost, and said to be: " << outcome.err;
  std::ifstream stream(file);
  std::string line;
  ASSERT_TRUE(std::getline(stream, line)) << outcome.err;
  EXPECT_EQ(json::parse(line)["wrong"], 0);
  std::filesystem::remove(file);
}

TEST(SinewBench, TeachesWithHelp) {
  const Outcome outcome = bench({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
  EXPECT_THAT(bench({"--version"}).out, testing::StartsWith("sinew "));
}

TEST(SinewBench, PrintsATableThatPeopleKnow_InAWorldOfOne) {
  const Outcome outcome = bench({"all_reduce", "-b", "0", "-e", "64", "-n", "1"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("algbw    busbw  #wrong"));
  EXPECT_THAT(outcome.out, HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_THAT(outcome.out, HasSubstr("# Avg bus bandwidth    : "));
}

TEST(SinewBench, WritesOnlyJson_WhenJsonGoesToStdout) {
  const Outcome outcome = bench({"all_reduce", "-b", "0", "-e", "16", "-d", "f64", "--json", "-"});
  EXPECT_EQ(outcome.exit_code, 0);
  std::istringstream stream(outcome.out);
  std::vector<json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["bytes"], 0);
  EXPECT_EQ(lines[1]["bytes"], 8);
  EXPECT_EQ(lines[2]["bytes"], 16);
  for (const json& line : lines) {
    EXPECT_EQ(members(line), kMembers);
    EXPECT_EQ(line["dtype"], "f64");
    EXPECT_EQ(line["ranks"], 1);
    EXPECT_EQ(line["hosts"], 1);
    EXPECT_EQ(line["wrong"], 0);
    EXPECT_EQ(line["in_place"], false);
    EXPECT_TRUE(line["noisy"].is_boolean());
    EXPECT_GT(line["time_us"], 0);
  }
}

TEST(SinewBench, MeasuresEveryCaseRightly_BetweenTwoRanks) {
  for (const char* what :
       {"all_reduce", "all_gather", "all_gatherv", "reduce_scatter", "reduce_scatterv", "all_to_all", "all_to_allv",
        "broadcast", "reduce", "gather", "scatter", "barrier", "sendrecv", "latency", "bandwidth"}) {
    const Job job = two_ranks({what, "-b", "0", "-e", "4100", "-f", "37", "-n", "1"});
    EXPECT_EQ(job.outcome.exit_code, 0) << what << job.outcome.err;
    EXPECT_GE(job.lines.size(), std::string_view(what) == "barrier" ? 1u : 3u) << what;
    for (const json& line : job.lines) {
      EXPECT_EQ(line["collective"], what);
      EXPECT_EQ(line["wrong"], 0) << line;
      EXPECT_GT(line["time_us_p99"], 0) << line;
      EXPECT_FALSE(line["transport"].get<std::string>().empty()) << line;
    }
  }
}

TEST(SinewBench, MeasuresInPlaceAndWarmAndUnchecked) {
  for (const char* what : {"all_reduce", "all_gather", "all_gatherv", "reduce_scatter", "reduce_scatterv", "all_to_all",
                           "all_to_allv", "reduce", "gather", "scatter"}) {
    const Job job = two_ranks({what, "-b", "1000", "-e", "1000", "--in-place", "-d", "bf16"});
    ASSERT_EQ(job.lines.size(), 1u) << what << job.outcome.err;
    EXPECT_EQ(job.lines[0]["wrong"], 0) << what;
    EXPECT_EQ(job.lines[0]["in_place"], true);
  }
  const Job warm = two_ranks({"all_reduce", "-b", "64", "-e", "64", "--warm-buffers", "-c", "0"});
  ASSERT_EQ(warm.lines.size(), 1u) << warm.outcome.err;
  EXPECT_EQ(warm.lines[0]["warm_buffers"], true);
  EXPECT_TRUE(warm.lines[0]["wrong"].is_null());
}

TEST(SinewBench, TakesTheTransportAndAlgorithmThatItIsTold) {
  const Job job = two_ranks({"all_reduce", "-b", "4KiB", "-e", "4KiB", "--transport", "tcp", "--algorithm", "ring"});
  ASSERT_EQ(job.lines.size(), 1u) << job.outcome.err;
  EXPECT_EQ(job.lines[0]["transport"], "tcp");
  EXPECT_EQ(job.lines[0]["algorithm"], "ring");
}

/// The ranks are those of sinew-run. The file in the place of DeepSpeed's is one of the tests.
TEST(SinewBench, MeasuresDeepSpeedByItsFolder) {
  const ScratchFolder cache;
  const auto beside = [&](const std::string& folder, std::vector<std::string> more) {
    std::vector<std::string> options{"all_reduce", "-b", "64", "-e", "4096", "-f", "64", "--peer", folder};
    options.insert(options.end(), more.begin(), more.end());
    return job_of({SINEW_RUN, "-n", "2"}, options, {"XDG_CACHE_HOME=" + (cache / "cache")});
  };
  const Job job = beside(FAKE_DEEPSPEED, {"--in-place"});
  EXPECT_EQ(job.outcome.exit_code, 0) << job.outcome.err;
  ASSERT_EQ(job.lines.size(), 2u) << job.outcome.err;
  EXPECT_EQ(job.lines[0]["peer"], "DeepSpeed");
  EXPECT_GT(job.lines[0]["peer_time_us"], 0);
  EXPECT_EQ(job.lines[0]["wrong"], 0);
  EXPECT_THAT(beside(FAKE_DEEPSPEED, {}).outcome.err,
              HasSubstr("DeepSpeed does not offer a result beside its input, so use --in-place"));
  EXPECT_THAT(beside(FAKE_DEEPSPEED, {"--in-place", "-o", "max"}).outcome.err,
              HasSubstr("DeepSpeed does not offer this operator"));
  const std::filesystem::path broken = cache / "broken/csrc/cpu/comm";
  std::filesystem::create_directories(broken);
  std::ofstream(broken / "shm.cpp") << "#error not this one\n";
  EXPECT_THAT(beside(cache / "broken", {"--in-place"}).outcome.err, HasSubstr("did not compile: "));
  const Outcome alone = run_program({SINEW_BENCH, "all_reduce", "--in-place", "--peer", FAKE_DEEPSPEED},
                                    {"XDG_CACHE_HOME=" + (cache / "cache")});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.err, HasSubstr("RANK is not set; DeepSpeed's all-reduce expects ranks that sinew-run has started"));
}

TEST(SinewBench, MeasuresMpiInTheSameProcesses) {
  bool any = false;
  for (const char* launcher : {"mpirun.openmpi", "mpirun.mpich"}) {
    if (run_program({launcher, "--version"}).exit_code != 0) continue;
    any = true;
    const Job job = job_of({launcher, "-n", "2"}, {"all_reduce", "-b", "64", "-e", "4096", "-f", "64", "--peer", "mpi"},
                           {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
    EXPECT_EQ(job.outcome.exit_code, 0) << launcher << job.outcome.err;
    ASSERT_EQ(job.lines.size(), 2u) << launcher << job.outcome.err;
    auto expected = kMembers;
    expected.insert({"peer", "peer_time_us", "speedup"});
    EXPECT_EQ(members(job.lines[0]), expected);
    EXPECT_GT(job.lines[0]["peer_time_us"], 0);
    EXPECT_NEAR(job.lines[0]["speedup"].get<double>(),
                job.lines[0]["peer_time_us"].get<double>() / job.lines[0]["time_us"].get<double>(), 1e-3);
  }
  if (!any) GTEST_SKIP() << "no mpirun here";
}

/// The module is compiled by the first of the ranks, and used again by the next job.
TEST(SinewBench, MeasuresAnMpiByItsPrefix) {
  const ScratchFolder cache;
  const auto beside = [&](const char* launcher, const char* mpi, const char* compiler) {
    return job_of({launcher, "-n", "2"},
                  {"all_reduce", "-b", "64", "-e", "64", "--peer", std::string("/usr/lib/x86_64-linux-gnu/") + mpi},
                  {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                   "XDG_CACHE_HOME=" + (cache / launcher), std::string("CXX=") + compiler});
  };
  std::filesystem::create_directories(cache / "open/sinew/peers");
  std::filesystem::permissions(cache / "open/sinew/peers", std::filesystem::perms::all);
  const Outcome open = run_program({SINEW_BENCH, "all_reduce", "--peer", "/usr/lib/x86_64-linux-gnu/openmpi"},
                                   {"XDG_CACHE_HOME=" + (cache / "open")});
  if (std::filesystem::exists("/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h")) {
    EXPECT_EQ(open.exit_code, 2);
    EXPECT_THAT(open.err, HasSubstr("all may write to it; expected one of this user's own (XDG_CACHE_HOME)"));
  }
  bool any = false;
  for (const auto& [launcher, mpi, other] :
       {std::tuple("mpirun.openmpi", "openmpi", "mpich"), {"mpirun.mpich", "mpich", "openmpi"}}) {
    if (run_program({launcher, "--version"}).exit_code != 0) continue;
    if (!std::filesystem::exists(std::string("/usr/lib/x86_64-linux-gnu/") + mpi + "/include/mpi.h")) continue;
    any = true;
    const Job none = beside(launcher, mpi, "nocompiler");
    EXPECT_NE(none.outcome.exit_code, 0);
    EXPECT_THAT(none.outcome.err, HasSubstr("the compiler 'nocompiler' cannot be run: No such file or directory"));
    for (const char* compiler : {"", "nocompiler"}) {  // the second job compiles nothing
      const Job job = beside(launcher, mpi, compiler);
      EXPECT_EQ(job.outcome.exit_code, 0) << launcher << job.outcome.err;
      ASSERT_EQ(job.lines.size(), 1u) << launcher << job.outcome.err;
      EXPECT_GT(job.lines[0]["peer_time_us"], 0);
    }
    if (!std::filesystem::exists(std::string("/usr/lib/x86_64-linux-gnu/") + other + "/include/mpi.h")) continue;
    const Job foreign = beside(launcher, other, "");
    EXPECT_NE(foreign.outcome.exit_code, 0);
    EXPECT_THAT(foreign.outcome.err, HasSubstr("but this job has 2; expected the mpiexec of that MPI"));
  }
  if (!any) GTEST_SKIP() << "no mpirun with its header here";
}

TEST(SinewBench, MeasuresEveryCollectiveBesideMpi_AndBothAreRight) {
  if (run_program({"mpirun.openmpi", "--version"}).exit_code != 0) GTEST_SKIP() << "no mpirun.openmpi here";
  for (const char* what :
       {"broadcast", "reduce", "gather", "scatter", "all_gatherv", "reduce_scatterv", "all_to_allv"}) {
    const bool has_root = !std::string_view(what).ends_with('v');
    const Job job = job_of({"mpirun.openmpi", "--oversubscribe", "-n", "3"},
                           {what, "-b", "6000", "-e", "6000", "-n", "1", "--peer", "mpi", "-r", has_root ? "2" : "0"},
                           {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
    EXPECT_EQ(job.outcome.exit_code, 0) << what << job.outcome.err;  // not 0 where a result of either is wrong
    ASSERT_EQ(job.lines.size(), 1u) << what << job.outcome.err;
    EXPECT_EQ(job.lines[0]["wrong"], 0) << what;
    EXPECT_GT(job.lines[0]["peer_time_us"], 0) << what;
  }
}

}  // namespace
}  // namespace sinew::test

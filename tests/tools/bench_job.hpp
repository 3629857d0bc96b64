#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <support/run_program.hpp>

namespace sinew::test {

using nlohmann::json;
using Words = std::vector<std::string>;

inline Outcome bench(Words arguments) {
  arguments.insert(arguments.begin(), SINEW_BENCH);
  return run_program(arguments);
}

/// What sinew-bench printed; lines of --json come back through a file.
struct Job {
  Outcome outcome;
  std::vector<json> lines;
};

inline Job job_of(const Words& launcher, const Words& arguments, const Words& environment = {}) {
  const std::string file = std::filesystem::temp_directory_path() / ("sinew-bench-" + std::to_string(getpid()));
  Words command = launcher;
  command.emplace_back(SINEW_BENCH);
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--json", file});
  Job job{run_program(command, environment), {}};
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) job.lines.push_back(json::parse(line));
  std::filesystem::remove(file);
  return job;
}

inline Job two_ranks(const Words& arguments) { return job_of({SINEW_RUN, "-n", "2"}, arguments); }

inline std::set<std::string> members(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

inline const std::set<std::string> kMembers{"collective",  "bytes",      "dtype",     "op",          "ranks",
                                            "hosts",       "transport",  "algorithm", "in_place",    "registered",
                                            "determinism", "codec",      "time_us",   "time_us_p99", "predicted_us",
                                            "algbw_GBps",  "busbw_GBps", "wrong",     "noisy",       "version"};

}  // namespace sinew::test

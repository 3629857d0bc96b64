// Checks every collective on the job that started it: under mpirun, sinew-run or alone.
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/common/progress.hpp>
#include <sinew/tools/common/whole_number.hpp>
#include <sinew/tools/version/version_text.hpp>

#include "support/collective_case.hpp"

namespace {

struct Options {
  std::vector<std::string> transports;
  std::string largest = "1MiB";
  bool exhaustive = false;
  int rounds = 1;
};

std::uint64_t run_cases(sinew::Communicator& all, const Options& options, const char* what) {
  const std::uint64_t largest = sinew::parse_bytes(options.largest);
  const auto cases = options.exhaustive ? sinew::test::all_cases(all.size(), largest)
                                        : sinew::test::pairwise_cases(all.size(), largest);
  std::uint64_t wrong = 0;
  std::uint32_t salt = 0;
  sinew::tools::Progress progress(cases.size() * static_cast<std::size_t>(options.rounds));
  for (int round = 0; round < options.rounds; ++round) {
    for (const auto& c : cases) {
      if (all.rank() == 0) progress.show(salt, c.to_string());
      const std::uint64_t bad = sinew::test::run_case(all, c, ++salt);
      if (bad != 0) progress.clear();
      if (bad != 0) fmt::print(stderr, "rank {}: {}: {} wrong elements\n", all.rank(), c.to_string(), bad);
      wrong += bad;
    }
  }
  progress.clear();
  std::vector<std::uint64_t> total = {wrong};
  all.all_reduce(total).get();
  if (all.rank() == 0) {
    fmt::print("{}: {} calls on {} ranks, wrong {}\n", what, cases.size() * static_cast<std::size_t>(options.rounds),
               all.size(), total[0]);
  }
  return total[0];
}

int run(const Options& options) {
  sinew::WorldOptions world_options;
  if (!options.transports.empty()) world_options.config.transports = options.transports;
  auto world = sinew::World::from_environment(world_options);
  sinew::Communicator& all = world.communicator();
  std::uint64_t wrong = run_cases(all, options, "all ranks");
  if (all.size() > 2) {
    sinew::Communicator part = all.split(all.rank() % 2, -all.rank());
    wrong += run_cases(part, options, all.rank() % 2 == 0 ? "even ranks, reversed" : "odd ranks, reversed");
  }
  all.barrier().get();
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kMostRounds = 1000000;
  CLI::App app("Runs every collective with checked data on the job that started it.", "sinew-conformance");
  app.set_version_flag("--version", sinew::tools::version_text());
  Options options;
  app.add_option("--transport", options.transports, "only these transports, comma-separated")->delimiter(',');
  app.add_option("--largest", options.largest, "largest buffer, such as 1MiB");
  app.add_flag("--exhaustive", options.exhaustive, "every combination instead of a cover of all pairs");
  app.add_option("--rounds", options.rounds, "how many times")->transform(sinew::tools::whole_number(1, kMostRounds));
  return sinew::tools::run(app, argc, argv, [&] { return run(options); });
}

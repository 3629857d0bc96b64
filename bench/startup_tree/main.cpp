#include <chrono>
#include <cstdio>

#include <sinew/topology/format/json/json_object.hpp>

#include "../command_line.hpp"
#include "simulated_start.hpp"

// Counts the messages of a start-up of many ranks in a simulation, one line for each number of ranks.
// bench/scorecard/startup_tree.sh judges.
int main(int argc, char** argv) {
  using namespace sinew;
  bench::StartPlan plan;
  double spread_s = 0;
  std::int64_t contribution = 0;
  bool star = false;
  bench::CommandLine command("counts the messages of a simulated start-up of many ranks");
  command.option("-n,--ranks", plan.ranks, "number of ranks", bench::kPositive);
  command.option("--ranks-per-host", plan.ranks_per_host, "ranks of each host", bench::kPositive);
  command.option("--fan-out", plan.fan_out, "the most hosts below a host", bench::kPositive);
  command.option("--rounds", plan.rounds, "all-gathers of the start-up", bench::kPositive);
  command.option("--contribution", contribution, "bytes of each rank in each all-gather", {.least = 0});
  command.option("--spread", spread_s, "seconds within which processes start", {.least = 0});
  command.flag("--star", star, "all hosts connect to rank 0, and all at once");
  command.parse(argc, argv);

  plan.spread = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(spread_s));
  plan.contribution = static_cast<std::size_t>(contribution);
  if (star) plan.fan_out = plan.ranks;
  if (star) plan.pace = {};
  const bench::StartCounts c = bench::simulate_start(plan);
  std::puts(json_object({{"ranks", plan.ranks},
                         {"hosts", (plan.ranks + plan.ranks_per_host - 1) / plan.ranks_per_host},
                         {"fan_out", plan.fan_out},
                         {"contribution", contribution},
                         {"messages", c.messages},
                         {"rank_0_messages", c.rank_0_messages},
                         {"rank_0_round_messages", c.rank_0_round_messages},
                         {"rank_0_bytes", c.rank_0_bytes},
                         {"rank_0_most_waiting", c.rank_0_most_waiting},
                         {"rank_0_most_connections", c.rank_0_most_connections},
                         {"busiest_relay_messages", c.busiest_relay_messages},
                         {"depth", c.depth},
                         {"seconds", c.seconds, 3},
                         {"round_seconds", c.last_round_seconds, 4}})
                .c_str());
  return 0;
}

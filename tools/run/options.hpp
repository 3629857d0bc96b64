#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <sinew/core/deadline.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/tools/run/output/rank_logs.hpp>

#include "backoff.hpp"

namespace sinew::run {

/// What happens to the other ranks when one fails.
enum class OnFailure { End, Continue };

/// Some ranks of the job, consecutive, on one host; an empty name is this host.
struct HostShare {
  std::string host;
  int ranks = 0;
};

/// As said on the command line.
struct CommandLine {
  int ranks = 0;
  std::string hosts;
  std::string nodes;
  int min_ranks = 0;  ///< 0: not given
  int spares = 0;
  bool check = false;
  std::string on_failure = "end";
  int restarts = 0;
  std::string backoff = "1s,1min";
  std::string grace = "30s";
  std::vector<std::string> variables;
  bool no_prefix = false;
  bool standalone = false;
  std::string log_folder;
  std::string log_rotate;
  std::string tee;
  std::string redirect;
  bool agent = false;  ///< started by another sinew-run on this host; the rest comes on standard input
};

/// As checked and completed.
struct Options {
  int ranks = 0;
  std::vector<HostShare> shares;  ///< in order of rank; together `ranks`
  std::vector<HostShare> places;  ///< where ranks may run: `shares` are the first of them
  int asked_ranks = 0;            ///< -n; 0: as many as the places have
  std::size_t least_hosts = 1;
  std::size_t most_hosts = SIZE_MAX;
  bool hosts_may_go = false;  ///< --nodes MIN:MAX with MIN below MAX
  int min_ranks = 0;          ///< --min-ranks; 0: not given
  int spares = 0;
  bool check = false;
  /// The limits of a job that gains and loses ranks; nullopt: it ends, or is started again, as a whole. `ranks` and
  /// `shares` count the processes that are started, with the spares.
  std::optional<ElasticLimits> elastic{};
  bool by_srun = false;  ///< the hosts are nodes of Slurm's allocation, and SINEW_RSH is not set
  OnFailure on_failure = OnFailure::End;
  int restarts = 0;
  BackoffTimes backoff;
  Duration grace{};                                              ///< between a signal that ends ranks and SIGKILL
  LogOptions logs;                                               ///< the folder: of all starts of this job
  bool prefix = true;                                            ///< "[RANK] " before each line
  std::vector<std::pair<std::string, std::string>> environment;  ///< for the ranks
  std::vector<std::string> command;
};

void add_options(CLI::App& app, CommandLine& line);
/// Errors: Error{InvalidArgument} saying what was found and what was expected.
Options checked(const CommandLine& line, std::vector<std::string> command);

/// Takes ranks and shares from the places, and sets the limits of a job that gains ranks. `whose`: the word for the
/// places. `why`: a reason for their number, or empty. Errors: Error{InvalidArgument} where they are too few.
void deal_out(Options& options, std::string_view whose, std::string_view why = {});

/// "a:4,b:2,[fd00::1]:2" -> shares; a host without a number has one rank. Errors: Error{InvalidArgument}.
std::vector<HostShare> parse_hosts(const std::string& text);

}  // namespace sinew::run

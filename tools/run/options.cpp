#include "options.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <system_error>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/whole_number.hpp>

#include "slurm_hosts.hpp"
#include "this_host.hpp"

namespace sinew::run {
namespace {

constexpr int kMostRanks = 1 << 16;

constexpr int kMostRestarts = 1000000;

constexpr std::string_view kSlurm = "slurm";

constexpr const char* kExamples =
    "Examples:\n"
    "  sinew-run -n 4 build/release/bin/sinew-bench all_reduce\n"
    "  sinew-run --hosts a:8,b:8 ./train --steps 100     over ssh; SINEW_RSH names another way to a host\n"
    "  sinew-run ./train --steps 100                     in sbatch or salloc: the allocation's tasks on its nodes\n"
    "  sinew-run -n 4 --on-failure continue ./survivor   the others go on when a rank dies";

[[noreturn]] void reject(const std::string& message) { throw Error(Code::InvalidArgument, message); }

/// The variables that tell a rank its place in the job.
constexpr std::array kOwnVariables = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                      "MASTER_ADDR", "MASTER_PORT", "SINEW_JOB",  "SINEW_ELASTIC"};

std::pair<std::string, std::string> parse_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (name.empty()) reject(fmt::format("--env {}: expected NAME or NAME=VALUE", shown_value(text)));
  if (std::ranges::find(kOwnVariables, name) != kOwnVariables.end())
    reject(fmt::format("--env {}: sinew-run itself sets {} for each rank; expected another variable", shown_value(text),
                       name));
  if (equals != std::string::npos) return {name, text.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) reject(fmt::format("--env {}: not set here, expected NAME=VALUE", shown_value(name)));
  return {name, value};
}

Duration parse_grace(const std::string& text) {
  try {
    return parse_duration(text);
  } catch (const Error&) {
    reject(fmt::format("--grace {}: expected a duration with a unit, such as 500ms, 30s or 5min", shown_value(text)));
  }
}

constexpr int kKeptLogs = 4;
constexpr int kMostKeptLogs = 1000;
constexpr std::uint64_t kLeastLogBytes = 4096;

BackoffTimes parse_backoff(const std::string& text) {
  const std::size_t comma = text.find(',');
  const auto duration = [&text](std::string_view part) {
    try {
      return parse_duration(part);
    } catch (const Error&) {
      reject(
          fmt::format("--backoff {}: '{}' is no duration with a unit; expected FIRST[,LONGEST], such as 1s or 1s,1min",
                      shown_value(text), shown_value(part)));
    }
  };
  BackoffTimes times;
  times.first = duration(std::string_view(text).substr(0, comma));
  times.longest = comma == std::string::npos ? std::max(times.first, times.longest)
                                             : duration(std::string_view(text).substr(comma + 1));
  if (times.longest < times.first)
    reject(
        fmt::format("--backoff {}: the longest wait is shorter than the first; expected FIRST[,LONGEST], such as "
                    "1s,1min",
                    shown_value(text)));
  return times;
}

Rotation parse_rotation(const std::string& text) {
  const std::size_t comma = text.find(',');
  const std::string_view kept =
      comma == std::string::npos ? std::string_view() : std::string_view(text).substr(comma + 1);
  Rotation rotation{.bytes = 0, .kept = kKeptLogs};
  try {
    rotation.bytes = parse_bytes(std::string_view(text).substr(0, comma));
    if (comma != std::string::npos) rotation.kept = parse_number<int>(kept).value_or(-1);
  } catch (const Error&) {
  }
  if (rotation.bytes >= kLeastLogBytes && rotation.bytes <= INT64_MAX && rotation.kept >= 0 &&
      rotation.kept <= kMostKeptLogs)
    return rotation;
  reject(
      fmt::format("--log-rotate {}: expected SIZE[,KEEP], a size of {} or more and a number of full files up to {}, "
                  "such as 100MiB,5",
                  shown_value(text), format_bytes(kLeastLogBytes), kMostKeptLogs));
}

std::vector<HostShare> places_of(const CommandLine& line) {
  std::vector<HostShare> places;
  if (!line.standalone) {
    const bool of_slurm = line.hosts == kSlurm || line.hosts.empty();
    places = of_slurm ? slurm_hosts(process_environment()) : parse_hosts(line.hosts);
  }
  if (line.hosts == kSlurm && places.empty()) {
    reject(
        "--hosts slurm: this is no shell of an allocation of Slurm's (SLURM_JOB_NODELIST is not set, or srun has "
        "started several tasks); expected salloc, sbatch, or HOST:RANKS,...");
  }
  const bool all_here = places.size() == 1 && places.front().host.empty();
  if (line.hosts.empty() && all_here && line.ranks != 0) places.clear();  // as many as asked, allocation or not
  if (!places.empty()) return places;
  if (line.ranks == 0) reject("-n: how many ranks? expected a number such as -n 4");
  return {{"", line.ranks}};
}

/// Without -n and --nodes every place is taken, so every host is needed.
void read_nodes(const CommandLine& line, Options& o) {
  o.least_hosts = line.ranks == 0 ? o.places.size() : 1;
  if (line.nodes.empty()) return;
  const std::string_view text = line.nodes;
  const bool is_range = text.find(':') != std::string_view::npos;
  const auto least = parse_number<int>(text);
  const auto limits = is_range ? parse_number_pair<int>(text)
                      : least  ? std::optional(std::pair(*least, kMostRanks))
                               : std::nullopt;
  if (!limits || limits->first < 1 || limits->second < limits->first || limits->second > kMostRanks)
    reject(
        fmt::format("--nodes {}: expected a number of hosts, MIN or MIN:MAX with MIN not above MAX, each 1 to {}, such "
                    "as 3 or 3:4",
                    shown_value(text), kMostRanks));
  o.least_hosts = static_cast<std::size_t>(limits->first);
  o.most_hosts = static_cast<std::size_t>(limits->second);
  o.hosts_may_go = is_range && limits->first < limits->second;
}

/// A name that no other run of the folder has, and that sorts by time.
std::string run_name() {
  return fmt::format("{:%Y%m%d-%H%M%S}-{:04x}", fmt::localtime(std::time(nullptr)), random_id() & 0xffff);
}

/// CLI11 gives this for a flag without a value.
constexpr std::string_view kBareFlag = "true";

RankSet ranks_of(std::string_view option, std::string_view text) {
  return text.empty() ? RankSet() : parse_ranks(option, text == kBareFlag ? "all" : text);
}

/// Without --tee and --redirect all ranks are printed, too.
RankSet printed_ranks(const CommandLine& line) {
  const RankSet printed = ranks_of("--tee", line.tee);
  const RankSet silent = ranks_of("--redirect", line.redirect);
  if (const int both = common_rank(printed, silent); both >= 0)
    reject(fmt::format("--tee={} --redirect={}: both name rank {}; expected each rank in one of them at most",
                       shown_value(line.tee), shown_value(line.redirect), both));
  if (line.redirect.empty()) return line.tee.empty() ? RankSet{{0, kHighestRank}} : printed;
  return all_but(silent);
}

LogOptions parse_logs(const CommandLine& line) {
  if (line.log_folder.empty()) {
    const std::string_view alone = !line.tee.empty()          ? "--tee"
                                   : !line.redirect.empty()   ? "--redirect"
                                   : !line.log_rotate.empty() ? "--log-rotate"
                                                              : "";
    if (!alone.empty()) reject(fmt::format("{}: there are no log files; expected --log-dir FOLDER, too", alone));
    return {};
  }
  LogOptions logs;
  std::error_code no_working_folder;
  const auto folder = std::filesystem::absolute(line.log_folder, no_working_folder);
  if (no_working_folder)
    reject(fmt::format("--log-dir {}: the working directory cannot be found ({}); expected a path that begins with /",
                       shown_value(line.log_folder), no_working_folder.message()));
  logs.folder = (folder / run_name()).lexically_normal().string();
  if (!line.log_rotate.empty()) logs.rotation = parse_rotation(line.log_rotate);
  logs.printed = printed_ranks(line);
  return logs;
}

/// `--tee 3 PROGRAM` would start a program that is called 3.
void require_value_of_flag(std::string_view option, std::string_view value, const std::string& program) {
  if (value != kBareFlag || program.find_first_not_of("0123456789,-") != std::string::npos) return;
  reject(fmt::format("{0} {1}: expected {0}={1}, with '=' before the ranks", option, shown_value(program)));
}

/// A rank that is named is one of the job's.
void require_ranks_of_job(std::string_view option, std::string_view text, int ranks) {
  for (const auto& [first, last] : ranks_of(option, text)) {
    if (first < ranks && (last < ranks || last == kHighestRank)) continue;
    reject(fmt::format("{}={}: the job has no rank {}; expected ranks of 0 to {}", option, shown_value(text),
                       first < ranks ? last : first, ranks - 1));
  }
}

/// Says which option takes the place of an option of another launcher.
std::string_view hint_for(std::string_view option) {
  struct Foreign {
    std::string_view option;
    std::string_view hint;
  };
  constexpr std::string_view kRanks =
      "expected -n N, the number of ranks of the job, or --hosts HOST:RANKS,..., the ranks of each host";
  constexpr std::string_view kHosts =
      "expected --hosts HOST:RANKS,... on the command line, or --hosts $(paste -sd, FILE) for a file that has a line "
      "HOST:RANKS for each host";
  constexpr Foreign kForeign[] = {
      {"--np", kRanks},          {"--ntasks", kRanks},   {"--nproc-per-node", kRanks}, {"--nproc_per_node", kRanks},
      {"--ppn", kRanks},         {"--npernode", kRanks}, {"--hostfile", kHosts},       {"--host", kHosts},
      {"--machinefile", kHosts}, {"--nodelist", kHosts},
  };
  const auto known = std::ranges::find(kForeign, option.substr(0, option.find('=')), &Foreign::option);
  return known == std::end(kForeign) ? "--help lists them" : known->hint;
}

/// For -n. CLI11 reads `-np 2` as -n with the value p.
CLI::Validator ranks_number() {
  const CLI::Validator number = tools::whole_number(1, kMostRanks);
  const auto check = [number](std::string& text) -> std::string {
    return text == "p" ? "'p': expected -n N; -np is an option of other launchers" : number(text);
  };
  return {check, number.get_description()};
}

CLI::Validator on_failure_words() {
  const auto check = [](std::string& text) -> std::string {
    if (text == "end" || text == "continue") return {};
    return fmt::format("'{}': expected end (when a rank fails, the others are ended) or continue (the others go on)",
                       shown_value(text));
  };
  return {check, "end|continue"};
}

/// Sets the limits of a job that gains and loses ranks, from its ranks and shares. Spares come to the hosts in turn.
void add_spares(Options& o) {
  o.elastic.reset();
  if (o.min_ranks == 0 && o.spares == 0 && !o.hosts_may_go) return;
  if (o.min_ranks > o.ranks)
    reject(fmt::format("--min-ranks {}: the job starts with {} rank{} only; expected --min-ranks {} or fewer",
                       o.min_ranks, o.ranks, o.ranks == 1 ? "" : "s", o.ranks));
  if (o.on_failure == OnFailure::Continue)
    reject(
        "--on-failure continue: a job that gains ranks (--min-ranks, --spares, --nodes MIN:MAX) goes on by itself; "
        "expected one of the two");
  int least = o.min_ranks != 0 ? o.min_ranks : o.ranks;
  if (o.min_ranks == 0 && o.hosts_may_go) {
    std::vector<int> ranks;
    for (const HostShare& s : o.shares) ranks.push_back(s.ranks);
    std::ranges::sort(ranks);
    ranks.resize(std::min(ranks.size(), o.least_hosts));
    least = std::accumulate(ranks.begin(), ranks.end(), 0);
  }
  o.elastic = ElasticLimits{.least = least, .most = o.ranks};
  for (int i = 0; i < o.spares; ++i) ++o.shares[static_cast<std::size_t>(i) % o.shares.size()].ranks;
  o.ranks += o.spares;
}

}  // namespace

void deal_out(Options& o, std::string_view whose, std::string_view why) {
  const std::string because = why.empty() ? "" : fmt::format("; {}", why);
  if (o.places.size() < o.least_hosts)
    reject(fmt::format("the job needs {} host{} or more, and {} {} {}{}", o.least_hosts, o.least_hosts == 1 ? "" : "s",
                       whose, o.places.empty() ? "has" : "has only", o.places.size(), because));
  o.shares = o.places;
  if (o.shares.size() > o.most_hosts) o.shares.resize(o.most_hosts);
  std::int64_t slots = 0;
  for (const HostShare& s : o.shares) slots += s.ranks;
  if (o.asked_ranks == 0 && slots > kMostRanks)
    reject(fmt::format("{} has places for {} ranks; expected -n {} or fewer", whose, slots, kMostRanks));
  o.ranks = o.asked_ranks != 0 ? o.asked_ranks : static_cast<int>(slots);
  if (o.ranks > slots) reject(fmt::format("-n {}: {} has places for {} ranks only{}", o.ranks, whose, slots, because));
  int left = o.ranks;
  for (HostShare& s : o.shares) {
    s.ranks = std::min(s.ranks, left);
    left -= s.ranks;
  }
  std::erase_if(o.shares, [](const HostShare& s) { return s.ranks == 0; });
  add_spares(o);
}

std::vector<HostShare> parse_hosts(const std::string& text) {
  std::vector<HostShare> shares;
  std::string_view rest = text;
  while (!rest.empty() || shares.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest = item.size() == rest.size() ? std::string_view() : rest.substr(item.size() + 1);
    const std::size_t bracket = item.rfind(']');
    const std::size_t colon = item.find(':', bracket == std::string_view::npos ? 0 : bracket);
    std::string_view name = item.substr(0, colon);
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
    HostShare share{std::string(name), 1};
    if (colon != std::string_view::npos) {
      share.ranks = parse_number<int>(item.substr(colon + 1)).value_or(0);
    }
    if (name.empty() || name.starts_with('-') || share.ranks < 1 || share.ranks > kMostRanks) {
      reject(
          fmt::format("--hosts {}: expected HOST:RANKS,... with 1 to {} ranks on each host, such as a:4,b:4 or "
                      "[fd00::1]:4",
                      shown_value(text), kMostRanks));
    }
    if (is_this_host(share.host)) share.host.clear();
    shares.push_back(std::move(share));
  }
  return shares;
}

void add_options(CLI::App& app, CommandLine& line) {
  app.footer(kExamples);
  app.prefix_command();
  app.add_option("-n,--ranks", line.ranks,
                 "How many ranks; default: as many as --hosts, or Slurm's allocation, has places for")
      ->transform(ranks_number());
  app.add_option(
      "--hosts", line.hosts,
      "Where: HOST:RANKS,..., through ssh or SINEW_RSH; or slurm: the nodes of this allocation, through srun or "
      "SINEW_RSH, the default in one");
  app.add_option("--nodes,--nnodes", line.nodes,
                 "Begin with MIN hosts at least and MAX at most of those that are there, with as many ranks as these "
                 "have places for, or -n. With MIN below MAX the job goes on when hosts are lost, as long as MIN are "
                 "left")
      ->type_name("MIN[:MAX]");
  app.add_option("--min-ranks", line.min_ranks, "When ranks fail, the others go on, as long as so many are left")
      ->transform(tools::whole_number(1, kMostRanks));
  app.add_option("--spares", line.spares,
                 "Start so many processes more, which wait until they take the place of a rank that fails")
      ->transform(tools::whole_number(1, kMostRanks));
  app.add_flag("--check", line.check,
               "Before the start, examine all hosts as sinew-info doctor does: a line for each; a bad host is left out "
               "where the others suffice for -n or --nodes, or else ends the start. It takes a second per host, and "
               "60 s more at most");
  app.add_option("--on-failure", line.on_failure, "When a rank fails: end the others (default), or let them continue")
      ->check(on_failure_words());
  app.add_option("--restarts,--max-restarts", line.restarts,
                 "Start all ranks again after a failure, so many times at most. A job that goes on without a rank "
                 "(--min-ranks, --spares, --nodes MIN:MAX) gets only that rank again")
      ->transform(tools::whole_number(0, kMostRestarts));
  app.add_option(
         "--backoff", line.backoff,
         "How long to wait before ranks are started again: FIRST, then twice as long each time, LONGEST at most, "
         "and FIRST again after 5 min without a failure (1s,1min)")
      ->type_name("FIRST[,LONGEST]");
  app.add_option("--grace", line.grace,
                 "How long ranks have between SIGTERM, or another signal that ends a job, and SIGKILL (30s); a second "
                 "SIGTERM or Ctrl-C ends them at once")
      ->type_name("DURATION");
  app.add_option("--env", line.variables, "A variable for the ranks, on all hosts: NAME or NAME=VALUE; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--standalone", line.standalone,
               "All ranks on this host, also in an allocation of Slurm's: no host is looked up or called");
  app.add_option("--log-dir", line.log_folder,
                 "What ranks print goes to files as well, each on its rank's host: "
                 "FOLDER/RUN/attempt_K/RANK/stdout.log and stderr.log; RUN is the time of the start")
      ->type_name("FOLDER");
  app.add_option(
         "--log-rotate", line.log_rotate,
         "A log file that has SIZE, 4KiB or more, becomes FILE.1, and FILE.1 becomes FILE.2, KEEP (4) of them at "
         "most")
      ->type_name("SIZE[,KEEP]");
  app.add_flag(
      "--tee", line.tee,
      "--tee=RANKS, such as 0,8-15: of ranks with log files only these are printed, too; --tee: all (default)");
  app.add_flag(
      "--redirect", line.redirect,
      "--redirect=RANKS: these ranks go to their log files alone, and the others are printed, too; --redirect: "
      "all");
  app.add_flag("--no-prefix", line.no_prefix,
               "Leave out the [RANK] before each line: what a rank prints arrives byte by byte as it was printed");
  app.add_flag("--agent", line.agent, "Start ranks as standard input says")->group("");
}

Options checked(const CommandLine& line, std::vector<std::string> command) {
  Options o;
  o.prefix = !line.no_prefix;
  o.on_failure = line.on_failure == "end" ? OnFailure::End : OnFailure::Continue;
  o.restarts = line.restarts;
  o.backoff = parse_backoff(line.backoff);
  o.grace = parse_grace(line.grace);
  o.command = std::move(command);
  if (!o.command.empty() && o.command.front() == "--") o.command.erase(o.command.begin());
  if (!o.command.empty() && o.command.front().starts_with('-')) {
    reject(fmt::format("{}: no such option; {}", shown_value(o.command.front()), hint_for(o.command.front())));
  }
  if (!o.command.empty()) {
    require_value_of_flag("--tee", line.tee, o.command.front());
    require_value_of_flag("--redirect", line.redirect, o.command.front());
  }
  if (line.standalone && !line.hosts.empty())
    reject(fmt::format("--standalone --hosts {}: expected one of the two, as --standalone is this host alone",
                       shown_value(line.hosts)));
  o.logs = parse_logs(line);
  o.check = line.check;
  o.asked_ranks = line.ranks;
  o.min_ranks = line.min_ranks;
  o.spares = line.spares;
  o.places = places_of(line);
  read_nodes(line, o);
  const bool of_slurm = line.hosts.empty() || line.hosts == kSlurm;
  o.by_srun = of_slurm && process_environment()("SINEW_RSH").value_or("").empty();
  const bool only_here = line.hosts.empty() && o.places.size() == 1 && o.places.front().host.empty();
  if (only_here && o.least_hosts > 1)
    reject(
        fmt::format("--nodes {}: there is only this host, because --hosts names no others and this is no shell of an "
                    "allocation of Slurm's with others; expected --hosts HOST:RANKS,... with {} hosts or more",
                    shown_value(line.nodes), o.least_hosts));
  deal_out(o, only_here ? "this host" : of_slurm ? "Slurm's allocation" : "--hosts");
  require_ranks_of_job("--tee", line.tee, o.ranks);
  require_ranks_of_job("--redirect", line.redirect, o.ranks);
  for (const std::string& v : line.variables) o.environment.push_back(parse_variable(v));
  if (o.command.empty() || o.command.front().empty()) reject("which PROGRAM? expected sinew-run -n N PROGRAM ARGS...");
  return o;
}

}  // namespace sinew::run

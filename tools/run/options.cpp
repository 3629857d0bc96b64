#include "options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
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

/// As many ranks as asked, host by host; without hosts all of them here. `hosts` is where those come from.
void deal_out(Options& o, std::string_view hosts) {
  if (o.shares.empty()) {
    if (o.ranks == 0) reject("-n: how many ranks? expected a number such as -n 4");
    o.shares = {{"", o.ranks}};
    return;
  }
  std::int64_t slots = 0;
  for (const HostShare& s : o.shares) slots += s.ranks;
  if (o.ranks == 0 && slots > kMostRanks)
    reject(fmt::format("{} has places for {} ranks; expected -n {} or fewer", hosts, slots, kMostRanks));
  if (o.ranks == 0) o.ranks = static_cast<int>(slots);
  if (o.ranks > slots) reject(fmt::format("-n {}: {} has places for {} ranks only", o.ranks, hosts, slots));
  int left = o.ranks;
  for (HostShare& s : o.shares) {
    s.ranks = std::min(s.ranks, left);
    left -= s.ranks;
  }
  std::erase_if(o.shares, [](const HostShare& s) { return s.ranks == 0; });
}

std::pair<std::string, std::string> parse_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (name.empty()) reject(fmt::format("--env {}: expected NAME or NAME=VALUE", text));
  if (equals != std::string::npos) return {name, text.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) reject(fmt::format("--env {}: not set here, expected NAME=VALUE", name));
  return {name, value};
}

Duration parse_grace(const std::string& text) {
  try {
    return parse_duration(text);
  } catch (const Error&) {
    reject(fmt::format("--grace {}: expected a duration such as 500ms, 30s or 5min", text));
  }
}

}  // namespace

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
      reject(fmt::format("--hosts {}: expected HOST:RANKS,... such as a:4,b:4 or [fd00::1]:4", text));
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
      ->transform(tools::whole_number(1, kMostRanks));
  app.add_option(
      "--hosts", line.hosts,
      "Where: HOST:RANKS,..., through ssh or SINEW_RSH; or slurm: the nodes of this allocation, through srun or "
      "SINEW_RSH, the default in one");
  app.add_option("--on-failure", line.on_failure, "When a rank fails: end the others (default), or let them continue")
      ->check(CLI::IsMember({"end", "continue"}).description("end|continue"));
  app.add_option("--restarts", line.restarts, "Start all ranks again after a failure, so many times at most")
      ->transform(tools::whole_number(0, kMostRestarts));
  app.add_option("--grace", line.grace,
                 "How long ranks have between SIGTERM, or another signal that ends a job, and SIGKILL (30s); a second "
                 "SIGTERM or Ctrl-C ends them at once")
      ->type_name("DURATION");
  app.add_option("--env", line.variables, "A variable for the ranks, on all hosts: NAME or NAME=VALUE; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--no-prefix", line.no_prefix,
               "Leave out the [RANK] before each line: what a rank prints arrives byte by byte as it was printed");
  app.add_flag("--agent", line.agent, "Start ranks as standard input says")->group("");
}

Options checked(const CommandLine& line, std::vector<std::string> command) {
  Options o;
  o.ranks = line.ranks;
  o.prefix = !line.no_prefix;
  o.on_failure = line.on_failure == "end" ? OnFailure::End : OnFailure::Continue;
  o.restarts = line.restarts;
  o.grace = parse_grace(line.grace);
  o.command = std::move(command);
  if (!o.command.empty() && o.command.front() == "--") o.command.erase(o.command.begin());
  if (!o.command.empty() && o.command.front().starts_with('-')) {
    reject(fmt::format("{}: no such option; --help lists them", o.command.front()));
  }
  const bool by_slurm = line.hosts == kSlurm || line.hosts.empty();
  o.shares = by_slurm ? slurm_hosts(process_environment()) : parse_hosts(line.hosts);
  o.by_srun = by_slurm && process_environment()("SINEW_RSH").value_or("").empty();
  if (line.hosts == kSlurm && o.shares.empty()) {
    reject(
        "--hosts slurm: this is no shell of an allocation of Slurm's (SLURM_JOB_NODELIST is not set, or srun has "
        "started several tasks); expected salloc, sbatch, or HOST:RANKS,...");
  }
  const bool all_here = o.shares.size() == 1 && o.shares.front().host.empty();
  if (line.hosts.empty() && all_here && o.ranks != 0) o.shares.clear();  // as many as asked, allocation or not
  deal_out(o, by_slurm ? "Slurm's allocation" : "--hosts");
  for (const std::string& v : line.variables) o.environment.push_back(parse_variable(v));
  if (o.command.empty()) reject("which PROGRAM? expected sinew-run -n N PROGRAM ARGS...");
  return o;
}

}  // namespace sinew::run

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/progress.hpp>
#include <sinew/tools/info/doctor/examination.hpp>
#include <sinew/tools/info/doctor/local/job_shape.hpp>
#include <sinew/tools/info/doctor/report.hpp>

#include "commands.hpp"

namespace sinew::tools {
namespace {

/// Rank 0's, made when it is known how many rounds there are.
class Rounds {
 public:
  explicit Rounds(bool shows) : shows_(shows) {}
  void show(int round, int rounds) {
    if (!shows_) return;
    if (!progress_) progress_.emplace(static_cast<std::size_t>(rounds));
    progress_->show(static_cast<std::size_t>(round), "hosts try each other, two and two");
  }

 private:
  bool shows_;
  std::optional<Progress> progress_;
};

/// That of the environment, but for a shorter patience where none is asked for: who waits for a doctor watches.
Config own_config() {
  Config config = Config::from_environment();
  const auto rows = describe(config);
  const auto timeout = std::ranges::find(rows, "SINEW_TIMEOUT", &ConfigEntry::name);
  if (timeout != rows.end() && !timeout->set) config.timeout = std::chrono::minutes(1);
  return config;
}

doctor::Diagnosis examined(const Launch& launch, const Config& config, std::optional<std::uint64_t> rank_bytes) {
  Rounds rounds(launch.exchange.rank == 0);
  return doctor::examine(launch, config, rank_bytes, [&](int round, int of) { rounds.show(round, of); });
}

/// Examines, and prints where this is rank 0. The exit code.
int examine_and_print(const InfoOptions& options, std::optional<std::uint64_t> rank_bytes) {
  const Config config = own_config();
  const Launch launch = exchange_from_environment(config);
  const doctor::Diagnosis diagnosis = examined(launch, config, rank_bytes);
  if (launch.exchange.rank == 0) {
    std::cout << (options.json ? doctor::to_json(diagnosis) + "\n" : doctor::to_text(diagnosis)) << std::flush;
  }
  launch.exchange.all_gather({});  // a launcher ends the others where one leaves with code 1: not before all is said
  return doctor::would_fail(diagnosis.findings) ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, const InfoOptions& options, int& exit_code) {
  static std::string memory = format_bytes(doctor::kRankBytes);
  CLI::App* command =
      app.add_subcommand("doctor", "What would fail or slow a job on these hosts, and what to do about it");
  command
      ->add_option("--memory", memory,
                   "that each rank of the job will take, such as 8GiB: too little fails; what is taken without this "
                   "option is a guess, and too little warns")
      ->capture_default_str();
  command->footer(
      "Exit code 1 on every rank if a job would fail; warnings leave it 0.\n\n"
      "--json prints one object (under sinew-run --no-prefix, or each line of it has its rank before it) whose keys "
      "are always there, null or \"\" where there is nothing to say:\n"
      "  ok        no finding fails\n"
      "  version   of sinew; ranks: how many; hosts: their names; first_ranks: the lowest rank of each\n"
      "  findings  the worst first: severity (ok, warns, fails), what (which check), found, cure, hosts (none: the "
      "job)\n"
      "  links     one direction each: from, to (hosts), from_interface, to_interface, from_address, to_address, "
      "routed,\n"
      "            mtu_bytes, state (unreachable, small_only, carries), why, tries, round_trip_us, bytes_per_s,\n"
      "            passing_bytes (small_only: the longest packets that arrive)\n");
  command->callback([&options, &exit_code, command] {
    std::optional<std::uint64_t> rank_bytes;
    if (command->count("--memory") > 0) rank_bytes = parse_bytes(memory);
    try {
      exit_code = examine_and_print(options, rank_bytes);
    } catch (const Error& error) {
      if (error.code() != Code::Timeout) throw;
      throw Error(error.code(),
                  fmt::format("{}; a job would not start: every host must reach the one of rank 0 over TCP (its "
                              "interfaces, routes and firewall; SINEW_INTERFACE, SINEW_PORTS)",
                              error.what()));
    }
  });
}

}  // namespace sinew::tools

#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>

#include <sinew/collectives/launch/launch.hpp>

#include "../progress.hpp"
#include "commands.hpp"
#include "doctor/examination.hpp"
#include "doctor/report.hpp"

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

doctor::Diagnosis examined(const Launch& launch, const Config& config, std::uint64_t rank_bytes) {
  Rounds rounds(launch.exchange.rank == 0);
  return doctor::examine(launch, config, rank_bytes, [&](int round, int of) { rounds.show(round, of); });
}

}  // namespace

void add_doctor_command(CLI::App& app, const InfoOptions& options, int& exit_code) {
  static std::string memory = format_bytes(doctor::kRankBytes);
  CLI::App* command =
      app.add_subcommand("doctor", "What would fail or slow a job on these hosts, and what to do about it");
  command->add_option("--memory", memory, "that each rank of the job will take, such as 8GiB")->capture_default_str();
  command->callback([&options, &exit_code] {
    const Config config = Config::from_environment();
    const std::uint64_t rank_bytes = parse_bytes(memory);
    const Launch launch = exchange_from_environment(config);
    const doctor::Diagnosis diagnosis = examined(launch, config, rank_bytes);
    if (launch.exchange.rank == 0) {
      std::cout << (options.json ? doctor::to_json(diagnosis) + "\n" : doctor::to_text(diagnosis));
    }
    exit_code = doctor::would_fail(diagnosis.findings) ? 1 : 0;
  });
}

}  // namespace sinew::tools

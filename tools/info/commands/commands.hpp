#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sinew::tools {

/// The options that all sub commands of sinew-info share.
struct InfoOptions {
  bool json = false;
};

/// Each function adds one sub command that prints to standard output.
/// Lifetime: `options` and `exit_code` outlive the app.
void add_topology_command(CLI::App& app, const InfoOptions& options);
void add_config_command(CLI::App& app, const InfoOptions& options);
void add_plan_command(CLI::App& app, const InfoOptions& options);
void add_transports_command(CLI::App& app, const InfoOptions& options);
/// Under a launcher only rank 0 prints. `exit_code` becomes 1 on every rank if a job would fail.
void add_doctor_command(CLI::App& app, const InfoOptions& options, int& exit_code);

/// `exit_code` becomes 1 if a call waits.
void add_hang_command(CLI::App& app, const InfoOptions& options, int& exit_code);

/// Shows running jobs until they end. `exit_code` becomes 1 if a rank has died.
void add_watch_command(CLI::App& app, const InfoOptions& options, int& exit_code);

/// `exit_code` becomes 1 if a call was never completed, or if a log is missing, cut or damaged.
void add_trace_command(CLI::App& app, const InfoOptions& options, int& exit_code);

struct TopologyOptions {
  std::string from;  ///< as described_machine() takes it; empty: this machine
  std::string svg;   ///< files, "-" for standard output; empty: none
  std::string dot;
};

void print_topology(const InfoOptions& options, const TopologyOptions& topology = {});

}  // namespace sinew::tools

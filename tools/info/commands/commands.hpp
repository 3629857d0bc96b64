#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sinew::tools {

/// What all sub commands of sinew-info share.
struct InfoOptions {
  bool json = false;
};

/// Each adds one sub command that prints to stdout. `options` outlives the app.
void add_topology_command(CLI::App& app, const InfoOptions& options);
void add_config_command(CLI::App& app, const InfoOptions& options);
void add_plan_command(CLI::App& app, const InfoOptions& options);
void add_transports_command(CLI::App& app, const InfoOptions& options);
/// Under a launcher only rank 0 prints. `exit_code`: becomes 1 on every rank where a job would fail; outlives the app.
void add_doctor_command(CLI::App& app, const InfoOptions& options, int& exit_code);

/// `exit_code`: becomes 1 where a call waits; outlives the app.
void add_hang_command(CLI::App& app, const InfoOptions& options, int& exit_code);

/// `exit_code`: becomes 1 where a call was never completed, or a log is missing, cut or damaged; outlives the app.
void add_trace_command(CLI::App& app, const InfoOptions& options, int& exit_code);

struct TopologyOptions {
  std::string from;  ///< as described_machine() takes it; empty: this machine
  std::string svg;   ///< files, "-" for standard output; empty: none
  std::string dot;
};

void print_topology(const InfoOptions& options, const TopologyOptions& topology = {});

}  // namespace sinew::tools

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/tools/bench/cases/options.hpp>
#include <sinew/tools/bench/measurement/protocol.hpp>
#include <sinew/topology/network.hpp>

#include "link_load.hpp"

namespace sinew::tools {

/// What is the same for all lines of a run.
struct RunFacts {
  int ranks = 1;
  int hosts = 1;
  std::string peer;                    ///< its name and version; empty: none
  std::string costs;                   ///< World::costs(); empty on a virtual cluster
  std::string virtual_cluster;         ///< the virtual cluster on which the ranks are; empty: none
  std::vector<std::string> assumed{};  ///< figures that its machine does not tell, and the values that are used instead
  Network network{};                   ///< of that cluster
};

/// One measured size.
struct Line {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< elements, per rank as CollectiveDesc counts
  std::string transport;
  std::string algorithm;
  std::optional<double> predicted_s;  ///< point to point has no plan
  Measurement measured;
  std::vector<LinkLoad> links;  ///< of a virtual cluster

  double algorithm_bandwidth() const noexcept;  ///< bytes per second
};

/// The line that --json writes: one JSON object.
std::string to_json(const BenchOptions& options, const RunFacts& facts, const Line& line);

/// The table has the columns of nccl-tests. table_row() also has a line for each tier of links of a virtual cluster.
std::string table_header(const BenchOptions& options, const RunFacts& facts);
std::string table_row(const BenchOptions& options, const RunFacts& facts, const Line& line);

/// The figures of the footer.
struct Totals {
  std::uint64_t wrong = 0;
  std::uint64_t peer_wrong = 0;
  std::size_t differing = 0;  ///< lines whose links carried something else than simulated
  std::size_t noisy = 0;
  std::size_t lines = 0;
  std::size_t timed_lines = 0;
  double bus_bandwidth_sum = 0;
  double speedup_log_sum = 0;

  void add(const BenchOptions& options, const RunFacts& facts, const Line& line);
};
std::string table_footer(const RunFacts& facts, const Totals& totals);

}  // namespace sinew::tools

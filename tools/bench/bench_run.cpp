#include "bench_run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/tools/bench/cases/sweep.hpp>
#include <sinew/tools/bench/measurement/peer_contestant.hpp>
#include <sinew/tools/bench/measurement/sinew_contestant.hpp>
#include <sinew/tools/bench/measurement/world_ranks.hpp>
#include <sinew/tools/bench/report/line.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/common/progress.hpp>
#include <sinew/transports/registry.hpp>

#include "bench.hpp"
#include "tune.hpp"

namespace sinew::tools {
namespace {

WorldOptions world_options(const BenchOptions& options) {
  WorldOptions world;
  if (!options.transports.empty()) world.config.transports = options.transports;
  if (!options.algorithm.empty()) {
    world.config.tune = {fmt::format("{}:0-:{}", name_of(options.what->collective), options.algorithm)};
  }
  return world;
}

/// The ranks are those of the peer. They meet over it if it can gather, and send the secret of the World the same way.
World make_world(const BenchOptions& options, const LoadedPeer* peer) {
  WorldOptions world = world_options(options);
  if (peer == nullptr || peer->functions().all_gather == nullptr) return World::from_environment(std::move(world));
  return world_over(peer->exchange(), std::move(world));
}

UsageError unknown_algorithm(const BenchOptions& options) {
  std::set<std::string_view> known;
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective == options.what->collective) known.insert(a.name);
  }
  known.insert(kHierarchical);
  return UsageError(fmt::format("--algorithm: '{}': expected {} or the name of an offload that is open, for {}",
                                options.algorithm, fmt::join(known, ", "), options.what->name));
}

void require_known_transports(const BenchOptions& options) {
  const std::vector<std::string> known = module_names(Config::from_environment());
  for (const std::string& name : options.transports) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw UsageError(fmt::format("--transport: '{}': expected some of {}", name, fmt::join(known, ", ")));
  }
}

/// A name that nobody has. Offloads have the names of their transports.
void require_known_algorithm(const BenchOptions& options) {
  if (options.algorithm.empty() || options.algorithm == kHierarchical ||
      find_algorithm(options.what->collective, options.algorithm) != nullptr)
    return;
  const auto transports = module_names(Config::from_environment());
  if (std::ranges::find(transports, options.algorithm) == transports.end()) throw unknown_algorithm(options);
}

/// Says what is wrong with --algorithm before a plan lists everything that the rule made of it leaves out.
void require_algorithm(const BenchOptions& options, World& world) {
  if (options.algorithm.empty() || options.algorithm == kHierarchical) return;  // of which the plan has the reasons
  const std::vector<std::uint64_t> counts = skewed_counts(*options.what, world.rank(), world.size(), 1);
  CollectiveDesc desc = desc_of(options, 1, counts, world.size());
  if (options.on_device) desc.place.kind = MemoryKind::Device;
  if (const Algorithm* found = find_algorithm(desc.collective, options.algorithm)) {
    const Availability can = found->supports(desc, world.size());
    if (!can.ok) throw UsageError(fmt::format("--algorithm: '{}' {}", options.algorithm, can.reason));
    return;
  }
  try {
    const Plan plan = world.communicator().plan(desc);  // an offload of that name takes the call
    if (plan.chosen().algorithm == options.algorithm) return;
    throw UsageError(fmt::format("--algorithm: '{}': expected {}, as it takes the memory of devices of several ranks",
                                 options.algorithm, options.on_device ? "2 ranks or more" : "--device"));
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError(fmt::format("--algorithm: {}", e.what()));
  }
}

/// Of layout-invariant sums, which not every number of ranks can make.
void require_layout(const BenchOptions& options, int ranks) {
  const Availability fits = fits_leaf_blocks(desc_of(options, 1, {}, ranks), ranks);
  if (!fits.ok) throw UsageError("--determinism: " + fits.reason);
}

void require_root(const BenchOptions& options, int ranks) {
  if (options.root < ranks) return;
  throw UsageError(fmt::format("-r: {}: expected all, or a rank from 0 to {}, as the job has {} rank{}", options.root,
                               ranks - 1, ranks, ranks == 1 ? "" : "s"));
}

/// Where rank 0 writes; the other ranks write nowhere.
class Output {
 public:
  Output(const BenchOptions& options, bool speaks)
      : name_(options.json), table_(speaks && options.json != "-"), json_(speaks && !options.json.empty()) {
    if (!json_ || options.json == "-") return;
    file_.open(options.json);
    if (!file_)
      throw Error(Code::InvalidArgument,
                  fmt::format("--json: '{}': expected a file that can be written", options.json));
  }
  void table(const std::string& text) {
    if (table_) std::cout << text << std::flush;
  }
  void json(const std::string& text) {
    if (json_) (file_.is_open() ? static_cast<std::ostream&>(file_) : std::cout) << text << std::endl;
  }
  /// Errors: Error{System} if the file is not all there; standard output is looked at when the program ends.
  void finish() {
    if (!file_.is_open()) return;
    errno = 0;
    file_.close();
    if (file_) return;
    throw Error(Code::System, fmt::format("--json: '{}': {}; lines are lost", name_,
                                          errno != 0 ? std::strerror(errno) : "a write failed"));
  }

 private:
  std::string name_;
  bool table_;
  bool json_;
  std::ofstream file_;
};

/// One line of the table.
struct RowToMeasure {
  const BenchOptions* variant;
  std::uint64_t bytes;
};

std::string label_of(const RowToMeasure& row) {
  return fmt::format("{} {} {}", name_of(row.variant->dtype), name_of(row.variant->op), format_bytes(row.bytes));
}

std::vector<RowToMeasure> rows_to_measure(const std::vector<BenchOptions>& variants, int ranks) {
  std::vector<RowToMeasure> rows;
  for (const BenchOptions& v : variants) {
    std::vector<std::uint64_t> sizes{0};
    if (v.what->exercise != Exercise::Barrier) {
      sizes = sweep(v.min_bytes, v.max_bytes, v.growth, unit_bytes(*v.what, v.dtype, ranks));
    }
    for (const std::uint64_t bytes : sizes) rows.push_back({&v, bytes});
  }
  return rows;
}

/// Every rank; the exit code.
int measure_in(World& world, const BenchOptions& options, const LoadedPeer* peer, const VirtualWorld* virtual_world) {
  if (world.size() < options.what->least_ranks) {
    throw UsageError(fmt::format("{}: expected at least {} ranks, found {}; start them with sinew-run or mpirun",
                                 options.what->name, options.what->least_ranks, world.size()));
  }
  require_layout(options, world.size());
  require_root(options, world.size());
  const std::vector<BenchOptions> variants = variants_of(options, world.size());
  for (const BenchOptions& v : variants) {
    require_algorithm(v, world);
    if (peer != nullptr) PeerContestant::require(*peer, v, v.max_bytes / unit_bytes(*v.what, v.dtype, world.size()));
  }
  Output output(options, world.rank() == 0);
  Bench bench(variants.front(), world, peer, virtual_world);
  for (const BenchOptions& v : variants) {
    bench.take_variant(v);
    bench.require_memory();
  }
  output.table(table_header(options, bench.facts()));
  Totals totals;
  const std::vector<RowToMeasure> rows = rows_to_measure(variants, world.size());
  Progress progress(world.rank() == 0 ? rows.size() : 0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const BenchOptions& variant = *rows[r].variant;
    if (world.rank() == 0) progress.show(r, label_of(rows[r]));
    bench.take_variant(variant);
    const Line line = bench.measure_size(rows[r].bytes);
    progress.clear();
    totals.add(variant, bench.facts(), line);
    output.table(table_row(variant, bench.facts(), line));
    output.json(to_json(variant, bench.facts(), line));
  }
  output.table(table_footer(bench.facts(), totals));
  output.finish();
  return totals.wrong + totals.peer_wrong + totals.differing == 0 ? 0 : 1;
}

int run_on_cluster(const BenchOptions& options) {
  if (in_a_job())
    throw UsageError(
        "--cluster: expected no launcher, as its ranks are threads of one process; SINEW_ALONE=1 if one rank alone "
        "runs this");
  VirtualCluster on = virtual_cluster_from(options.cluster, options.network);
  WorldOptions as_asked = world_options(options);
  const auto virtual_world = options.predicts_only()
                                 ? make_virtual_world_with_devices(std::move(on), as_asked.config.transports)
                                 : make_virtual_world(std::move(on));
  if (options.predicts_only()) as_asked.config.transports.clear();  // they have chosen the offloads
  int exit_code = 1;
  run_virtual_ranks(virtual_world, as_asked, [&](World& world) {
    const int code = measure_in(world, options, nullptr, virtual_world.get());
    if (world.rank() == 0) exit_code = code;
  });
  return exit_code;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  require_known_transports(options);
  if (options.tunes) return run_tune(options);
  require_known_algorithm(options);
  if (!options.cluster.empty()) return run_on_cluster(options);
  const auto peer = options.peer.empty() ? nullptr : std::make_unique<LoadedPeer>(options.peer);
  World world = make_world(options, peer.get());
  return measure_in(world, options, peer.get(), nullptr);
}

}  // namespace sinew::tools

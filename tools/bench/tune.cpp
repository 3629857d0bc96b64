#include "tune.hpp"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/selection/times/tuned_times.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/tools/bench/cases/sweep.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/common/output_file.hpp>
#include <sinew/tools/common/progress.hpp>

#include "bench.hpp"

namespace sinew::tools {
namespace {

/// A way this much slower than the best at two sizes one after the other will not catch up.
constexpr double kHopeless = 4;
constexpr int kHopelessSizes = 2;
/// Of all batches of a size: hundreds of lines are measured.
constexpr double kLeastSeconds = 0.02;

/// An algorithm on a transport, or an offload.
struct Way {
  std::string algorithm;
  std::string transport;
  friend auto operator<=>(const Way&, const Way&) = default;
};

/// A collective, and the sizes at which a way can run it.
struct Job {
  const BenchCase* what = nullptr;
  std::vector<std::uint64_t> sizes;
};

/// "shm+tcp": shm and tcp.
std::vector<std::string> parts_of(const std::string& transport) {
  std::vector<std::string> parts;
  std::istringstream text(transport);
  for (std::string part; std::getline(text, part, '+');) parts.push_back(part);
  return parts;
}

bool is_tuned(const BenchCase& c, bool on_device) {
  if (on_device && c.exercise == Exercise::Barrier) return false;
  return !is_message(c.collective) && !has_local_counts(c.collective) && c.exercise != Exercise::Bandwidth;
}

/// The candidate that copies device memory to the host and back.
constexpr std::string_view kStaged = "staged";

class Tuning {
 public:
  Tuning(const BenchOptions& options, World& world) : options_(options), world_(world), ranks_(world.communicator()) {
    options_.least_s = kLeastSeconds;
    for (const BenchCase& c : all_cases()) {
      if (is_tuned(c, options_.on_device)) plan(c);
    }
  }

  TunedTimes run() {
    Progress progress(world_.rank() == 0 ? jobs_.size() : 0);
    std::size_t done = 0;
    for (const auto& [way, jobs] : jobs_) {
      if (world_.rank() == 0) progress.show(done++, way.algorithm + "@" + way.transport);
      WorldOptions only;
      only.config.tune_file.clear();
      only.config.tune.clear();
      restrict(only.config, way, jobs);
      World world = world_over(ranks_.exchange(), std::move(only));
      for (const Job& job : jobs) follow(way, job, world);
    }
    progress.clear();
    return std::move(times_);
  }

 private:
  /// Changes `config` so that calls can only take this way. If an offload of devices is timed, all transports stay
  /// open, because the library sends messages of its own. Without an offload, device memory goes through the host.
  void restrict(Config& config, const Way& way, const std::vector<Job>& jobs) const {
    if (!options_.on_device || way.algorithm == kStaged) config.transports = parts_of(way.transport);
    if (way.algorithm == kStaged) return;
    for (const Job& job : jobs)
      config.tune.push_back(fmt::format("{}:0-:{}@{}", name_of(job.what->collective), way.algorithm, way.transport));
  }

  /// All ways of a collective, each with the sizes that it can run.
  void plan(const BenchCase& what) {
    options_.what = &what;
    const std::uint64_t unit = unit_bytes(what, options_.dtype, world_.size());
    std::vector<std::uint64_t> sizes{0};
    if (what.exercise != Exercise::Barrier)
      sizes = sweep(options_.min_bytes, options_.max_bytes, options_.growth, unit);
    for (const std::uint64_t bytes : sizes) {
      const Place place{options_.on_device ? MemoryKind::Device : MemoryKind::Host};
      const Plan plan = plan_of(options_, world_, bytes / unit, place);
      for (const Candidate& c : plan.candidates()) {
        if (!c.rejected.empty()) continue;
        std::vector<Job>& jobs = jobs_[{c.algorithm, c.transport}];
        if (jobs.empty() || jobs.back().what != &what) jobs.push_back({&what, {}});
        jobs.back().sizes.push_back(bytes);
      }
    }
  }

  void follow(const Way& way, const Job& job, World& world) {
    options_.what = job.what;
    Bench bench(options_, world, nullptr);
    TunedTimes::Way found{std::string(name_of(job.what->collective)), way.algorithm, way.transport, {}};
    if (options_.on_device) found.devices = world_.devices();
    int behind = 0;
    for (const std::uint64_t bytes : job.sizes) {
      const double seconds = ranks_.largest(bench.measure_size(bytes).measured.ours.seconds);
      found.points.push_back({static_cast<double>(bytes), seconds});
      const auto best = best_.try_emplace({job.what, bytes}, seconds).first;
      behind = seconds > kHopeless * best->second ? behind + 1 : 0;
      best->second = std::min(best->second, seconds);
      if (behind == kHopelessSizes) break;
    }
    times_.ways.push_back(std::move(found));
  }

  BenchOptions options_;
  World& world_;
  WorldRanks ranks_;
  std::map<Way, std::vector<Job>> jobs_;
  std::map<std::pair<const BenchCase*, std::uint64_t>, double> best_;
  TunedTimes times_;
};

/// Adds the times that the file already has for other memory than the one that was tuned. Times of another machine, or
/// of another number of ranks on a host, are dropped.
void keep_other_memory(TunedTimes& times, const std::string& file, const std::string& devices) {
  const auto text = file_text(file);
  if (!text || text->empty()) return;
  try {
    TunedTimes earlier = tuned_times_from(*text, file);
    if (earlier.machine != times.machine || earlier.ranks_on != times.ranks_on) return;
    std::erase_if(earlier.ways, [&](const TunedTimes::Way& w) { return w.devices == devices; });
    std::ranges::move(earlier.ways, std::back_inserter(times.ways));
  } catch (const Error&) {
    return;  // something else, which the new times replace
  }
}

}  // namespace

int run_tune(const BenchOptions& options) {
  WorldOptions everything;
  if (!options.transports.empty()) everything.config.transports = options.transports;
  everything.config.tune_file.clear();
  const bool encrypts = everything.config.tls.wanted;
  World world = World::from_environment(std::move(everything));
  if (world.size() < 2)
    throw UsageError("tune: expected at least 2 ranks, found 1; start them with sinew-run or mpirun");
  if (options.on_device && world.devices().empty())
    throw UsageError("--device: expected an accelerator for each rank; sinew-info doctor says what is there");
  OutputFile file("--output", world.rank() == 0 ? options.output : "");
  TunedTimes times = Tuning(options, world).run();
  const Cluster& cluster = world.cluster();
  times.machine = machine_identity({cluster.ranks.front().usable_cores, encrypts});
  for (const std::vector<int>& host : cluster.groups_by_host()) times.ranks_on.push_back(static_cast<int>(host.size()));
  if (world.rank() != 0) return 0;
  const std::size_t timed = times.ways.size();
  keep_other_memory(times, options.output, options.on_device ? world.devices() : "");
  file.write(to_text(times));
  std::cout << fmt::format("{} ways timed; SINEW_TUNE_FILE={} makes jobs of {} ranks on {} host{} use them\n", timed,
                           options.output, world.size(), times.ranks_on.size(), times.ranks_on.size() == 1 ? "" : "s");
  return 0;
}

}  // namespace sinew::tools

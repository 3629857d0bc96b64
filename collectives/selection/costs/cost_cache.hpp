#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <sinew/collectives/selection/times/seen_times.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// What was measured on one kind of machine: what selection predicts from.
struct MeasuredCosts {
  std::map<std::string, CostCurve> links;  ///< a round of a schedule between two processes of one host, by transport
  std::map<std::string, Bytes> offloads;   ///< what each offload decides by
  double copy_bytes_per_s = 0;
  double reduce_bytes_per_s = 0;
  /// The transports for which no time was left, as happens on a busy machine.
  std::set<std::string> unfinished;
  std::string doubt;  ///< the result of Fabric::doubt_in() for the first offload that has doubts; empty: none has
  /// The result of contradiction_in() for a job that was planned by these costs; empty: no job contradicts them.
  std::string contradicted;
  // Seconds since the epoch.
  std::map<std::string, std::int64_t> links_at_s;  ///< when each link was measured
  std::int64_t offloads_at_s = 0;                  ///< when the offloads were measured
  std::int64_t again_at_s = 0;                     ///< the earliest time of another measurement
};

/// The measured costs that may be wrong.
struct Doubts {
  bool offloads = false;        ///< true: the facts of the offloads may be wrong
  std::set<std::string> links;  ///< the transports whose links may cost something else
  std::string text;             ///< the reasons, for users; empty: there are no doubts
};
/// Older costs are doubtful, because the machine may have changed.
inline constexpr std::int64_t kOldAfterSeconds = 14 * 24 * 3600;
SINEW_API Doubts doubts_about(const MeasuredCosts& costs, std::int64_t now_s);

/// How a job uses its machine.
struct MachineUse {
  MachineUse(int usable_cores, bool encrypts_tcp = false) : cores(usable_cores), encrypts(encrypts_tcp) {}
  int cores;
  bool encrypts;  ///< what tcp sends (SINEW_TLS)
};

/// What costs hold for: the processor, how the job uses it, the kernel and this version.
SINEW_API std::string machine_identity(MachineUse use);

/// The file costs are kept in between jobs: SINEW_CACHE, else sinew/costs.json in the user's cache folder; empty where
/// there is no home either.
SINEW_API std::string cost_cache_file(const Config& config);

/// nullopt where there is none for this machine, this use of it, and this version, or it cannot be
/// read (a log line says why).
SINEW_API std::optional<MeasuredCosts> load_costs(const std::string& file, MachineUse use);
/// Keeps what the file says of other machines, and replaces it in one step. What is no regular file, holds something
/// else or cannot be written is left alone: a log line, not an error.
SINEW_API void save_costs(const std::string& file, MachineUse use, const MeasuredCosts& costs);

/// The times of calls on devices of this kind (device_kind()) that earlier jobs have kept in the file. Empty: there are
/// none, or they cannot be read (a log line says why).
SINEW_API SeenTimes load_seen_times(const std::string& file, const std::string& devices);
/// Adds the times of this job to those in the file, as save_costs() replaces it.
SINEW_API void save_seen_times(const std::string& file, const SeenTimes& times);

SINEW_API Bytes to_bytes(const MeasuredCosts& costs);
SINEW_API MeasuredCosts costs_from_bytes(const Bytes& bytes);

}  // namespace sinew

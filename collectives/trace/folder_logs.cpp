#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/trace/job_trace.hpp>

namespace sinew {
namespace {

bool is_log_name(const std::string& name) {
  int generation = 0, rank = 0, end = 0;
  return std::sscanf(name.c_str(), "sinew-%d-rank-%d.calls%n", &generation, &rank, &end) == 2 &&
         static_cast<std::size_t>(end) == name.size();
}

/// Adds a log to its job; refuses one that cannot be of the job that it says it is of.
void add(RankLog log, std::map<std::pair<std::uint32_t, std::uint64_t>, JobLogs>& jobs, FolderLogs& found) {
  const LogSummary& about = log.about();
  JobLogs& job = jobs[{about.generation, about.job}];
  if (job.logs.empty()) {
    job.generation = about.generation;
    job.ranks = about.ranks;
    job.opened_realtime = about.opened_realtime;
  }
  const auto same_rank = [&](const RankLog& other) { return other.about().rank == about.rank; };
  if (about.ranks != job.ranks || std::ranges::any_of(job.logs, same_rank)) {
    found.refused.push_back(fmt::format("{}: another log of the same job says that it has {} ranks, or is of rank {}",
                                        about.path, job.ranks, about.rank));
    return;
  }
  job.opened_realtime = std::min(job.opened_realtime, about.opened_realtime);
  job.logs.push_back(std::move(log));
}

}  // namespace

FolderLogs logs_in_folder(const std::string& folder) {
  FolderLogs found;
  std::map<std::pair<std::uint32_t, std::uint64_t>, JobLogs> jobs;
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_log_name(at->path().filename().string())) paths.push_back(at->path().string());
  }
  if (error) {
    throw Error(Code::InvalidArgument, fmt::format("'{}': cannot be read: {}; expected a folder of logs of calls, as "
                                                   "SINEW_TRACE={} keeps them",
                                                   folder, error.message(), folder));
  }
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    try {
      add(RankLog(path), jobs, found);
    } catch (const Error& e) {
      found.refused.emplace_back(e.what());
    }
  }
  if (jobs.empty()) {
    const std::string why = found.refused.empty() ? std::string() : ": " + found.refused.front();
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': has no logs of calls{}; expected sinew-GENERATION-rank-RANK.calls of each rank, as "
                            "a job with SINEW_TRACE={} keeps them",
                            folder, why, folder));
  }
  for (auto& [key, job] : jobs) {
    std::ranges::sort(job.logs, {}, [](const RankLog& log) { return log.about().rank; });
    auto log = job.logs.begin();
    for (int rank = 0; rank < job.ranks; ++rank) {
      if (log != job.logs.end() && log->about().rank == rank) {
        ++log;
      } else {
        job.missing.push_back(rank);
      }
    }
    found.jobs.push_back(std::move(job));
  }
  std::ranges::stable_sort(found.jobs, std::ranges::greater(), &JobLogs::opened_realtime);
  return found;
}

}  // namespace sinew

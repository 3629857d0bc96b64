#include "record_sources.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/control/trace_file.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew::tools {
namespace {

namespace fs = std::filesystem;

/// Tells what lies at a place where a page may begin.
enum class PageKind : std::uint8_t { None, Page, OfAnotherVersion };

PageKind kind_of_page(const std::byte* at) noexcept {
  const std::uint64_t magic = reinterpret_cast<const RecordPage*>(at)->magic.load(std::memory_order_acquire);
  if (magic == RecordPage::kMagic) return PageKind::Page;
  const bool is_like = ((magic ^ RecordPage::kMagic) & RecordPage::kMagicOfAll) == 0;
  return is_like ? PageKind::OfAnotherVersion : PageKind::None;
}

constexpr std::string_view kAnotherVersion =
    "has records of another version of sinew; expected this one's: use the sinew-info that came with the job's sinew";

RankRecords rank_of(std::shared_ptr<const std::byte> memory, const std::byte* at) {
  RankRecords of;
  of.page = {std::move(memory), reinterpret_cast<const RecordPage*>(at)};
  of.rank = of.page->rank.load(std::memory_order_relaxed);
  of.process = of.page->pid.load(std::memory_order_relaxed);
  of.state = state_of_process(of.process);
  return of;
}

/// Puts a rank in its place, and ranks without records in front of it.
void add(RankRecords of, std::vector<RankRecords>& to) {
  if (of.rank < 0) return;
  const auto place = static_cast<std::size_t>(of.rank);
  while (to.size() <= place)
    to.push_back({.rank = static_cast<int>(to.size()), .process = 0, .state = '\0', .page = {}});
  to[place] = std::move(of);
}

pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::stol(line.substr(5)));
  }
  return 0;
}

/// One of `only`, or started by one of them.
bool is_of(pid_t process, const std::vector<pid_t>& only) {
  for (pid_t p = process; p > 1; p = parent_of(p)) {
    if (std::ranges::find(only, p) != only.end()) return true;
  }
  return only.empty();
}

std::shared_ptr<const std::byte> map(const FileDescriptor& file, off_t first, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), first);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<const std::byte*>(memory),
          [bytes](const std::byte* m) { ::munmap(const_cast<std::byte*>(m), bytes); }};
}

/// The pages that were found, and whether there are some that cannot be read.
struct FoundPages {
  std::vector<RankRecords> ranks{};
  bool any_of_another_version = false;
};

/// Finds pages in what a process shows its peers: a sparse file in memory, of which only what is there is looked at. A
/// page that was hardly written to is mostly hole.
void find_pages(const std::string& descriptor, FoundPages& found) {
  const FileDescriptor file(::open(descriptor.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return;
  constexpr std::size_t kStep = 64;  // records begin on a cache line
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (off_t data = ::lseek(file.get(), 0, SEEK_DATA); data >= 0;) {
    const off_t hole = ::lseek(file.get(), data, SEEK_HOLE);
    if (hole <= data) break;
    const auto bytes = static_cast<std::size_t>(hole - data);
    const auto there = map(file, data, bytes);
    for (std::size_t at = 0; there && at + kStep <= bytes; at += kStep) {
      const PageKind kind = kind_of_page(there.get() + at);
      if (kind == PageKind::OfAnotherVersion) found.any_of_another_version = true;
      if (kind != PageKind::Page) continue;
      const std::size_t before = at % page;
      const auto whole = map(file, data + static_cast<off_t>(at - before), before + sizeof(RecordPage));
      if (whole) found.ranks.push_back(rank_of(whole, whole.get() + before));
    }
    data = ::lseek(file.get(), hole, SEEK_DATA);
  }
}

/// "sinew-GENERATION-rank-RANK.trace": the generation.
std::optional<int> generation_of(const std::string& name) {
  int generation = 0, rank = 0, end = 0;
  const bool is_one = std::sscanf(name.c_str(), "sinew-%d-rank-%d.trace%n", &generation, &rank, &end) == 2 &&
                      static_cast<std::size_t>(end) == name.size();
  return is_one ? std::optional(generation) : std::nullopt;
}

void add_page_in(const fs::path& file, FoundPages& found) {
  if (const auto memory = map_file(file.string(), sizeof(RecordPage));
      memory && kind_of_page(memory.get()) == PageKind::Page) {
    found.ranks.push_back(rank_of(memory, memory.get()));
    return;
  }
  const auto magic = map_file(file.string(), sizeof(RecordPage::magic));
  if (magic && kind_of_page(magic.get()) == PageKind::OfAnotherVersion) found.any_of_another_version = true;
}

/// Of a process: what it shows its peers, or writes to a trace file.
FoundPages pages_of_process(const fs::path& process) {
  FoundPages found;
  std::error_code hidden;
  for (const auto& descriptor : fs::directory_iterator(process / "fd", hidden)) {
    if (!fs::read_symlink(descriptor.path(), hidden).string().starts_with("/memfd:sinew ")) continue;
    find_pages(descriptor.path().string(), found);
  }
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    const fs::path file = line.substr(std::min(line.find('/'), line.size()));
    if (generation_of(file.filename().string())) add_page_in(file, found);
  }
  return found;
}

/// Errors: InvalidArgument for a process that does not exist or that this user may not look at.
void require_readable(pid_t process) {
  std::error_code error;
  const fs::directory_iterator open_files(fmt::format("/proc/{}/fd", process), error);
  if (!error) return;
  const bool is_forbidden = error == std::errc::permission_denied;
  throw Error(Code::InvalidArgument,
              fmt::format("process {}: {}", process,
                          is_forbidden ? "this user may not look at it; expected one of this user's processes"
                                       : "does not exist; expected a process of a running job, or its launcher"));
}

}  // namespace

std::vector<JobRecords> jobs_in_folder(const std::string& folder) {
  std::map<int, std::vector<RankRecords>, std::greater<>> generations;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto generation = generation_of(entry.path().filename().string());
    if (!generation) continue;
    FoundPages found;
    add_page_in(entry.path(), found);
    if (found.any_of_another_version)
      throw Error(Code::InvalidArgument, fmt::format("'{}': {}", entry.path().string(), kAnotherVersion));
    for (RankRecords& of : found.ranks) add(std::move(of), generations[*generation]);
  }
  if (error)
    throw Error(Code::InvalidArgument, fmt::format("'{}': cannot be read: {}; expected a folder of records, as "
                                                   "SINEW_TRACE={} keeps them",
                                                   folder, error.message(), folder));
  if (generations.empty())
    throw Error(
        Code::InvalidArgument,
        fmt::format("'{}': has no records; expected sinew-GENERATION-rank-RANK.trace of each rank, as a job with "
                    "SINEW_TRACE={} keeps them",
                    folder, folder));
  std::vector<JobRecords> jobs;
  for (auto& [generation, ranks] : generations)
    jobs.push_back({fmt::format("{}, generation {}", folder, generation), std::move(ranks)});
  return jobs;
}

std::vector<JobRecords> jobs_running(const std::vector<pid_t>& only) {
  std::map<pid_t, std::vector<RankRecords>> by_parent;
  std::set<std::pair<pid_t, int>> seen;
  std::optional<long> of_another_version;
  for (const pid_t process : only) require_readable(process);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto process = parse_number<long>(entry.path().filename().string());
    if (!process || !is_of(static_cast<pid_t>(*process), only)) continue;
    FoundPages found = pages_of_process(entry.path());
    if (found.any_of_another_version) of_another_version = process;
    for (RankRecords& of : found.ranks) {
      if (of.process != *process || has_left(of) || !seen.emplace(of.process, of.rank).second) continue;
      add(std::move(of), by_parent[parent_of(static_cast<pid_t>(*process))]);
    }
  }
  if (by_parent.empty() && of_another_version)
    throw Error(Code::InvalidArgument, fmt::format("process {} {}", *of_another_version, kAnotherVersion));
  if (by_parent.empty())
    throw Error(
        Code::InvalidArgument,
        fmt::format("no process {}shows records: expected a running job of two processes or more on this host that "
                    "this user may look at, or a folder of records (SINEW_TRACE)",
                    only.empty() ? "" : fmt::format("of {} ", fmt::join(only, ", "))));
  std::vector<JobRecords> jobs;
  for (auto& [parent, ranks] : by_parent)
    jobs.push_back({fmt::format("processes started by {}", parent), std::move(ranks)});
  return jobs;
}

}  // namespace sinew::tools

#include <algorithm>
#include <sstream>

#include <sinew/core/base/name_list.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/host/cgroups.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/core/system/kernel_files.hpp>

namespace sinew {

using namespace kernel_files;

namespace {

namespace fs = std::filesystem;

/// Version 1 writes "no limit" as the largest multiple of a page.
constexpr std::uint64_t kNoCgroupLimit = std::uint64_t{1} << 62;

/// A place where a hierarchy of control groups, or a part of one, is mounted.
struct CgroupMount {
  std::string root;   ///< the group that is mounted
  std::string place;  ///< where
  std::string controllers;
  bool unified = false;
};

/// mountinfo writes blanks and backslashes as three octal digits: the unit "a\x2db" of systemd is "a\134x2db" there.
std::string without_escapes(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto code = text[0] == '\\' ? parse_number<unsigned char>(text.substr(1, 3), 8) : std::nullopt;
    plain += code ? static_cast<char>(*code) : text[0];
    text.remove_prefix(code ? 4 : 1);
  }
  return plain;
}

/// A line of mountinfo: "36 35 0:30 ROOT PLACE OPTIONS.. - TYPE SOURCE CONTROLLERS".
std::optional<CgroupMount> cgroup_mount_of(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  CgroupMount mount;
  std::string skipped;
  std::string type;
  std::istringstream(line) >> skipped >> skipped >> skipped >> mount.root >> mount.place;
  std::istringstream(line.substr(dash + 3)) >> type >> skipped >> mount.controllers;
  if (type != "cgroup" && type != "cgroup2") return std::nullopt;
  mount.unified = type == "cgroup2";
  mount.root = without_escapes(mount.root);
  mount.place = without_escapes(mount.place);
  return mount;
}

/// A group as the kernel names it: seen from the root of this process's cgroup namespace. "/../../a" is two levels
/// above that root, then below a; the kernel does not tell the names of the levels between.
struct GroupName {
  std::size_t above = 0;
  fs::path below;

  explicit GroupName(const std::string& text) {
    for (const fs::path& part : fs::path(text).relative_path()) {
      if (part == "..") {
        ++above;
      } else {
        below /= part;
      }
    }
  }
};

/// The way from a mounted group down to another: so many levels without names, then `below`.
struct Descent {
  std::size_t nameless = 0;
  fs::path below;
};

/// nullopt: the group is not below the one that is mounted.
std::optional<Descent> descent(const GroupName& mounted, const GroupName& group) {
  if (mounted.above > group.above && mounted.below.empty()) return Descent{mounted.above - group.above, group.below};
  if (mounted.above != group.above) return std::nullopt;
  const auto [of_mounted, of_group] = std::ranges::mismatch(mounted.below, group.below);
  if (of_mounted != mounted.below.end()) return std::nullopt;
  Descent way;
  for (auto part = of_group; part != group.below.end(); ++part) way.below /= *part;
  return way;
}

/// The folder `levels` below `top` whose group `below` lists the process; nullopt: none does.
std::optional<fs::path> folder_with(const std::string& process, const fs::path& top, std::size_t levels,
                                    const fs::path& below) {
  if (levels == 0) {
    const auto processes = lines_in(top / below / "cgroup.procs");
    return std::ranges::find(processes, process) == processes.end() ? std::nullopt : std::optional(top);
  }
  std::error_code gone;
  for (fs::directory_iterator entry(top, gone); entry != fs::directory_iterator(); entry.increment(gone)) {
    if (!entry->is_directory(gone)) continue;
    if (auto found = folder_with(process, entry->path(), levels - 1, below)) return found;
  }
  return std::nullopt;
}

/// From the group up to what is mounted. A group that is not below it, or cannot be found there, gives the top alone.
std::vector<fs::path> folders_between(const fs::path& root, const fs::path& top, const std::optional<Descent>& way) {
  std::vector<fs::path> folders;
  std::optional<fs::path> from;
  if (way && way->nameless == 0) from = top;
  if (way && way->nameless > 0) {
    from = folder_with(behind_label(lines_in(root / "proc/self/status"), "Pid:"), top, way->nameless, way->below);
  }
  if (from) {
    fs::path at = *from;
    for (const fs::path& part : way->below) at /= part;
    for (; at != top; at = at.parent_path()) folders.push_back(at);
  }
  folders.push_back(top);
  return folders;
}

/// Several mounts may show the group, and each may hide other levels: all that are seen count.
std::vector<fs::path> folders_of(const fs::path& root, const std::vector<CgroupMount>& mounts,
                                 const std::string& controllers, const std::string& group) {
  std::vector<fs::path> folders;
  std::vector<fs::path> tops;
  for (const CgroupMount& mount : mounts) {
    // No two hierarchies of version 1 have a controller in common.
    const std::string_view first = std::string_view(controllers).substr(0, controllers.find(','));
    if (controllers.empty() ? !mount.unified : mount.unified || !is_among(mount.controllers, first)) continue;
    const auto way = descent(GroupName(mount.root), GroupName(group));
    const auto seen = folders_between(root, root / fs::path(mount.place).relative_path(), way);
    std::vector<fs::path>& kept = way ? folders : tops;
    kept.insert(kept.end(), seen.begin(), seen.end());
  }
  return folders.empty() ? tops : folders;
}

/// nullopt: "max", or nothing there.
std::optional<std::uint64_t> cgroup_limit_in(const fs::path& file) {
  const auto number = number_in(file);
  return number && *number < kNoCgroupLimit ? number : std::nullopt;
}

/// The level that leaves least.
template <class UsedIn>
std::optional<CgroupRoom> tightest(const std::vector<fs::path>& folders, const char* most, UsedIn used_in) {
  std::optional<CgroupRoom> least;
  for (const fs::path& folder : folders) {
    const auto limit = cgroup_limit_in(folder / most);
    if (!limit) continue;
    CgroupRoom room{*limit, used_in(folder), (folder / most).string()};
    if (!least || room.left() < least->left()) least = std::move(room);
  }
  return least;
}

}  // namespace

Cgroups::Cgroups(fs::path root) {
  std::vector<CgroupMount> mounts;
  for (const std::string& line : lines_in(root / "proc/self/mountinfo")) {
    if (auto mount = cgroup_mount_of(line)) mounts.push_back(std::move(*mount));
  }
  for (const std::string& line : lines_in(root / "proc/self/cgroup")) {  // "4:memory:/a/b", of version 2 "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    auto folders = folders_of(root, mounts, controllers, line.substr(second + 1));
    if (!folders.empty()) hierarchies_.push_back({std::move(controllers), std::move(folders)});
  }
}

Cgroups::Levels Cgroups::levels(std::string_view controller) const {
  for (const Hierarchy& h : hierarchies_) {
    if (is_among(h.controllers, controller)) return {h.folders, false};
  }
  const auto unified = std::ranges::find(hierarchies_, "", &Hierarchy::controllers);
  return {unified == hierarchies_.end() ? std::vector<fs::path>{} : unified->folders, true};
}

std::optional<CgroupRoom> Cgroups::memory() const {
  const auto [folders, unified] = levels("memory");
  return tightest(folders, unified ? "memory.max" : "memory.limit_in_bytes", [v2 = unified](const fs::path& f) {
    const std::uint64_t used = number_in(f / (v2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
    const std::uint64_t idle = labelled(f / "memory.stat", v2 ? "inactive_file" : "total_inactive_file").value_or(0);
    return used - std::min(used, idle);
  });
}

std::optional<CgroupRoom> Cgroups::swap() const {
  return tightest(levels("memory").folders, "memory.swap.max",
                  [](const fs::path& folder) { return number_in(folder / "memory.swap.current").value_or(0); });
}

std::optional<CgroupRoom> Cgroups::tasks() const {
  return tightest(levels("pids").folders, "pids.max",
                  [](const fs::path& folder) { return number_in(folder / "pids.current").value_or(0); });
}

std::optional<CpuQuota> Cgroups::cpu() const {
  const auto [folders, unified] = levels("cpu");
  std::optional<CpuQuota> least;
  for (const fs::path& folder : folders) {
    const fs::path file = folder / (unified ? "cpu.max" : "cpu.cfs_quota_us");
    std::istringstream text(file_text(file.string()).value_or(""));  // "max 100000", "200000 100000"; -1: none
    double quota = 0;
    double period = unified ? 0 : static_cast<double>(number_in(folder / "cpu.cfs_period_us").value_or(0));
    if (!(text >> quota) || (unified && !(text >> period)) || quota <= 0 || period <= 0) continue;
    if (!least || quota / period < least->cores) least = CpuQuota{quota / period, file.string()};
  }
  return least;
}

}  // namespace sinew

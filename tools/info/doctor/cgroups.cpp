#include "cgroups.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include <sinew/core/file_text.hpp>

#include "kernel_files.hpp"

namespace sinew::doctor {
namespace {

namespace fs = std::filesystem;

/// Version 1 writes "no limit" as the largest multiple of a page.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;

struct Mount {
  std::string root;   ///< the part of the hierarchy that is mounted
  std::string place;  ///< where
  std::string controllers;
  bool unified = false;
};

/// A line of mountinfo: "36 35 0:30 ROOT PLACE OPTIONS.. - TYPE SOURCE CONTROLLERS".
std::optional<Mount> mount_of(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  Mount mount;
  std::string skipped;
  std::string type;
  std::istringstream(line) >> skipped >> skipped >> skipped >> mount.root >> mount.place;
  std::istringstream(line.substr(dash + 3)) >> type >> skipped >> mount.controllers;
  if (type != "cgroup" && type != "cgroup2") return std::nullopt;
  mount.unified = type == "cgroup2";
  return mount;
}

/// From the group up to where the hierarchy is mounted; a group that is outside of what is mounted counts as its top.
std::vector<fs::path> folders_of(const fs::path& root, const Mount& mount, std::string group) {
  if (mount.root != "/") group = group.starts_with(mount.root) ? group.substr(mount.root.size()) : "";
  if (group.find("..") != std::string::npos) group.clear();
  std::vector<fs::path> folders;
  const fs::path top = root / fs::path(mount.place).relative_path();
  for (fs::path at = fs::path(group).relative_path(); !at.empty(); at = at.parent_path()) folders.push_back(top / at);
  folders.push_back(top);
  return folders;
}

/// nullopt: "max", or nothing there.
std::optional<std::uint64_t> limit_in(const fs::path& file) {
  const auto number = number_in(file);
  return number && *number < kUnlimited ? number : std::nullopt;
}

/// The level that leaves least.
template <class UsedIn>
std::optional<Room> tightest(const std::vector<fs::path>& folders, const char* most, UsedIn used_in) {
  std::optional<Room> least;
  for (const fs::path& folder : folders) {
    const auto limit = limit_in(folder / most);
    if (!limit) continue;
    Room room{*limit, used_in(folder), (folder / most).string()};
    if (!least || room.left() < least->left()) least = std::move(room);
  }
  return least;
}

}  // namespace

Cgroups::Cgroups(fs::path root) : root_(std::move(root)) {
  std::vector<Mount> mounts;
  for (const std::string& line : lines_in(root_ / "proc/self/mountinfo")) {
    if (auto mount = mount_of(line)) mounts.push_back(std::move(*mount));
  }
  for (const std::string& line : lines_in(root_ / "proc/self/cgroup")) {  // "4:memory:/a/b", of version 2 "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const auto mount = std::ranges::find_if(mounts, [&](const Mount& m) {
      return controllers.empty() ? m.unified : !m.unified && has_word(m.controllers, controllers);
    });
    if (mount != mounts.end()) {
      hierarchies_.push_back({"," + controllers + ",", folders_of(root_, *mount, line.substr(second + 1))});
    }
  }
}

Cgroups::Found Cgroups::levels(std::string_view controller) const {
  static const std::vector<fs::path> none;
  const auto of = [this](std::string_view name) {
    return std::ranges::find_if(hierarchies_, [&](const Hierarchy& h) {
      return h.controllers.find(fmt::format(",{},", name)) != std::string::npos;
    });
  };
  if (const auto v1 = of(controller); v1 != hierarchies_.end()) return {v1->folders, false};
  const auto v2 = of("");
  return {v2 == hierarchies_.end() ? none : v2->folders, true};
}

std::optional<Room> Cgroups::memory() const {
  const auto [folders, unified] = levels("memory");
  return tightest(folders, unified ? "memory.max" : "memory.limit_in_bytes", [v2 = unified](const fs::path& f) {
    const std::uint64_t used = number_in(f / (v2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
    const std::uint64_t idle = labelled(f / "memory.stat", v2 ? "inactive_file" : "total_inactive_file").value_or(0);
    return used - std::min(used, idle);
  });
}

std::optional<Room> Cgroups::swap() const {
  return tightest(levels("memory").folders, "memory.swap.max",
                  [](const fs::path& folder) { return number_in(folder / "memory.swap.current").value_or(0); });
}

std::optional<Room> Cgroups::tasks() const {
  return tightest(levels("pids").folders, "pids.max",
                  [](const fs::path& folder) { return number_in(folder / "pids.current").value_or(0); });
}

std::optional<Quota> Cgroups::cpu() const {
  const auto [folders, unified] = levels("cpu");
  std::optional<Quota> least;
  for (const fs::path& folder : folders) {
    const fs::path file = folder / (unified ? "cpu.max" : "cpu.cfs_quota_us");
    std::istringstream text(file_text(file.string()).value_or(""));  // "max 100000", "200000 100000"; -1: none
    double quota = 0;
    double period = unified ? 0 : static_cast<double>(number_in(folder / "cpu.cfs_period_us").value_or(0));
    if (!(text >> quota) || (unified && !(text >> period)) || quota <= 0 || period <= 0) continue;
    if (!least || quota / period < least->cores) least = Quota{quota / period, file.string()};
  }
  return least;
}

}  // namespace sinew::doctor

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinew::doctor {

/// What a limit leaves.
struct Room {
  std::uint64_t most = 0;
  std::uint64_t used = 0;
  std::string where;  ///< the file that says so
  std::uint64_t left() const noexcept { return used < most ? most - used : 0; }
  friend bool operator==(const Room&, const Room&) = default;
};

/// CPU time of a control group, in cores.
struct Quota {
  double cores = 0;
  std::string where;
  friend bool operator==(const Quota&, const Quota&) = default;
};

/// The control groups of this process and all above them, version 1 or 2, as far as they can be seen: every level
/// counts, and the tightest is what holds. Looks below `root`, "/" or a recorded tree. nullopt: no limit.
class Cgroups {
 public:
  explicit Cgroups(std::filesystem::path root);

  /// Bytes; what the kernel would give back at once (files that nobody has used lately) is not used.
  std::optional<Room> memory() const;
  /// Bytes of swap space; of version 1, which limits it together with memory, not known.
  std::optional<Room> swap() const;
  /// Processes and threads.
  std::optional<Room> tasks() const;
  std::optional<Quota> cpu() const;

 private:
  struct Hierarchy {
    std::string controllers;                     ///< ",cpu,cpuacct,"; of version 2: ",,"
    std::vector<std::filesystem::path> folders;  ///< from this process's group upwards
  };
  /// Of version 1 if that has it, else of version 2; and whether it is version 2.
  struct Found {
    const std::vector<std::filesystem::path>& folders;
    bool unified;
  };
  Found levels(std::string_view controller) const;

  std::filesystem::path root_;
  std::vector<Hierarchy> hierarchies_;
};

}  // namespace sinew::doctor

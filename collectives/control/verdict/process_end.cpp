#include <sys/ioctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <sinew/collectives/control/verdict/process_end.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew {
namespace {

/// As <linux/pidfd.h> of Linux 6.15 has it; headers of the build machine may be older than the kernel.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::uint32_t ids[11];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kInfoExit = 1 << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

/// The wait status of a process that nobody has waited for yet.
std::optional<int> status_of_zombie(pid_t process) {
  constexpr int kFieldsToExitCode = 50;  // field 52; the text begins with field 3
  std::istringstream fields(stat_of_process(process));
  std::string field;
  for (int i = 0; i < kFieldsToExitCode && fields >> field; ++i) {
    if (i == 0 && field != "Z" && field != "X") return std::nullopt;
  }
  return fields ? std::optional(std::atoi(field.c_str())) : std::nullopt;
}

/// Sockets of a process close a moment before it is a zombie.
constexpr auto kBecomesZombieWithin = std::chrono::milliseconds(100);

std::optional<int> status_soon(pid_t process) {
  const Deadline until = Deadline::after(kBecomesZombieWithin);
  std::optional<int> status = status_of_zombie(process);
  while (!status && !stat_of_process(process).empty() && !until.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    status = status_of_zombie(process);
  }
  return status;
}

}  // namespace

std::string how_it_ended(int pidfd, pid_t process) {
  std::optional<int> status = status_soon(process);
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (!status && pidfd >= 0 && ::ioctl(pidfd, kGetInfo, &info) == 0 && (info.mask & kInfoExit) != 0) {
    status = info.exit_code;
  }
  if (!status) return "ended";
  if (WIFSIGNALED(*status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(*status), ::strsignal(WTERMSIG(*status)));
  return fmt::format("exited with code {}", WEXITSTATUS(*status));
}

}  // namespace sinew

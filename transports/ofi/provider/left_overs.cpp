#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>

namespace sinew::ofi {
namespace {

namespace files = std::filesystem;

constexpr std::string_view kPrefix = "sinew-ofi-";

struct Owner {
  std::uint64_t pid_namespace = 0;
  std::uint64_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since the machine began
};

std::uint64_t own_pid_namespace() {
  struct stat s {};
  return ::stat("/proc/self/ns/pid", &s) == 0 ? s.st_ino : 0;
}

/// nullopt: there is no such process, or it has died and waits for its parent to ask.
std::optional<std::uint64_t> start_of(std::uint64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // Behind the command's name, which may hold anything: state, and 19 fields on the start time.
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return std::nullopt;
  for (int i = 0; i < 19; ++i) fields >> field;
  return parse_number<std::uint64_t>(field).value_or(0);
}

std::optional<Owner> parse(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.find(':') == std::string_view::npos) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  Owner o;
  for (auto [field, end] : {std::pair{&o.pid_namespace, '-'}, {&o.pid, '-'}, {&o.start, ':'}}) {
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), *field);
    const auto used = static_cast<std::size_t>(rest - name.data());
    if (error != std::errc() || used == name.size() || *rest != end) return std::nullopt;
    name.remove_prefix(used + 1);
  }
  return o;
}

}  // namespace

OwnName new_own_name() {
  const auto pid = static_cast<std::uint64_t>(::getpid());
  return {fmt::format("{}{}-{}-{}", kPrefix, own_pid_namespace(), pid, start_of(pid).value_or(0)),
          fmt::format("{:016x}", random_id())};
}

int remove_left_overs(const files::path& folder) {
  const std::uint64_t here = own_pid_namespace();
  int removed = 0;
  std::error_code failed;
  for (const auto& entry : files::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    const std::optional<Owner> owner = parse(name);
    if (!owner || owner->pid_namespace != here || start_of(owner->pid) == owner->start) continue;
    struct stat s {};
    if (::lstat(entry.path().c_str(), &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != ::geteuid()) continue;
    if (::unlink(entry.path().c_str()) != 0) continue;
    ++removed;
    log::debug("ofi: removed {}, whose process {} has died", name, owner->pid);
  }
  return removed;
}

std::string shared_memory_place() {
  struct stat s {};
  const auto device = ::stat("/dev/shm", &s) == 0 ? static_cast<std::uint64_t>(s.st_dev) : 0;
  return fmt::format("pid namespace {}, /dev/shm {}", own_pid_namespace(), device);
}

}  // namespace sinew::ofi

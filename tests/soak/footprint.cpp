#include "footprint.hpp"

#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace sinew::soak {
namespace {

std::string kind_of_socket(int descriptor) {
  int domain = 0, listens = 0;
  socklen_t length = sizeof domain;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return "closed";
  length = sizeof listens;
  ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length);
  return fmt::format("{} {}", domain == AF_UNIX ? "UNIX" : "TCP", listens != 0 ? "listener" : "socket");
}

std::string kind_of(const std::filesystem::directory_entry& entry) {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
  if (error) return "closed";
  if (target.starts_with("anon_inode:")) return target.substr(target.find(':') + 1);
  if (!target.starts_with("socket:")) return target.substr(0, target.find(':'));
  const std::string number = entry.path().filename().string();
  int descriptor = -1;
  std::from_chars(number.data(), number.data() + number.size(), descriptor);
  return kind_of_socket(descriptor);
}

}  // namespace

Footprint footprint_now() {
  malloc_trim(0);
  Footprint now;
  std::int64_t all_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> now.resident_bytes;
  now.resident_bytes *= sysconf(_SC_PAGESIZE);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++now.descriptors;
    ++now.kinds[kind_of(entry)];
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  return now;
}

std::string changes(const Footprint& before, const Footprint& after) {
  std::map<std::string, std::pair<int, int>> all;
  for (const auto& [kind, count] : before.kinds) all[kind].first = count;
  for (const auto& [kind, count] : after.kinds) all[kind].second = count;
  std::string text;
  for (const auto& [kind, count] : all)
    if (count.first != count.second)
      text += fmt::format("{}{}: {} before, {} after", text.empty() ? "" : ", ", kind, count.first, count.second);
  return text;
}

}  // namespace sinew::soak

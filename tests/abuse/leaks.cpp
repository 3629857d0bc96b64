#include "leaks.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace sinew::abuse {
namespace {

/// The words of each line of a table of the kernel's.
std::vector<std::vector<std::string>> rows_of(const char* file) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

}  // namespace

std::set<std::string> what_is_there() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("ofi_")) all.insert("/dev/shm/" + name);
  }
  for (const auto& row : rows_of("/proc/net/unix")) {
    if (row.size() == 8) all.insert("socket " + row[7]);
  }
  constexpr const char* kListening = "0A";
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const auto& row : rows_of(file)) {
      if (row.size() > 3 && row[3] == kListening) all.insert("listener " + row[1]);
    }
  }
  return all;
}

std::set<std::string> left_since(const std::set<std::string>& before) {
  const std::set<std::string> now = what_is_there();
  std::set<std::string> left;
  std::ranges::set_difference(now, before, std::inserter(left, left.end()));
  return left;
}

}  // namespace sinew::abuse

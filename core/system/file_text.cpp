#include <algorithm>
#include <array>
#include <fstream>

#include <sinew/core/system/file_text.hpp>

namespace sinew {

std::optional<std::string> file_text(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 4096> part;  // not a page
  while (text.size() < most && (file.read(part.data(), part.size()) || file.gcount() > 0))
    text.append(part.data(), std::min(static_cast<std::size_t>(file.gcount()), most - text.size()));
  if (!file.is_open() || file.bad()) return std::nullopt;
  return text;
}

}  // namespace sinew

#include <array>
#include <fstream>

#include <sinew/core/file_text.hpp>

namespace sinew {

std::optional<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 4096> part;  // not a page
  while (file.read(part.data(), part.size()) || file.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) return std::nullopt;
  return text;
}

}  // namespace sinew

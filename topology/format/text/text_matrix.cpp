#include <algorithm>

#include <fmt/format.h>

#include <sinew/topology/format/text/text_matrix.hpp>

namespace sinew {

std::vector<std::string> text_matrix(const std::vector<std::string>& titles,
                                     const std::function<std::string(std::size_t, std::size_t)>& cell) {
  std::size_t width = 4;  // of "NV18" and "NODE"
  for (const std::string& title : titles) width = std::max(width, title.size());
  std::vector<std::string> lines(1, std::string(width, ' '));
  for (const std::string& title : titles) lines.front() += fmt::format("  {:>{}}", title, width);
  for (std::size_t row = 0; row < titles.size(); ++row) {
    std::string line = fmt::format("{:<{}}", titles[row], width);
    for (std::size_t column = 0; column < titles.size(); ++column) {
      line += fmt::format("  {:>{}}", cell(row, column), width);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace sinew

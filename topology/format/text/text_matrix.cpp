#include <algorithm>

#include <sinew/core/base/table.hpp>
#include <sinew/topology/format/text/text_matrix.hpp>

namespace sinew {

std::vector<std::string> text_matrix(const std::vector<std::string>& titles,
                                     const std::function<std::string(std::size_t, std::size_t)>& cell) {
  std::size_t width = 4;  // of "NV18" and "NODE"
  for (const std::string& title : titles) width = std::max(width, title.size());
  std::vector<Column> columns{{.width = width}};
  for (const std::string& title : titles) columns.push_back({.name = title, .align = Align::Right, .width = width});
  const Table table(std::move(columns));
  std::vector<std::string> lines{table.heading()};
  for (std::size_t row = 0; row < titles.size(); ++row) {
    std::vector<std::string> cells{titles[row]};
    for (std::size_t column = 0; column < titles.size(); ++column) cells.push_back(cell(row, column));
    lines.push_back(table.row(cells));
  }
  for (std::string& line : lines) line.pop_back();  // the newline
  return lines;
}

}  // namespace sinew

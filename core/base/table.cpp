#include <algorithm>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <sinew/core/base/table.hpp>

namespace sinew {
namespace {

/// Returns the number of characters of UTF-8 text.
std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

void require_fit(std::size_t cells, std::size_t columns) {
  if (cells > columns)
    throw std::invalid_argument("a table of " + std::to_string(columns) + " columns: expected no more cells, found " +
                                std::to_string(cells));
}

/// Returns the cells that have a column of their own. In a row with fewer cells than columns, the last cell has none.
std::span<const std::string> in_columns(const std::vector<std::string>& cells, std::size_t columns) {
  return {cells.data(), cells.size() < columns && !cells.empty() ? cells.size() - 1 : cells.size()};
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                    const std::vector<std::size_t>& widths, std::string line) {
  const std::size_t padded = in_columns(cells, columns.size()).size();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += "  ";
    const std::size_t width = width_of(cells[i]);
    const std::string pad(i < padded && width < widths[i] ? widths[i] - width : 0, ' ');
    line += columns[i].align == Align::Right ? pad + cells[i] : cells[i] + pad;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::vector<std::string> lines_of(const std::vector<Column>& columns, std::string Column::*part) {
  std::vector<std::string> cells;
  for (const Column& c : columns) cells.push_back(c.*part);
  return cells;
}

std::vector<std::size_t> least_widths(const std::vector<Column>& columns) {
  std::vector<std::size_t> widths;
  for (const Column& c : columns) widths.push_back(std::max({c.width, width_of(c.name), width_of(c.below)}));
  return widths;
}

std::string heading_of(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                       const std::string& before) {
  std::string text;
  for (std::string Column::*part : {&Column::name, &Column::below}) {
    if (std::ranges::all_of(columns, [&](const Column& c) { return (c.*part).empty(); })) continue;
    text += line_of(lines_of(columns, part), columns, widths, before);
  }
  return text;
}

}  // namespace

Table::Table(std::vector<Column> columns, std::string before_row, std::string before_heading)
    : columns_(std::move(columns)), before_row_(std::move(before_row)), before_heading_(std::move(before_heading)) {}

void Table::add(std::vector<std::string> cells) {
  require_fit(cells.size(), columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths = least_widths(columns_);
  for (const auto& row : rows_) {
    const auto cells = in_columns(row, columns_.size());
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  }
  std::string text = heading_of(columns_, widths, before_heading_);
  for (const auto& row : rows_) text += line_of(row, columns_, widths, before_row_);
  return text;
}

std::string Table::heading() const { return heading_of(columns_, least_widths(columns_), before_heading_); }

std::string Table::row(const std::vector<std::string>& cells) const {
  require_fit(cells.size(), columns_.size());
  return line_of(cells, columns_, least_widths(columns_), before_row_);
}

}  // namespace sinew

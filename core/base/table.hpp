#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

enum class Align : std::uint8_t { Left, Right };

/// A column of a Table.
struct Column {
  std::string name{};   ///< empty: the column has no heading
  std::string below{};  ///< second line of the heading: the unit, such as "(us)", or the rest of a long name
  Align align = Align::Left;
  std::size_t width = 0;  ///< the column is at least that wide, in characters
};

/// A table as text for people: a heading, then rows of cells in columns that are as wide as their widest cell. Two
/// spaces stand between columns. Lines end without spaces.
/// Shape: a row has as many cells as there are columns, or fewer. The last cell of a shorter row spans all columns that
///        are left, for example with a remark.
class SINEW_API Table {
 public:
  /// `before_row` begins each row, and `before_heading` begins each line of the heading. Examples: an indent, or "#".
  explicit Table(std::vector<Column> columns, std::string before_row = {}, std::string before_heading = {});

  /// Errors: std::invalid_argument for more cells than columns.
  void add(std::vector<std::string> cells);

  /// Returns the heading and the rows, each line with its newline. A table of columns without names has no heading.
  std::string text() const;

  // These print a table row by row while its rows are made. Each column has the width Column::width.

  std::string heading() const;
  /// Returns one row, with its newline.
  /// Errors: those of add().
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
  std::string before_row_, before_heading_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sinew

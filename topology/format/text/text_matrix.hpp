#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sinew {

/// A square table of words as lines without newlines. The titles stand above and at the left, `cell(row, column)` to
/// the right of them. All columns have the width of the longest title.
std::vector<std::string> text_matrix(const std::vector<std::string>& titles,
                                     const std::function<std::string(std::size_t, std::size_t)>& cell);

}  // namespace sinew

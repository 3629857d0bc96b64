#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::parallel {

/// The labels of a rule, for each tensor: "r(hd)", "o".
struct Labels {
  std::vector<std::string> operands, results;
  bool adds = false;  ///< operands are separated by '+'
  std::string fault;  ///< why the text is not a rule; empty: it is one
};

Labels split_labels(std::string_view labels);

/// The labels of each dimension of a tensor, the outer one first: "r(hd)" has "r" and "hd".
std::vector<std::string> dims_of(std::string_view tensor);

}  // namespace sinew::parallel

#pragma once

#include <string>
#include <string_view>

namespace sinew::python {

/// The text of an error. If it shows a call whose line of Python is not known, it also says how to make lines known.
/// Both extensions use it: sinew._core and the one for PyTorch.
inline std::string with_hint_at_lines(std::string_view text) {
  std::string result(text);
  if (text.find("at a place that is not known") != std::string_view::npos)
    result += " (with SINEW_PYTHON_SITES=1 calls are named by their lines of Python)";
  return result;
}

}  // namespace sinew::python

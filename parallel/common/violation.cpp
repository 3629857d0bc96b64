#include <fmt/ranges.h>

#include <sinew/parallel/common/violation.hpp>

namespace sinew::parallel {

std::string to_string(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& v : violations) {
    const std::string fix = v.fixes.empty() ? "" : fmt::format("; expected {}", fmt::join(v.fixes, " or "));
    text += fmt::format("{}  {}: {}{}", text.empty() ? "" : "\n", v.rule, v.found, fix);
  }
  return text;
}

}  // namespace sinew::parallel

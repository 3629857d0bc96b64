#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu_list.hpp>

namespace sinew {
namespace {

constexpr int kMostCpus = 1 << 20;

std::optional<int> number(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value && *value >= 0 && *value < kMostCpus ? value : std::nullopt;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view range = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t dash = range.find('-');
    const auto first = number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (!first || !last || *first > *last) {
      throw Error(Code::InvalidArgument, fmt::format("'{}': expected a list of numbers such as 0-3,8", text));
    }
    for (int n = *first; n <= *last; ++n) numbers.push_back(n);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  return numbers;
}

std::string format_cpu_list(std::span<const int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace sinew

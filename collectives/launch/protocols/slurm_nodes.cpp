#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include <sinew/collectives/launch/protocols/slurm_nodes.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

constexpr int kMostTasks = 1 << 16;  // of one node

/// One variable, for what its errors say.
struct Source {
  std::string_view variable, text, form;
  [[noreturn]] void reject(const std::string& why) const {
    throw Error(Code::InvalidArgument, fmt::format("{}={}: {}; expected {}", variable, text, why, form));
  }
};

/// Digits and nothing else; at most nine of them, more name no node.
std::optional<std::uint32_t> whole(std::string_view digits) {
  constexpr std::size_t kMostDigits = 9;
  return digits.size() > kMostDigits ? std::nullopt : parse_number<std::uint32_t>(digits);
}

/// Takes the part before the next comma off `rest`.
std::string_view next_item(std::string_view& rest) {
  const std::size_t comma = rest.find(',');
  const std::string_view item = rest.substr(0, comma);
  rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  return item;
}

/// "01-03,07" -> 01, 02, 03, 07.
std::vector<std::string> expand_bracket(const Source& source, std::string_view inside) {
  std::vector<std::string> all;
  if (inside.empty() || inside.ends_with(',')) source.reject("nothing where a number should be");
  for (std::string_view rest = inside; !rest.empty();) {
    const std::string_view item = next_item(rest);
    const std::size_t dash = item.find('-');
    const std::string_view low_digits = item.substr(0, dash);
    const auto low = whole(low_digits);
    const auto high = dash == std::string_view::npos ? low : whole(item.substr(dash + 1));
    if (!low || !high) source.reject(fmt::format("'{}' is neither a number nor a range of them", item));
    if (*low > *high) source.reject(fmt::format("the range {} runs backwards", item));
    if (*high - *low >= kMostNodes - all.size()) source.reject(fmt::format("more than {} nodes", kMostNodes));
    for (std::uint32_t n = *low; n <= *high; ++n) all.push_back(fmt::format("{:0{}}", n, low_digits.size()));
  }
  return all;
}

void require_name(const Source& source, std::string_view name) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.';
  };
  if (!std::ranges::all_of(name, fits)) source.reject(fmt::format("'{}' is no part of a node's name", name));
}

/// "a[1-2]b[08-10]" -> a1b08, a1b09, ...
std::vector<std::string> expand_item(const Source& source, std::string_view item) {
  if (item.empty()) source.reject("a node without a name");
  if (item.starts_with('-')) source.reject(fmt::format("'{}' is no node's name", item));
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const std::size_t open = std::min(item.find('['), item.size());
    require_name(source, item.substr(0, open));
    for (std::string& name : names) name += item.substr(0, open);
    item.remove_prefix(open);
    if (item.empty()) break;
    const std::size_t close = item.find(']');
    if (close == std::string_view::npos) source.reject("a bracket is not closed");
    const std::vector<std::string> parts = expand_bracket(source, item.substr(1, close - 1));
    if (parts.size() > kMostNodes / names.size()) source.reject(fmt::format("more than {} nodes", kMostNodes));
    std::vector<std::string> longer;
    longer.reserve(names.size() * parts.size());
    for (const std::string& name : names) {
      for (const std::string& part : parts) longer.push_back(name + part);
    }
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  return names;
}

/// As long as the next item of a list is: to the comma that stands in no bracket.
std::size_t item_length(std::string_view list) {
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (list[i] == ',' && !inside) return i;
  }
  return list.size();
}

}  // namespace

std::vector<std::string> expand_nodes(std::string_view variable, std::string_view text) {
  const Source source{variable, text, "a list of nodes such as gpu[01-03,07],login2"};
  std::vector<std::string> nodes;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t length = item_length(rest);
    std::vector<std::string> some = expand_item(source, rest.substr(0, length));
    if (some.size() > kMostNodes - nodes.size()) source.reject(fmt::format("more than {} nodes", kMostNodes));
    std::ranges::move(some, std::back_inserter(nodes));
    more = length < rest.size();
    if (more) rest.remove_prefix(length + 1);
  }
  return nodes;
}

std::vector<int> expand_counts(std::string_view variable, std::string_view text) {
  const Source source{variable, text, "tasks of each node such as 4(x3),2"};
  std::vector<int> counts;
  if (text.empty() || text.ends_with(',')) source.reject("nothing where a number should be");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = next_item(rest);
    const std::size_t open = item.find("(x");
    const auto count = whole(item.substr(0, open));
    std::optional<std::uint32_t> times = 1;
    if (open != std::string_view::npos) {
      times = item.ends_with(')') ? whole(item.substr(open + 2, item.size() - open - 3)) : std::nullopt;
    }
    if (!count || !times || *count == 0 || *times == 0 || *count > kMostTasks) {
      source.reject(fmt::format("'{}' is not how many tasks", item));
    }
    if (*times > kMostNodes - counts.size()) source.reject(fmt::format("more than {} nodes", kMostNodes));
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace sinew

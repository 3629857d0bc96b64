#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/conformance/fault.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

constexpr std::pair<std::string_view, Fault::Kind> kKinds[] = {
    {"drop", Fault::Kind::Drop},         {"delay", Fault::Kind::Delay},     {"duplicate", Fault::Kind::Duplicate},
    {"truncate", Fault::Kind::Truncate}, {"reorder", Fault::Kind::Reorder}, {"stall", Fault::Kind::Stall},
    {"kill", Fault::Kind::Kill},         {"refuse", Fault::Kind::Refuse},
};

/// The part of `text` after the first `mark`, which is cut off with it.
std::optional<std::string_view> cut(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

[[noreturn]] void refuse(std::string_view rule, std::string_view why) {
  throw Error(
      Code::InvalidArgument,
      fmt::format(
          "fault '{}': {}; expected KIND@N or KIND@N+, then :TIME or :BYTES, then /RANK, where KIND is "
          "drop, delay, duplicate, truncate, reorder, stall, kill or refuse: drop@3, delay@1+:20ms, truncate@2:8, "
          "stall@9:2s/1",
          rule, why));
}

template <class Number>
Number number(std::string_view rule, std::string_view text) {
  const auto n = parse_number<Number>(text);
  if (!n || *n < Number{0}) refuse(rule, fmt::format("'{}' is no number", text));
  return *n;
}

Fault parse_rule(const std::string_view rule) {
  std::string_view text = rule;
  Fault fault;
  if (const auto rank = cut(text, '/')) fault.rank = number<int>(rule, *rank);
  const auto amount = cut(text, ':');
  auto at = cut(text, '@');
  if (!at) refuse(rule, "it does not say which operation");
  if (at->ends_with('+')) {
    fault.onwards = true;
    at->remove_suffix(1);
  }
  fault.at = number<std::uint64_t>(rule, *at);
  if (fault.at == 0) refuse(rule, "operations are counted from 1");
  const auto* kind = std::ranges::find(kKinds, text, &std::pair<std::string_view, Fault::Kind>::first);
  if (kind == std::end(kKinds)) refuse(rule, fmt::format("'{}' is no kind of fault", text));
  fault.kind = kind->second;
  const bool takes_time = fault.kind == Fault::Kind::Delay || fault.kind == Fault::Kind::Stall;
  if (amount && !takes_time && fault.kind != Fault::Kind::Truncate) refuse(rule, "this kind takes no amount");
  if (fault.kind == Fault::Kind::Delay && !amount) refuse(rule, "it does not say for how long");
  try {
    if (amount && takes_time) fault.time = parse_duration(*amount);
    if (amount && fault.kind == Fault::Kind::Truncate) fault.bytes = parse_bytes(*amount);
  } catch (const Error& e) {
    refuse(rule, e.what());
  }
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> all;
  for (std::optional<std::string_view> rest = text; rest && !text.empty();) {
    std::string_view rule = *rest;
    rest = cut(rule, ',');
    all.push_back(parse_rule(rule));
  }
  return all;
}

}  // namespace sinew::test

#include "open_metrics_parser.hpp"

#include <cmath>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace sinew::test {
namespace {

[[noreturn]] void refuse(std::string_view line, std::string_view rule) {
  throw std::runtime_error(fmt::format("\"{}\": {}", line, rule));
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes a name from the front of `rest`.
std::string take_name(std::string_view& rest, bool may_have_colon, std::string_view line) {
  std::size_t end = 0;
  while (end < rest.size() &&
         (is_letter(rest[end]) || (end > 0 && is_digit(rest[end])) || (may_have_colon && rest[end] == ':')))
    ++end;
  if (end == 0) refuse(line, "a name is missing");
  const std::string name(rest.substr(0, end));
  rest.remove_prefix(end);
  return name;
}

void take(char c, std::string_view& rest, std::string_view line) {
  if (rest.empty() || rest.front() != c) refuse(line, fmt::format("expected '{}' before \"{}\"", c, rest));
  rest.remove_prefix(1);
}

std::string take_quoted(std::string_view& rest, std::string_view line) {
  take('"', rest, line);
  std::string text;
  for (;; rest.remove_prefix(1)) {
    if (rest.empty()) refuse(line, "a quoted text does not end");
    if (rest.front() == '"') break;
    if (rest.front() != '\\') {
      text += rest.front();
      continue;
    }
    rest.remove_prefix(1);
    const char escaped = rest.empty() ? ' ' : rest.front();
    if (escaped != '\\' && escaped != '"' && escaped != 'n') refuse(line, "an escape that is none");
    text += escaped == 'n' ? '\n' : escaped;
  }
  rest.remove_prefix(1);
  return text;
}

MetricSample parse_sample(std::string_view line) {
  std::string_view rest = line;
  MetricSample sample{.name = take_name(rest, true, line), .labels = {}, .value = {}};
  if (!rest.empty() && rest.front() == '{') {
    rest.remove_prefix(1);
    while (rest.empty() || rest.front() != '}') {
      if (!sample.labels.empty()) take(',', rest, line);
      const std::string label = take_name(rest, false, line);
      take('=', rest, line);
      if (!sample.labels.emplace(label, take_quoted(rest, line)).second) refuse(line, "a label comes twice");
    }
    rest.remove_prefix(1);
  }
  take(' ', rest, line);
  sample.value = rest;
  char* end = nullptr;
  const double value = std::strtod(sample.value.c_str(), &end);
  if (sample.value.empty() || *end != '\0' || std::isspace(static_cast<unsigned char>(sample.value.front())) != 0)
    refuse(line, "the value is no number");
  if (!std::isfinite(value)) refuse(line, "the value is not finite");
  return sample;
}

/// The end of a sample's name that the type of its family demands.
std::string suffix_of(std::string_view type, std::string_view line) {
  if (type == "gauge") return "";
  if (type == "counter") return "_total";
  if (type == "info") return "_info";
  refuse(line, "a type that is not read here");
}

void add_sample(std::vector<MetricFamily>& families, std::string_view line) {
  if (families.empty()) refuse(line, "a sample before its family");
  MetricFamily& family = families.back();
  MetricSample sample = parse_sample(line);
  if (sample.name != family.name + suffix_of(family.type, line)) refuse(line, "a sample of another family");
  if (family.type == "counter" && sample.value.front() == '-') refuse(line, "a counter below 0");
  if (family.type == "info" && sample.value != "1") refuse(line, "an info that is not 1");
  for (const MetricSample& s : family.samples) {
    if (s.labels == sample.labels) refuse(line, "the same labels twice");
  }
  family.samples.push_back(std::move(sample));
}

void add_description(std::vector<MetricFamily>& families, std::string_view line) {
  std::string_view rest = line;
  take('#', rest, line);
  take(' ', rest, line);
  const std::string what = take_name(rest, false, line);
  take(' ', rest, line);
  const std::string name = take_name(rest, true, line);
  take(' ', rest, line);
  if (families.empty() || families.back().name != name) {
    for (const MetricFamily& f : families) {
      if (f.name == name) refuse(line, "a family in two places");
    }
    families.push_back({.name = name, .type = {}, .unit = {}, .help = {}, .samples = {}});
  }
  MetricFamily& family = families.back();
  if (!family.samples.empty()) refuse(line, "a description behind samples");
  const bool is_known = what == "TYPE" || what == "UNIT" || what == "HELP";
  if (!is_known || rest.empty()) refuse(line, "expected # TYPE, # UNIT or # HELP, and a text");
  std::string& part = what == "TYPE" ? family.type : what == "UNIT" ? family.unit : family.help;
  if (!part.empty()) refuse(line, "a description twice");
  part = rest;
  if (what == "UNIT" && !name.ends_with("_" + part)) refuse(line, "the name does not end in its unit");
}

}  // namespace

std::vector<MetricFamily> parse_open_metrics(std::string_view text) {
  constexpr std::string_view kEnd = "# EOF\n";
  if (!text.ends_with(kEnd)) throw std::runtime_error("the text does not end with # EOF");
  text.remove_suffix(kEnd.size());
  std::vector<MetricFamily> families;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) refuse(text, "a line without an end");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.starts_with('#')) {
      add_description(families, line);
    } else {
      add_sample(families, line);
    }
  }
  for (const MetricFamily& f : families) {
    if (f.type.empty() || f.help.empty()) refuse(f.name, "a family without TYPE or HELP");
  }
  return families;
}

}  // namespace sinew::test

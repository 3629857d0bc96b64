#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sinew::test {

/// One line of an OpenMetrics text that has a value.
struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  std::string value;
};

struct MetricFamily {
  std::string name;
  std::string type;
  std::string unit;
  std::string help;
  std::vector<MetricSample> samples;
};

/// Reads OpenMetrics text of gauges, counters and infos, and refuses all that the specification forbids.
/// Errors: std::runtime_error with the line and the rule that the line breaks.
std::vector<MetricFamily> parse_open_metrics(std::string_view text);

}  // namespace sinew::test

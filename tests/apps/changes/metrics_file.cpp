#include "metrics_file.hpp"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

namespace changes {

std::map<std::int64_t, Step> steps_in(const std::string& file) {
  std::map<std::int64_t, Step> steps;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object())
      steps[j.at("step").get<std::int64_t>()] = {j.at("loss").get<double>(), j.at("seconds").get<double>()};
  }
  return steps;
}

std::int64_t last_step_in(const std::string& file) {
  constexpr std::streamoff kEnd = 4096;  // not a page
  std::ifstream lines(file, std::ios::ate);
  if (!lines) return -1;
  lines.seekg(std::max<std::streamoff>(lines.tellg() - kEnd, 0));
  std::int64_t step = -1;
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object()) step = j.at("step").get<std::int64_t>();
  }
  return step;
}

}  // namespace changes

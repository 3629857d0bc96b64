#include "metrics_file.hpp"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

namespace changes {
namespace {

std::map<std::int64_t, Step> read(std::ifstream& lines) {
  std::map<std::int64_t, Step> steps;
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object()) continue;
    const auto loss = j.at("loss").get<double>();
    steps[j.at("step").get<std::int64_t>()] = {loss, loss, j.at("seconds").get<double>()};
  }
  return steps;
}

}  // namespace

std::map<std::int64_t, Step> steps_in(const std::string& file) {
  std::ifstream lines(file);
  return read(lines);
}

std::map<std::int64_t, Step> last_steps_in(const std::string& file) {
  constexpr std::streamoff kEnd = 4096;  // not a page
  std::ifstream lines(file, std::ios::ate);
  if (!lines) return {};
  lines.seekg(std::max<std::streamoff>(lines.tellg() - kEnd, 0));
  return read(lines);
}

std::int64_t last_step_in(const std::string& file) {
  const std::map<std::int64_t, Step> steps = last_steps_in(file);
  return steps.empty() ? -1 : steps.rbegin()->first;
}

}  // namespace changes

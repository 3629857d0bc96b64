#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/selection/times/tuned_times.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;  // 1: the same without ways of device memory
constexpr int kFirstFormat = 1;
constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr double kLongest = 1e6;  // s: eleven days
constexpr double kMostTunedBytes = 1e18;

[[noreturn]] void reject(std::string_view file, std::string_view why) {
  throw Error(Code::InvalidArgument,
              fmt::format("SINEW_TUNE_FILE={}: {}: expected a file that sinew-bench tune has written", file, why));
}

TunedTimes::Way way_from(const Json& json) {
  TunedTimes::Way way{json.at("collective"), json.at("algorithm"), json.at("transport"), {}};
  for (const Json& p : json.at("points")) {
    const auto [bytes, seconds] = p.get<std::array<double, 2>>();
    way.points.push_back({p.size() == 2 ? bytes : -1, seconds});
  }
  if (json.contains("devices")) way.devices = json.at("devices");
  return way;
}

/// Why no time can be read off it; empty: one can.
std::string_view obstacle_of(const TunedTimes::Way& way) {
  if (!collective_from_name(way.collective)) return "no collective is called so";
  if (way.points.empty()) return "a way without points";
  for (std::size_t i = 0; i < way.points.size(); ++i) {
    const auto [bytes, seconds] = way.points[i];
    if (!(seconds > 0 && seconds <= kLongest)) return "a time that is not above 0, or not one of this world";
    if (!(bytes >= 0 && bytes <= kMostTunedBytes)) return "a point that is not bytes and seconds";
    if (i > 0 && bytes <= way.points[i - 1].bytes) return "bytes that do not ascend";
  }
  return {};
}

}  // namespace

std::optional<Seconds> TunedTimes::seconds(std::string_view collective, std::string_view algorithm,
                                           std::string_view transport, double bytes, std::string_view devices) const {
  const auto way = std::ranges::find_if(ways, [&](const Way& w) {
    return w.collective == collective && w.algorithm == algorithm && w.transport == transport && w.devices == devices;
  });
  if (way == ways.end()) return std::nullopt;
  const std::vector<Point>& points = way->points;
  const auto above = std::ranges::lower_bound(points, bytes, {}, &Point::bytes);
  if (above == points.begin()) return above->seconds;
  const Point& below = *std::prev(above);
  if (above == points.end()) return below.bytes > 0 ? below.seconds * bytes / below.bytes : below.seconds;
  if (below.bytes <= 0) return above->seconds;
  const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return below.seconds * std::pow(above->seconds / below.seconds, share);
}

std::string to_text(const TunedTimes& times) {
  Json ways = Json::array();
  for (const TunedTimes::Way& w : times.ways) {
    Json points = Json::array();
    for (const auto& [bytes, seconds] : w.points) points.push_back({bytes, seconds});
    ways.push_back(
        {{"collective", w.collective}, {"algorithm", w.algorithm}, {"transport", w.transport}, {"points", points}});
    if (!w.devices.empty()) ways.back()["devices"] = w.devices;
  }
  const Json json = {
      {"format", kFormat}, {"machine", times.machine}, {"ranks_on_hosts", times.ranks_on}, {"ways", ways}};
  return json_text(json, 1) + "\n";
}

TunedTimes tuned_times_from(std::string_view text, std::string_view file) {
  TunedTimes times;
  try {
    const Json json = Json::parse(text);
    const Json& format = json.at("format");
    if (!format.is_number_integer() || format < kFirstFormat || format > kFormat) {
      reject(file,
             fmt::format("its format is {}, this version reads {} to {}", json_text(format), kFirstFormat, kFormat));
    }
    times.machine = json.at("machine");
    times.ranks_on = json.at("ranks_on_hosts").get<std::vector<int>>();
    for (const Json& w : json.at("ways")) times.ways.push_back(way_from(w));
  } catch (const Json::exception&) {
    reject(file, "it holds something else, or is not all there");
  }
  for (const TunedTimes::Way& w : times.ways) {
    if (const std::string_view why = obstacle_of(w); !why.empty())
      reject(file, fmt::format("{} {}@{}: {}", w.collective, w.algorithm, w.transport, why));
  }
  if (times.ranks_on.empty() || std::ranges::min(times.ranks_on) < 1) reject(file, "a host without ranks, or no host");
  return times;
}

std::optional<TunedTimes> load_tuned_times(const std::string& file, const std::string& machine) {
  if (file.empty()) return std::nullopt;
  std::error_code unknown;  // a pipe that nobody writes into would be read for ever
  if (std::filesystem::is_fifo(file, unknown)) reject(file, "it is a pipe");
  const std::optional<std::string> text = file_text(file, kLargestFile);
  if (!text) reject(file, "it cannot be read");
  TunedTimes times = tuned_times_from(*text, file);
  if (times.machine == machine) return times;
  log::warning("SINEW_TUNE_FILE={} is not used: it was measured on '{}', and this is '{}'", file, times.machine,
               machine);
  return std::nullopt;
}

}  // namespace sinew

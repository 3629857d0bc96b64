#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/selection/times/seen_times.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/cbor.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

/// A time is also used for calls that are up to this factor longer or shorter, in proportion to their bytes.
constexpr double kNear = 1.5;
constexpr Seconds kLongestCall = 1e6;  // eleven days

int class_of(std::uint64_t bytes) noexcept { return std::bit_width(bytes); }

SeenTimes::Point point_from(const Json& json) {
  const SeenTimes::Point point{whole<std::uint64_t>(json.at(0)), json.at(1), whole<int>(json.at(2))};
  if (!(point.seconds > 0 && point.seconds <= kLongestCall) || point.samples < 1)
    throw Error(Code::InvalidArgument, fmt::format("{}: expected bytes, seconds and samples", json_text(json)));
  return point;
}

}  // namespace

void SeenTimes::add(const Call& call, std::uint64_t bytes, Seconds seconds) {
  const auto [place, is_new] = points[call].try_emplace(class_of(bytes), Point{bytes, seconds, 0});
  Point& point = place->second;
  if (point.bytes != bytes) return;
  point.seconds = std::min(point.seconds, seconds);
  ++point.samples;
}

std::optional<Seconds> SeenTimes::seconds(const Call& call, std::uint64_t bytes) const {
  const auto known = points.find(call);
  if (known == points.end()) return std::nullopt;
  std::optional<Seconds> nearest;
  double least = kNear;
  for (const auto& [size, point] : known->second) {
    if (point.samples < kFewest) continue;
    const double ratio = point.bytes == bytes ? 1 : static_cast<double>(bytes) / static_cast<double>(point.bytes);
    const double away = std::max(ratio, 1 / ratio);
    if (!(away <= least)) continue;
    least = away;
    nearest = point.seconds * std::max(ratio, 1.0);
  }
  return nearest;
}

void SeenTimes::replace_by(const SeenTimes& later) {
  devices = later.devices;
  for (const auto& [call, of_sizes] : later.points) {
    for (const auto& [size, point] : of_sizes) {
      if (point.samples >= kFewest) points[call][size] = point;
    }
  }
}

std::string to_text(const SeenTimes& times) {
  Json calls = Json::array();
  for (const auto& [call, of_sizes] : times.points) {
    Json points = Json::array();
    for (const auto& [size, point] : of_sizes) points.push_back({point.bytes, point.seconds, point.samples});
    calls.push_back({{"ranks_on_hosts", call.ranks_on},
                     {"collective", call.collective},
                     {"algorithm", call.algorithm},
                     {"transport", call.transport},
                     {"points", points}});
  }
  return json_text(Json{{"devices", times.devices}, {"calls", calls}});
}

SeenTimes seen_times_from(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    SeenTimes times{.devices = json.at("devices"), .points = {}};
    for (const Json& c : json.at("calls")) {
      const SeenTimes::Call call{c.at("ranks_on_hosts").get<std::vector<int>>(), c.at("collective"), c.at("algorithm"),
                                 c.at("transport")};
      if (!collective_from_name(call.collective))
        throw Error(Code::InvalidArgument, fmt::format("'{}': expected a collective", call.collective));
      for (const Json& p : c.at("points")) {
        const SeenTimes::Point point = point_from(p);
        times.points[call][class_of(point.bytes)] = point;
      }
    }
    return times;
  } catch (const Json::exception&) {
    throw Error(Code::InvalidArgument, "times of calls on devices hold something else, or are not all there");
  }
}

}  // namespace sinew

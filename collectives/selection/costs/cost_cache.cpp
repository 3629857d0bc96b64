#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/core/base/version.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/topology/format/json/cbor.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

constexpr const char* kFolder = "sinew";  // in the user's cache folder; the one folder that is made
constexpr int kFormat = 4;                // raised where what is measured changes its meaning

Json to_json(const MeasuredCosts& costs) {
  Json links = Json::object();
  for (const auto& [name, curve] : costs.links) {
    Json knots = Json::array();
    for (const Knot& k : curve.knots) knots.push_back({k.bytes, k.bytes_per_s});
    links[name] = {{"overhead_s", curve.overhead_s}, {"latency_s", curve.latency_s}, {"knots", knots}};
  }
  Json offloads = Json::object();
  for (const auto& [name, bytes] : costs.offloads) {
    offloads[name] = Json::array();
    for (const std::byte b : bytes) offloads[name].push_back(static_cast<unsigned>(b));
  }
  return {{"links", links},
          {"offloads", offloads},
          {"unfinished", costs.unfinished},
          {"doubt", costs.doubt},
          {"contradicted", costs.contradicted},
          {"links_at_s", costs.links_at_s},
          {"offloads_at_s", costs.offloads_at_s},
          {"again_at_s", costs.again_at_s},
          {"copy_bytes_per_s", costs.copy_bytes_per_s},
          {"reduce_bytes_per_s", costs.reduce_bytes_per_s}};
}

/// Throws unless it can be a time or a rate: what a file says is not always what was written.
double amount(const Json& json, bool above_zero = false) {
  const double value = json;
  if (!std::isfinite(value) || value < 0 || (above_zero && value == 0))
    throw Error(Code::InvalidArgument, fmt::format("{} is no {}", value, above_zero ? "rate" : "time or rate"));
  return value;
}

MeasuredCosts from_json(const Json& json) {
  MeasuredCosts costs;
  for (const auto& [name, link] : json.at("links").items()) {
    CostCurve& curve = costs.links[name];
    curve.overhead_s = amount(link.at("overhead_s"));
    curve.latency_s = amount(link.at("latency_s"));
    for (const Json& k : link.at("knots")) {
      if (!curve.knots.full()) curve.knots.push_back({amount(k.at(0)), amount(k.at(1), true)});
    }
  }
  for (const auto& [name, bytes] : json.at("offloads").items()) {
    for (const Json& b : bytes) costs.offloads[name].push_back(static_cast<std::byte>(whole<std::uint8_t>(b)));
  }
  costs.unfinished = json.at("unfinished").get<std::set<std::string>>();
  costs.doubt = json.at("doubt").get<std::string>();
  costs.contradicted = json.at("contradicted").get<std::string>();
  for (const auto& [name, at] : json.at("links_at_s").items()) costs.links_at_s[name] = whole<std::int64_t>(at);
  costs.offloads_at_s = whole<std::int64_t>(json.at("offloads_at_s"));
  costs.again_at_s = whole<std::int64_t>(json.at("again_at_s"));
  costs.copy_bytes_per_s = amount(json.at("copy_bytes_per_s"));
  costs.reduce_bytes_per_s = amount(json.at("reduce_bytes_per_s"));
  return costs;
}

struct CostTable {
  Json machines = Json::object();  ///< costs by machine
  Json devices = Json::object();   ///< times of calls by the kind of devices
  std::string problem;             ///< why the file can be neither used nor replaced; empty: it can
};

CostTable unusable(std::string why) { return {.problem = std::move(why)}; }

CostTable read_cache(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (file.empty() || status.type() == std::filesystem::file_type::not_found) return {};
  if (!std::filesystem::is_regular_file(status)) return unusable("it is no regular file");
  const auto text = file_text(file);
  if (!text) return unusable("it cannot be read");
  if (text->empty()) return {};
  try {
    const Json json = Json::parse(*text);
    const Json& format = json.at("format");
    const Json& machines = json.at("machines");
    if (!format.is_number_integer() || !machines.is_object()) return unusable("it is no cost cache");
    if (format > kFormat) return unusable("it is a newer version's");
    if (format != kFormat) return {};
    const auto devices = json.find("devices");  // files from before there were such times have none
    const bool has_devices = devices != json.end() && devices->is_object();
    return {.machines = machines, .devices = has_devices ? *devices : Json::object()};
  } catch (const Json::exception&) {
    return unusable("it is no cost cache");
  }
}

/// A new file, never one that somebody has put there, nor where a link of theirs leads.
bool write_new(const std::string& file, const std::string& text) {
  const FileDescriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  for (std::size_t at = 0; out && at < text.size();) {
    const ssize_t written = ::write(out.get(), text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) at += static_cast<std::size_t>(written);
  }
  return static_cast<bool>(out);
}

void report(const std::string& file, const std::string& problem) {
  log::info("cost cache {} is left alone, and what it should hold is measured by every job: {}", file, problem);
}

/// Replaces the file in one step.
void replace(const std::string& file, const CostTable& cache) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (folder.filename() == kFolder) std::filesystem::create_directories(folder, error);
  const std::string beside = fmt::format("{}.{}", file, ::getpid());
  std::filesystem::remove(beside, error);  // of a process that had this number and was killed
  const Json all = {{"format", kFormat}, {"machines", cache.machines}, {"devices", cache.devices}};
  const bool written = write_new(beside, all.dump(1) + '\n');
  const std::filesystem::path linked = std::filesystem::weakly_canonical(file, error);  // a link stays one
  if (written) std::filesystem::rename(beside, error ? std::filesystem::path(file) : linked, error);
  if (!written || error) {
    std::filesystem::remove(beside, error);
    report(file, "it cannot be written");
  }
}

}  // namespace

Doubts doubts_about(const MeasuredCosts& costs, std::int64_t now_s) {
  constexpr std::int64_t kDay = 24 * 3600;
  Doubts found{.links = costs.unfinished};
  std::vector<std::string> reasons;
  if (!costs.unfinished.empty())
    reasons.push_back(fmt::format("no time was left to measure {}", fmt::join(costs.unfinished, ", ")));
  const auto doubt_offloads = [&](std::string why) {
    found.offloads = true;
    reasons.push_back(std::move(why));
  };
  if (!costs.doubt.empty()) doubt_offloads(costs.doubt);
  if (!costs.contradicted.empty()) doubt_offloads(costs.contradicted);
  found.offloads = found.offloads || std::ranges::any_of(costs.unfinished, [&](const std::string& t) {
                     return costs.offloads.contains(t);
                   });
  const auto is_old = [now_s](std::int64_t at) { return now_s - at > kOldAfterSeconds; };
  std::int64_t oldest = now_s;
  for (const auto& [name, at] : costs.links_at_s) {
    if (is_old(at)) found.links.insert(name);
    oldest = std::min(oldest, at);
  }
  if (!costs.offloads.empty()) {
    found.offloads = found.offloads || is_old(costs.offloads_at_s);
    oldest = std::min(oldest, costs.offloads_at_s);
  }
  if (is_old(oldest)) reasons.push_back(fmt::format("measured {} days ago", (now_s - oldest) / kDay));
  found.text = fmt::format("{}", fmt::join(reasons, "; "));
  return found;
}

std::string machine_identity(MachineUse use) {
  utsname name{};
  ::uname(&name);
  std::string model = "unknown processor";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name") || line.starts_with("CPU part")) {
      model = line.substr(line.find(':') + 1);
      break;
    }
  }
  return fmt::format("{} |{} | {} cores | {}{} | sinew {}", name.release, model, use.cores, kernel_target(),
                     use.encrypts ? " | TLS" : "", version());
}

std::string cost_cache_file(const Config& config) {
  if (!config.cache_file.empty()) return config.cache_file;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return fmt::format("{}/{}/costs.json", cache, kFolder);
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fmt::format("{}/.cache/{}/costs.json", home, kFolder) : "";
}

std::optional<MeasuredCosts> load_costs(const std::string& file, MachineUse use) {
  const CostTable cache = read_cache(file);
  if (!cache.problem.empty()) report(file, cache.problem);
  const auto known = cache.machines.find(machine_identity(use));
  if (known == cache.machines.end()) return std::nullopt;
  try {
    return from_json(*known);
  } catch (const std::exception& e) {
    log::info("cost cache {}: what it says of this machine is measured anew: {}", file, e.what());
    return std::nullopt;
  }
}

void save_costs(const std::string& file, MachineUse use, const MeasuredCosts& costs) {
  CostTable cache = read_cache(file);
  if (file.empty() || !cache.problem.empty()) return;  // load_costs has said so
  cache.machines[machine_identity(use)] = to_json(costs);
  replace(file, cache);
}

SeenTimes load_seen_times(const std::string& file, const std::string& devices) {
  const CostTable cache = read_cache(file);  // load_costs reports what is wrong with the file as a whole
  const auto known = cache.devices.find(devices);
  if (known == cache.devices.end()) return {};
  try {
    SeenTimes times = seen_times_from(known->dump());
    times.devices = devices;
    return times;
  } catch (const std::exception& e) {
    log::info("cost cache {}: what it says of these devices is left out: {}", file, e.what());
    return {};
  }
}

void save_seen_times(const std::string& file, const SeenTimes& times) {
  CostTable cache = read_cache(file);
  if (file.empty() || !cache.problem.empty()) return;
  SeenTimes all = load_seen_times(file, times.devices);
  all.replace_by(times);
  cache.devices[times.devices] = Json::parse(to_text(all));
  replace(file, cache);
}

Bytes to_bytes(const MeasuredCosts& costs) { return to_cbor(to_json(costs)); }

MeasuredCosts costs_from_bytes(const Bytes& bytes) { return from_json(from_cbor(bytes)); }

}  // namespace sinew

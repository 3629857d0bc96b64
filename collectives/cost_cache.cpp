#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/cost_cache.hpp>
#include <sinew/core/file_text.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/reduce.hpp>
#include <sinew/core/version.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 3;  // raised where what is measured changes its meaning

/// Costs hold for this: another kernel, processor or number of cores is measured anew.
std::string machine_key(int cores) {
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
  return fmt::format("{} |{} | {} cores | {} | sinew {}", name.release, model, cores, kernel_target(), version());
}

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
          {"again_at_s", costs.again_at_s},
          {"copy_bytes_per_s", costs.copy_bytes_per_s},
          {"reduce_bytes_per_s", costs.reduce_bytes_per_s}};
}

MeasuredCosts from_json(const Json& json) {
  MeasuredCosts costs;
  for (const auto& [name, link] : json.at("links").items()) {
    CostCurve& curve = costs.links[name];
    curve.overhead_s = link.at("overhead_s");
    curve.latency_s = link.at("latency_s");
    for (const Json& k : link.at("knots")) {
      if (!curve.knots.full()) curve.knots.push_back({k.at(0), k.at(1)});
    }
  }
  for (const auto& [name, bytes] : json.at("offloads").items()) {
    for (const Json& b : bytes) costs.offloads[name].push_back(static_cast<std::byte>(b.get<unsigned>()));
  }
  costs.unfinished = json.at("unfinished").get<std::set<std::string>>();
  costs.again_at_s = json.at("again_at_s");
  costs.copy_bytes_per_s = json.at("copy_bytes_per_s");
  costs.reduce_bytes_per_s = json.at("reduce_bytes_per_s");
  return costs;
}

/// Costs by machine; none where there is no file, or one of another format.
Json machines_in(const std::string& file) {
  const auto text = file.empty() ? std::nullopt : file_text(file);
  if (!text) return Json::object();
  const Json json = Json::parse(*text);
  Json machines = json.at("format") == kFormat ? json.at("machines") : Json::object();
  if (!machines.is_object()) throw Json::type_error::create(302, "\"machines\" is no object", &json);
  return machines;
}

}  // namespace

std::string cost_cache_file(const Config& config) {
  if (!config.cache_file.empty()) return config.cache_file;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/sinew/costs.json";
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.cache/sinew/costs.json" : "";
}

std::optional<MeasuredCosts> load_costs(const std::string& file, int cores) {
  try {
    const Json machines = machines_in(file);
    const auto known = machines.find(machine_key(cores));
    return known == machines.end() ? std::nullopt : std::optional(from_json(*known));
  } catch (const Json::exception& e) {
    log::info("cost cache {} is not readable and will be measured anew: {}", file, e.what());
    return std::nullopt;
  }
}

void save_costs(const std::string& file, int cores, const MeasuredCosts& costs) {
  if (file.empty()) return;
  const std::string beside = fmt::format("{}.{}", file, ::getpid());
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  Json machines = Json::object();
  try {
    machines = machines_in(file);
  } catch (const Json::exception&) {  // load_costs has said so
  }
  machines[machine_key(cores)] = to_json(costs);
  std::ofstream(beside) << Json{{"format", kFormat}, {"machines", machines}}.dump(1) << '\n';
  if (::rename(beside.c_str(), file.c_str()) != 0) log::info("cost cache {} cannot be written", file);
}

Bytes to_bytes(const MeasuredCosts& costs) {
  const std::vector<std::uint8_t> packed = Json::to_cbor(to_json(costs));
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

MeasuredCosts costs_from_bytes(const Bytes& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return from_json(Json::from_cbor(first, first + bytes.size()));
}

}  // namespace sinew

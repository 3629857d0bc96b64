#include <algorithm>
#include <filesystem>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/cpu_list.hpp>
#include <sinew/topology/cluster/rank_place.hpp>
#include <sinew/topology/discover/host_identity.hpp>
#include <sinew/topology/discover/sysfs.hpp>
#include <sinew/topology/format/json/json_fields.hpp>
#include <sinew/topology/format/json/json_text.hpp>
#include <sinew/topology/model/pci_address.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

int numa_node_of(const std::vector<int>& cpus) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    const auto list = name.starts_with("node") ? read_line(entry.path() / "cpulist") : std::nullopt;
    if (list && !cpus.empty() && std::ranges::includes(parse_cpu_list(*list), cpus)) return std::stoi(name.substr(4));
  }
  return -1;
}

}  // namespace

RankPlace place_of_this_process(const Config& config, const std::string& gpu) {
  RankPlace place;
  place.host = host_identity(config);
  place.cpus = affinity_cpus();
  place.numa_node = numa_node_of(place.cpus);
  place.quota_cores = quota_cores();
  place.gpu = pci_address(gpu);
  place.interfaces = config.interface;
  return place;
}

Bytes to_bytes(const RankPlace& place) {
  const json_fields::Json out = {{"host", place.host},
                                 {"numa_node", place.numa_node},
                                 {"cpus", format_cpu_list(place.cpus)},
                                 {"quota_cores", place.quota_cores},
                                 {"gpu", place.gpu},
                                 {"interfaces", place.interfaces}};
  return json_fields::bytes_of(json_text(out));
}

RankPlace rank_place_from_bytes(const Bytes& bytes) {
  RankPlace place;
  std::string cpus;
  const json_fields::Json in = json_fields::parse(json_fields::text_of(bytes));
  json_fields::Reader read{in, ""};
  read("host", place.host);
  read("numa_node", place.numa_node);
  read("cpus", cpus);
  read("quota_cores", place.quota_cores);
  read("gpu", place.gpu);
  read("interfaces", place.interfaces);
  place.cpus = parse_cpu_list(cpus);
  return place;
}

}  // namespace sinew

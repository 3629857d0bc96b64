#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/core/base/version.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/format/json/cbor.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

Json binary(const Bytes& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::binary({first, first + bytes.size()});
}

Bytes from_binary(const Json& value) {
  const auto& packed = value.get_binary();
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

Json hello_of(const LocalFacts& mine, const Config& config) {
  Json hello = {{"version", std::string(version())}, {"host", mine.host_id},
                {"host_name", host_name()},          {"process", mine.process_id},
                {"cores", mine.usable_cores},        {"device", mine.device},
                {"no_device", mine.no_device},       {"nic", mine.nic},
                {"measures", mine.measures},         {"measures_again", mine.measures_again},
                {"tls", config.tls.wanted ? 1 : 0},  {"rules", config.tune}};
  if (mine.device >= 0) hello["links"] = binary(to_bytes(mine.links));
  hello["transports"] = Json::array();
  for (const OpenedTransport& t : mine.transports) {
    Json row = {{"name", t.name},
                {"unavailable", t.unavailable},
                {"no_offload", t.no_offload},
                {"offload_facts", binary(t.offload_facts)},
                {"by_nic", t.by_nic}};
    if (t.rail != nullptr) row["address"] = binary(t.rail->address());
    hello["transports"].push_back(row);
  }
  return hello;
}

std::string name_rank(const std::vector<Json>& hellos, int rank) {
  return fmt::format("rank {} on {}", rank, hellos[static_cast<std::size_t>(rank)].at("host_name").get<std::string>());
}

/// Numbers values in the order of their first appearance.
std::vector<int> number_by_first(const std::vector<std::string>& values) {
  std::vector<int> numbers;
  std::map<std::string, int> seen;
  for (const std::string& v : values) numbers.push_back(seen.emplace(v, static_cast<int>(seen.size())).first->second);
  return numbers;
}

void require_equal(const std::vector<Json>& hellos, const char* key, const char* what, const char* cure) {
  for (std::size_t r = 1; r < hellos.size(); ++r) {
    if (hellos[r].at(key) == hellos[0].at(key)) continue;
    throw Error(Code::InvalidArgument, fmt::format("{} differ: {} has {}, {} has {}: {}", what, name_rank(hellos, 0),
                                                   json_text(hellos[0].at(key)), name_rank(hellos, static_cast<int>(r)),
                                                   json_text(hellos[r].at(key)), cure));
  }
}

/// The pair of ranks that probes a class: the lowest first rank, then the lowest second.
std::map<LinkClass, std::pair<int, int>> probing_pairs(const Facts& facts) {
  std::map<LinkClass, std::pair<int, int>> pairs;
  const int size = static_cast<int>(facts.ranks.size());
  for (int a = 0; a < size; ++a) {
    for (int b = 0; b < size; ++b) {
      if (a != b) pairs.emplace(facts.class_of(a, b), std::pair(a, b));
    }
  }
  return pairs;
}

Json reach_to_json(const Reach& reach) {
  Json row = {{"ok", reach.ok},
              {"reason", reach.reason},
              {"resource", reach.resource},
              {"overhead", reach.cost.overhead_s},
              {"latency", reach.cost.latency_s},
              {"knots", Json::array()}};
  for (const Knot& k : reach.cost.knots) row["knots"].push_back({k.bytes, k.bytes_per_s});
  return row;
}

Reach reach_from_json(const Json& row) {
  Reach reach{row.at("ok"), row.at("reason"), {}, row.at("resource")};
  reach.cost.overhead_s = row.at("overhead");
  reach.cost.latency_s = row.at("latency");
  for (const Json& k : row.at("knots")) {
    if (!reach.cost.knots.full()) reach.cost.knots.push_back({k.at(0), k.at(1)});
  }
  return reach;
}

/// The first absence of a transport on the hosts of a class, or nullptr.
const Facts::Absence* absent_on(const Facts& facts, const LinkClass& where, const std::string& transport) {
  for (const Facts::Absence& a : facts.absences) {
    const int host = facts.ranks[static_cast<std::size_t>(a.rank)].host;
    if (a.transport == transport && (host == where.host_a || host == where.host_b)) return &a;
  }
  return nullptr;
}

/// Whether every rank says the same.
bool is_everywhere(const Facts& facts, const Facts::Absence& absence) {
  const auto says_it = [&](const Facts::Absence& a) {
    return a.transport == absence.transport && a.reason == absence.reason;
  };
  return std::ranges::count_if(facts.absences, says_it) == std::ssize(facts.ranks);
}

Json probe_links(const Exchange& exchange, const LocalFacts& mine, const GatheredFacts& gathered,
                 const std::vector<Json>& hellos) {
  Json reports = Json::array();
  const Facts& facts = gathered.facts;
  for (const auto& [where, pair] : probing_pairs(facts)) {
    if (pair.first != exchange.rank) continue;
    for (std::size_t t = 0; t < facts.transports.size(); ++t) {
      const std::string& name = facts.transports[t];
      Reach reach;
      const auto opened = std::ranges::find(mine.transports, name, &OpenedTransport::name);
      const Address& peer = gathered.addresses[static_cast<std::size_t>(pair.second)][t];
      if (const Facts::Absence* absence = absent_on(facts, where, name)) {
        reach.reason = is_everywhere(facts, *absence)
                           ? absence->reason
                           : fmt::format("{} does not have it: {}", name_rank(hellos, absence->rank), absence->reason);
      } else if (opened == mine.transports.end() || opened->rail == nullptr || peer.empty()) {
        reach.reason = "it carries no messages";
      } else {
        reach = opened->rail->probe(peer);
      }
      reports.push_back({{"a", where.host_a},
                         {"b", where.host_b},
                         {"process", where.same_process},
                         {"transport", name},
                         {"reach", reach_to_json(reach)}});
    }
  }
  return reports;
}

void read_hellos(const std::vector<Json>& hellos, GatheredFacts& gathered) {
  Facts& facts = gathered.facts;
  std::vector<std::string> hosts;
  std::vector<std::string> processes;
  for (const Json& h : hellos) {
    hosts.push_back(h.at("host"));
    processes.push_back(hosts.back() + "/" + h.at("process").get<std::string>());
    for (const Json& t : h.at("transports")) {
      const std::string name = t.at("name");
      if (std::ranges::find(facts.transports, name) == facts.transports.end()) facts.transports.push_back(name);
    }
  }
  std::ranges::sort(facts.transports);
  facts.by_nic = {facts.transports.begin(), facts.transports.end()};
  for (const std::string& name : facts.transports) {
    for (std::size_t r = 0; r < hellos.size(); ++r) {
      const Json& rows = hellos[r].at("transports");
      const bool here = std::ranges::any_of(rows, [&](const Json& t) { return t.at("name") == name; });
      if (!here) facts.absences.push_back({name, static_cast<int>(r), "left out by SINEW_TRANSPORTS or the caller"});
    }
  }
  const std::vector<int> host_numbers = number_by_first(hosts);
  const std::vector<int> process_numbers = number_by_first(processes);
  facts.cores_of_host.assign(static_cast<std::size_t>(*std::ranges::max_element(host_numbers)) + 1, 0);
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    facts.measures = facts.measures && hellos[r].at("measures").get<bool>();
    facts.measures_again = facts.measures_again && hellos[r].at("measures_again").get<bool>();
    facts.ranks.push_back({host_numbers[r], process_numbers[r], hellos[r].at("device"), hellos[r].at("nic")});
    if (hellos[r].contains("links"))
      facts.ranks.back().links = device_links_from_bytes(from_binary(hellos[r].at("links")));
    facts.ranks.back().links.host = host_numbers[r];
    if (facts.no_device.empty() && facts.ranks.back().device < 0)
      facts.no_device = fmt::format("rank {} has no device: {}", r, hellos[r].at("no_device").get<std::string>());
    int& cores = facts.cores_of_host[static_cast<std::size_t>(host_numbers[r])];
    cores = std::max(cores, hellos[r].at("cores").get<int>());
    auto& addresses = gathered.addresses.emplace_back(facts.transports.size());
    for (const Json& t : hellos[r].at("transports")) {
      const std::string name = t.at("name");
      const auto index = static_cast<std::size_t>(std::ranges::find(facts.transports, name) - facts.transports.begin());
      if (t.contains("address")) addresses[index] = from_binary(t.at("address"));
      if (const std::string why = t.at("unavailable"); !why.empty()) {
        facts.absences.push_back({name, static_cast<int>(r), why});
      }
      if (const std::string why = t.at("no_offload"); !why.empty()) facts.no_offload.emplace(name, why);
      if (!t.at("by_nic").get<bool>()) facts.by_nic.erase(name);
      if (r == 0) facts.offload_facts[name] = from_binary(t.at("offload_facts"));
    }
  }
}

/// Lists the transports of links without a way by their reasons. It leaves out transports that no rank has where others
/// say more.
std::string why_no_way(const Facts& facts, const LinkClass& where, const std::vector<Facts::Link>& links) {
  std::map<std::string, std::string> transports_of;
  std::map<std::string, std::string> of_nobody;
  for (const Facts::Link& l : links) {
    const Facts::Absence* absence = absent_on(facts, where, l.transport);
    std::string& names =
        (absence != nullptr && is_everywhere(facts, *absence) ? of_nobody : transports_of)[l.reach.reason];
    names += (names.empty() ? "" : ", ") + l.transport;
  }
  std::string text;
  for (const auto& [reason, names] : transports_of.empty() ? of_nobody : transports_of)
    text += fmt::format("; {}: {}", names, reason);
  return text;
}

/// The facts are the same on all ranks, so all of them refuse.
void require_ways(const Facts& facts, const std::vector<Json>& hellos) {
  for (const auto& [where, pair] : probing_pairs(facts)) {
    const auto& links = facts.links.at(where);
    if (std::ranges::any_of(links, [](const Facts::Link& l) { return l.reach.ok; })) continue;
    throw Error(
        Code::Unavailable,
        fmt::format("no transport carries messages between {} and {}{}; expected at least one, such as shm on a "
                    "host and tcp between hosts",
                    name_rank(hellos, pair.first), name_rank(hellos, pair.second), why_no_way(facts, where, links)));
  }
}

}  // namespace

GatheredFacts gather_facts(const Exchange& exchange, const LocalFacts& mine, const Config& config) {
  std::vector<Json> hellos;
  for (const Bytes& b : exchange.all_gather(to_cbor(hello_of(mine, config)))) hellos.push_back(from_cbor(b));
  constexpr const char* kSetAlike = "set the variable alike for all ranks";
  require_equal(hellos, "version", "library versions", "install the same version of sinew on every host");
  require_equal(hellos, "tls", "the settings of SINEW_TLS", kSetAlike);
  require_equal(hellos, "rules", "user rules (SINEW_TUNE)", kSetAlike);
  GatheredFacts gathered;
  for (const std::string& rule : config.tune) gathered.facts.rules.push_back(Rule::parse(rule));
  read_hellos(hellos, gathered);

  std::vector<Bytes> reports = exchange.all_gather(to_cbor(probe_links(exchange, mine, gathered, hellos)));
  std::size_t hash = 0;
  for (const Bytes& b : reports) {
    for (const Json& row : from_cbor(b)) {
      const LinkClass where{row.at("a"), row.at("b"), row.at("process")};
      gathered.facts.links[where].push_back({row.at("transport"), reach_from_json(row.at("reach"))});
    }
    hash = hash * 31 + std::hash<std::string_view>{}({reinterpret_cast<const char*>(b.data()), b.size()});
  }
  const std::vector<Bytes> hashes = exchange.all_gather(to_cbor(Json(hash)));
  for (std::size_t r = 1; r < hashes.size(); ++r) {
    if (hashes[r] != hashes[0]) {
      throw Error(Code::InvalidArgument, fmt::format("the tables of facts differ between rank 0 and rank {}", r));
    }
  }
  require_ways(gathered.facts, hellos);
  return gathered;
}

}  // namespace sinew

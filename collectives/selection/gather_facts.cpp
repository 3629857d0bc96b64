#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/core/base/version.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/format/json/cbor.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

/// A transport of a rank, without its address.
struct TransportRow {
  std::string name;
  std::string unavailable;
  std::string no_offload;
  Bytes offload_facts;
  bool by_nic = false;
  bool has_address = false;
};

/// The part of a rank's record that most ranks of a job have in common, so that a reader decodes it once for all ranks
/// that say the same.
struct CommonPart {
  std::string version;
  int cores = 1;
  std::string no_device;
  bool measures = true;
  bool measures_again = true;
  bool tls = false;
  std::vector<std::string> rules;
  std::vector<TransportRow> transports;

  Bytes encode() const {
    WireWriter out;
    out.text(version).value(cores).text(no_device);
    out.value(measures).value(measures_again).value(tls);
    out.value(static_cast<std::uint32_t>(rules.size()));
    for (const std::string& rule : rules) out.text(rule);
    out.value(static_cast<std::uint32_t>(transports.size()));
    for (const TransportRow& t : transports)
      out.text(t.name)
          .text(t.unavailable)
          .text(t.no_offload)
          .bytes(t.offload_facts)
          .value(t.by_nic)
          .value(t.has_address);
    return out.take();
  }

  static std::shared_ptr<const CommonPart> decode(std::span<const std::byte> bytes) {
    auto part = std::make_shared<CommonPart>();
    WireReader in(bytes);
    part->version = in.text();
    part->cores = in.value<int>();
    part->no_device = in.text();
    part->measures = in.value<bool>();
    part->measures_again = in.value<bool>();
    part->tls = in.value<bool>();
    for (auto left = in.value<std::uint32_t>(); left > 0; --left) part->rules.push_back(in.text());
    for (auto left = in.value<std::uint32_t>(); left > 0; --left) {
      TransportRow& t = part->transports.emplace_back();
      t.name = in.text();
      t.unavailable = in.text();
      t.no_offload = in.text();
      t.offload_facts = in.owned_bytes();
      t.by_nic = in.value<bool>();
      t.has_address = in.value<bool>();
    }
    return part;
  }
};

/// A rank's record as another rank reads it. The spans point into the bytes that the exchange has returned.
struct RankHello {
  std::shared_ptr<const CommonPart> common;
  std::string host;
  std::string host_name;
  std::string process;
  int device = -1;
  int nic = 0;
  std::span<const std::byte> links;                   ///< empty: the rank has no device
  std::vector<std::span<const std::byte>> addresses;  ///< of the transports that have one, in the order of `common`
};

Bytes encode_hello(const LocalFacts& mine, const Config& config) {
  CommonPart common{.version = std::string(version()),
                    .cores = mine.usable_cores,
                    .no_device = mine.no_device,
                    .measures = mine.measures,
                    .measures_again = mine.measures_again,
                    .tls = config.tls.wanted,
                    .rules = config.tune,
                    .transports = {}};
  WireWriter own;
  own.text(mine.host_id).text(host_name()).text(mine.process_id).value(mine.device).value(mine.nic);
  own.bytes(mine.device >= 0 ? to_bytes(mine.links) : Bytes{});
  for (const OpenedTransport& t : mine.transports) {
    common.transports.push_back({t.name, t.unavailable, t.no_offload, t.offload_facts, t.by_nic, t.rail != nullptr});
    if (t.rail != nullptr) own.bytes(t.rail->address());
  }
  return WireWriter().bytes(common.encode()).rest(own.take()).take();
}

/// Errors: Mismatch naming the rank whose record is no record of this version.
std::vector<RankHello> decode_hellos(const std::vector<Bytes>& said) {
  std::vector<RankHello> hellos;
  std::unordered_map<std::string_view, std::shared_ptr<const CommonPart>> known;
  for (const Bytes& bytes : said) try {
      WireReader in(bytes);
      const std::span<const std::byte> common = in.bytes();
      auto& part = known[{reinterpret_cast<const char*>(common.data()), common.size()}];
      if (!part) part = CommonPart::decode(common);
      RankHello& hello = hellos.emplace_back();
      hello.common = part;
      hello.host = in.text();
      hello.host_name = in.text();
      hello.process = in.text();
      hello.device = in.value<int>();
      hello.nic = in.value<int>();
      hello.links = in.bytes();
      for (const TransportRow& t : hello.common->transports) {
        if (t.has_address) hello.addresses.push_back(in.bytes());
      }
    } catch (const Error& e) {
      const auto rank = static_cast<int>(&bytes - said.data());
      throw Error(Code::Mismatch,
                  fmt::format("rank {} has published a record of another version of sinew: {}", rank, e.what()), rank);
    }
  return hellos;
}

std::string name_rank(const std::vector<RankHello>& hellos, int rank) {
  return fmt::format("rank {} on {}", rank, hellos[static_cast<std::size_t>(rank)].host_name);
}

/// Numbers values in the order of their first appearance.
std::vector<int> number_by_first(const std::vector<std::string>& values) {
  std::vector<int> numbers;
  std::map<std::string, int> seen;
  for (const std::string& v : values) numbers.push_back(seen.emplace(v, static_cast<int>(seen.size())).first->second);
  return numbers;
}

/// Errors: InvalidArgument where `value_of(common part)` is not the same text on all ranks.
template <class ValueOf>
void require_equal(const std::vector<RankHello>& hellos, const char* what, const char* cure, ValueOf&& value_of) {
  const CommonPart* seen = hellos[0].common.get();
  const std::string first = value_of(*seen);
  for (std::size_t r = 1; r < hellos.size(); ++r) {
    const CommonPart* common = hellos[r].common.get();
    if (std::exchange(seen, common) == common) continue;
    const std::string other = value_of(*common);
    if (other == first) continue;
    throw Error(Code::InvalidArgument, fmt::format("{} differ: {} has {}, {} has {}: {}", what, name_rank(hellos, 0),
                                                   first, name_rank(hellos, static_cast<int>(r)), other, cure));
  }
}

/// The pair of ranks that probes a class: the lowest first rank, then the lowest second.
/// Cost: O(ranks + pairs of hosts).
std::map<LinkClass, std::pair<int, int>> probing_pairs(const Facts& facts) {
  struct Host {
    int first = -1;            // its lowest rank
    int other_process = -1;    // its lowest rank of another process than that of `first`
    std::pair<int, int> near;  // the lowest two ranks of one process; {-1, -1}: each rank has a process of its own
  };
  std::vector<Host> hosts(facts.cores_of_host.size(), Host{.near = {-1, -1}});
  std::map<int, std::pair<int, int>> processes;  // by number: its lowest two ranks
  for (int r = 0; r < static_cast<int>(facts.ranks.size()); ++r) {
    const Facts::Rank& rank = facts.ranks[static_cast<std::size_t>(r)];
    Host& host = hosts[static_cast<std::size_t>(rank.host)];
    if (host.first < 0) host.first = r;
    const bool is_other = rank.process != facts.ranks[static_cast<std::size_t>(host.first)].process;
    if (host.other_process < 0 && is_other) host.other_process = r;
    const auto [at, is_new] = processes.try_emplace(rank.process, r, -1);
    if (!is_new && at->second.second < 0) at->second.second = r;
  }
  for (const auto& [number, pair] : processes) {
    if (pair.second < 0) continue;
    Host& host = hosts[static_cast<std::size_t>(facts.ranks[static_cast<std::size_t>(pair.first)].host)];
    if (host.near.first < 0 || pair.first < host.near.first) host.near = pair;
  }
  std::map<LinkClass, std::pair<int, int>> pairs;
  for (int a = 0; a < static_cast<int>(hosts.size()); ++a) {
    const Host& host = hosts[static_cast<std::size_t>(a)];
    if (host.other_process >= 0) pairs.emplace(LinkClass{a, a, false}, std::pair(host.first, host.other_process));
    if (host.near.first >= 0) pairs.emplace(LinkClass{a, a, true}, host.near);
    for (int b = a + 1; b < static_cast<int>(hosts.size()); ++b)
      pairs.emplace(LinkClass{a, b, false}, std::pair(host.first, hosts[static_cast<std::size_t>(b)].first));
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
                 const std::vector<RankHello>& hellos) {
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

void read_hellos(const std::vector<RankHello>& hellos, GatheredFacts& gathered) {
  Facts& facts = gathered.facts;
  std::vector<std::string> hosts;
  std::vector<std::string> processes;
  std::set<const CommonPart*> different;
  std::set<std::string> names;
  for (const RankHello& h : hellos) {
    hosts.push_back(h.host);
    processes.push_back(hosts.back() + "/" + h.process);
    if (!different.insert(h.common.get()).second) continue;
    for (const TransportRow& t : h.common->transports) names.insert(t.name);
  }
  facts.transports.assign(names.begin(), names.end());
  facts.by_nic = std::move(names);
  for (const std::string& name : facts.transports) {
    std::map<const CommonPart*, bool> here;
    for (const CommonPart* part : different)
      here[part] = std::ranges::find(part->transports, name, &TransportRow::name) != part->transports.end();
    for (std::size_t r = 0; r < hellos.size(); ++r) {
      if (!here[hellos[r].common.get()])
        facts.absences.push_back({name, static_cast<int>(r), "left out by SINEW_TRANSPORTS or the caller"});
    }
  }
  const std::vector<int> host_numbers = number_by_first(hosts);
  const std::vector<int> process_numbers = number_by_first(processes);
  facts.cores_of_host.assign(static_cast<std::size_t>(*std::ranges::max_element(host_numbers)) + 1, 0);
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    const RankHello& hello = hellos[r];
    const CommonPart& common = *hello.common;
    facts.measures = facts.measures && common.measures;
    facts.measures_again = facts.measures_again && common.measures_again;
    facts.ranks.push_back({host_numbers[r], process_numbers[r], hello.device, hello.nic});
    if (!hello.links.empty())
      facts.ranks.back().links = device_links_from_bytes(Bytes(hello.links.begin(), hello.links.end()));
    facts.ranks.back().links.host = host_numbers[r];
    if (facts.no_device.empty() && hello.device < 0)
      facts.no_device = fmt::format("rank {} has no device: {}", r, common.no_device);
    int& cores = facts.cores_of_host[static_cast<std::size_t>(host_numbers[r])];
    cores = std::max(cores, common.cores);
    auto& addresses = gathered.addresses.emplace_back(facts.transports.size());
    auto address = hello.addresses.begin();
    for (const TransportRow& t : common.transports) {
      const auto index =
          static_cast<std::size_t>(std::ranges::find(facts.transports, t.name) - facts.transports.begin());
      if (t.has_address) addresses[index] = Address(address->begin(), address->end());
      if (t.has_address) ++address;
      if (!t.unavailable.empty()) facts.absences.push_back({t.name, static_cast<int>(r), t.unavailable});
      if (!t.no_offload.empty()) facts.no_offload.emplace(t.name, t.no_offload);
      if (!t.by_nic) facts.by_nic.erase(t.name);
      if (r == 0) facts.offload_facts[t.name] = t.offload_facts;
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
void require_ways(const Facts& facts, const std::vector<RankHello>& hellos) {
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
  const std::vector<Bytes> said = exchange.all_gather(encode_hello(mine, config));
  const std::vector<RankHello> hellos = decode_hellos(said);
  constexpr const char* kSetAlike = "set the variable alike for all ranks";
  require_equal(hellos, "library versions", "install the same version of sinew on every host",
                [](const CommonPart& p) { return json_text(Json(p.version)); });
  require_equal(hellos, "the settings of SINEW_TLS", kSetAlike,
                [](const CommonPart& p) { return std::string(p.tls ? "1" : "0"); });
  require_equal(hellos, "user rules (SINEW_TUNE)", kSetAlike,
                [](const CommonPart& p) { return json_text(Json(p.rules)); });
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

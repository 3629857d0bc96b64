#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

[[noreturn]] void bad_rule(const std::string& text, const std::string& why) {
  throw Error(Code::InvalidArgument,
              fmt::format("rule '{}': {}; expected COLLECTIVE:MIN-MAX:ALGORITHM[@TRANSPORT], such as "
                          "all_reduce:0-4KiB:recursive_doubling@shm",
                          text, why));
}

}  // namespace

Rule Rule::parse(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) bad_rule(text, "two colons are needed");
  Rule rule;
  rule.collective = text.substr(0, first);
  if (rule.collective != "*") {
    const auto collective = collective_from_name(rule.collective);
    if (!collective) bad_rule(text, "no such collective");
    rule.collective = name_of(*collective);
  }
  const std::string range = text.substr(first + 1, second - first - 1);
  const std::size_t dash = range.find('-');
  if (dash == std::string::npos) bad_rule(text, "the sizes are not a range");
  try {
    rule.min_bytes = dash == 0 ? 0 : parse_bytes(range.substr(0, dash));
    rule.max_bytes = dash + 1 == range.size() ? UINT64_MAX : parse_bytes(range.substr(dash + 1));
  } catch (const Error& e) {
    bad_rule(text, e.what());
  }
  if (rule.min_bytes > rule.max_bytes) bad_rule(text, "the sizes run backwards");
  const std::string choice = text.substr(second + 1);
  const std::size_t at = choice.find('@');
  rule.algorithm = choice.substr(0, at);
  rule.transport = at == std::string::npos ? "*" : choice.substr(at + 1);
  if (rule.algorithm.empty() || rule.transport.empty()) bad_rule(text, "the choice is empty");
  return rule;
}

LinkClass Facts::class_of(int rank_a, int rank_b) const noexcept {
  const Rank& a = ranks[static_cast<std::size_t>(rank_a)];
  const Rank& b = ranks[static_cast<std::size_t>(rank_b)];
  return {std::min(a.host, b.host), std::max(a.host, b.host), a.process == b.process};
}

const Facts::Link* Facts::link(const LinkClass& where, const std::string& transport) const noexcept {
  const auto row = links.find(where);
  if (row == links.end()) return nullptr;
  const auto link = std::ranges::find(row->second, transport, &Link::transport);
  return link == row->second.end() ? nullptr : &*link;
}

const Reach& Facts::reach(int rank_a, int rank_b, const std::string& transport) const {
  static const Reach kNotProbed{false, "was not opened", {}, {}};
  const Link* found = link(class_of(rank_a, rank_b), transport);
  return found == nullptr ? kNotProbed : found->reach;
}

std::vector<std::string> Facts::with_offload() const {
  std::vector<std::string> names;
  for (const std::string& t : transports) {
    const bool everywhere = std::ranges::find(absences, t, &Absence::transport) == absences.end();
    if (everywhere && !no_offload.contains(t)) names.push_back(t);
  }
  return names;
}

std::vector<DeviceLinks> Facts::devices_of(std::span<const int> world_ranks) const {
  std::vector<DeviceLinks> devices;
  for (const int r : world_ranks) {
    const Rank& rank = ranks[static_cast<std::size_t>(r)];
    if (rank.device < 0) return {};
    devices.push_back(rank.links);
  }
  return devices;
}

std::string Facts::to_string() const {
  std::string text = fmt::format("{} ranks on {} host(s), costs: {}\n", ranks.size(), cores_of_host.size(), source);
  for (const auto& [where, row] : links) {
    for (const Link& l : row) {
      const std::string place = where.same_process ? "within a process"
                                : where.host_a == where.host_b
                                    ? fmt::format("within host {}", where.host_a)
                                    : fmt::format("hosts {} and {}", where.host_a, where.host_b);
      if (!l.reach.ok) {
        text += fmt::format("  {}: {}: no, {}\n", place, l.transport, l.reach.reason);
      } else {
        const CostCurve& c = l.reach.cost;
        text +=
            fmt::format("  {}: {}: {:.2f} us, {:.2f} GB/s{}\n", place, l.transport, (c.overhead_s + c.latency_s) * 1e6,
                        c.knots.empty() ? 0.0 : c.knots.back().bytes_per_s / 1e9,
                        l.source == CostSource::Default ? ", assumed" : "");
      }
    }
  }
  std::map<std::string, int> devices;
  for (const Rank& rank : ranks) {
    if (rank.device >= 0) ++devices[device_kind({&rank.links, 1})];
  }
  for (const auto& [kind, count] : devices) text += fmt::format("  {} x {}\n", count, kind);
  for (const Absence& a : absences) text += fmt::format("  {} on rank {}: no, {}\n", a.transport, a.rank, a.reason);
  return text;
}

}  // namespace sinew

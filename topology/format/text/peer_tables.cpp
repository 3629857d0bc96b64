#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/topology/format/text/peer_tables.hpp>
#include <sinew/topology/format/text/text_matrix.hpp>

namespace sinew {
namespace {

using Pairs = std::map<std::pair<int, int>, const GpuPeer*>;
using PeerStatusField = PeerStatus GpuPeer::*;

struct Capability {
  const char* name;
  PeerStatusField status;
};

constexpr Capability kCapabilities[] = {
    {"read", &GpuPeer::read}, {"write", &GpuPeer::write}, {"NVLink", &GpuPeer::nvlink}, {"atomics", &GpuPeer::atomics}};

struct Word {
  const char* text;
  const char* meaning;
};

/// nvidia-smi's.
Word word_of(PeerStatus status) {
  switch (status) {
    case PeerStatus::Unknown: return {"U", "unknown"};
    case PeerStatus::Ok: return {"OK", "possible"};
    case PeerStatus::ChipsetNotSupported: return {"CNS", "chipset not supported"};
    case PeerStatus::GpuNotSupported: return {"GNS", "GPU not supported"};
    case PeerStatus::TopologyNotSupported: return {"TNS", "topology not supported"};
    case PeerStatus::Disabled: return {"DR", "disabled by a setting of the driver"};
    case PeerStatus::NotSupported: return {"NS", "not supported"};
  }
  return {};
}

/// "U: unknown (nvmlDeviceGetP2PStatus: GPU is lost); NS: not supported"; OK goes without saying.
std::string meaning_of(const std::set<PeerStatus>& used, const std::set<std::string>& reasons) {
  std::vector<std::string> meanings;
  for (const PeerStatus status : used) {
    if (status == PeerStatus::Ok) continue;
    meanings.push_back(fmt::format("{}: {}", word_of(status).text, word_of(status).meaning));
    if (status == PeerStatus::Unknown) meanings.back() += fmt::format(" ({})", fmt::join(reasons, "; "));
  }
  return fmt::format("{}", fmt::join(meanings, "; "));
}

std::vector<std::string> lines_of(const Machine& machine, const Pairs& pairs, PeerStatusField status) {
  std::vector<std::string> titles;
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) titles.push_back(fmt::format("GPU{}", g));
  std::set<PeerStatus> used;
  std::set<std::string> reasons;  // of what is unknown
  auto lines = text_matrix(titles, [&](std::size_t from, std::size_t to) -> std::string {
    if (from == to) return "X";
    const auto pair = pairs.find({static_cast<int>(from), static_cast<int>(to)});
    const PeerStatus own = pair == pairs.end() ? PeerStatus::Unknown : pair->second->*status;
    used.insert(own);
    if (own == PeerStatus::Unknown) reasons.insert(pair == pairs.end() ? "not asked" : pair->second->why);
    return word_of(own).text;
  });
  if (auto meaning = meaning_of(used, reasons); !meaning.empty()) lines.push_back(std::move(meaning));
  return lines;
}

}  // namespace

std::vector<PeerTable> peer_tables(const Machine& machine) {
  std::vector<PeerTable> tables;
  Pairs pairs;
  for (const GpuPeer& peer : machine.gpu_peers) pairs.emplace(std::pair(peer.from, peer.to), &peer);
  if (pairs.empty()) return tables;
  for (const Capability& capability : kCapabilities) {
    auto lines = lines_of(machine, pairs, capability.status);
    const auto same = std::ranges::find(tables, lines, &PeerTable::lines);
    if (same == tables.end()) {
      tables.push_back({capability.name, std::move(lines)});
    } else {
      same->by += fmt::format(", {}", capability.name);
    }
  }
  return tables;
}

}  // namespace sinew

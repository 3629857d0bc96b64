#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <sinew/transports/shm/model/levels.hpp>

namespace sinew::shm {
namespace {

/// Gives each pair of first[r] and second[r] a number, and equal pairs the same number. Numbers begin with 0 and follow
/// the order in which pairs first occur.
int number_pairs(const std::vector<int>& first, const std::vector<int>& second, std::vector<int>& numbers) {
  std::map<std::pair<int, int>, int> known;
  numbers.clear();
  for (std::size_t r = 0; r < first.size(); ++r) {
    const int next = static_cast<int>(known.size());
    numbers.push_back(known.try_emplace({first[r], second[r]}, next).first->second);
  }
  return static_cast<int>(known.size());
}

std::string_view plural_of(HostPart kind) noexcept {
  switch (kind) {
    case HostPart::Cache: return "caches";
    case HostPart::NumaNode: return "NUMA nodes";
    case HostPart::Package: return "sockets";
  }
  return {};
}

}  // namespace

Levels::Levels(int ranks, std::span<const PartsOfRanks> parts) : ranks_(ranks) {
  std::vector<int> outer(static_cast<std::size_t>(ranks));
  for (int kind = kHostParts - 1; kind >= 0; --kind) {  // from the outside in, so that domains lie within each other
    const auto k = static_cast<std::size_t>(kind);
    const auto known = std::ranges::find(parts, static_cast<HostPart>(kind), &PartsOfRanks::kind);
    const bool said = known != parts.end() && known->numbers.size() == outer.size();
    domains_[k] = number_pairs(outer, said ? known->numbers : outer, domain_of_[k]);
    for (std::size_t r = 0; r < outer.size(); ++r) is_bound_[k].push_back(!said || known->numbers[r] >= 0);
    outer = domain_of_[k];
  }
  int inner = ranks;
  for (std::size_t k = 0; k < kHostParts; ++k) {
    if (domains_[k] <= 1 || domains_[k] >= inner) continue;
    levels_.push_back({static_cast<HostPart>(k), domains_[k], domain_of_[k]});
    inner = domains_[k];
  }
}

Shared Levels::between(int a, int b) const noexcept {
  for (std::size_t k = 0; k < kHostParts; ++k) {
    const bool same = domain_of_[k][static_cast<std::size_t>(a)] == domain_of_[k][static_cast<std::size_t>(b)];
    if (a == b || (same && is_bound_[k][static_cast<std::size_t>(a)])) return static_cast<Shared>(k);
  }
  return Shared::Host;
}

std::string Levels::text() const {
  std::string text;
  for (const Level& level : levels_)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", level.domains, plural_of(level.kind));
  return text;
}

}  // namespace sinew::shm

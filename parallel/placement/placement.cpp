#include <algorithm>

#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {
namespace {

bool replicates(const Placement& p) noexcept { return std::holds_alternative<Replicate>(p); }

}  // namespace

std::string to_string(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) {
    if (shard->offsets.empty()) return fmt::format("Shard({})", shard->dim);
    return fmt::format("Shard({}: {})", shard->dim, fmt::join(shard->offsets, ", "));
  }
  if (const auto* partial = std::get_if<Partial>(&placement)) return fmt::format("Partial({})", name_of(partial->op));
  return "Replicate";
}

Placements::Placements(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const auto earlier = std::find_if(entries_.begin(), entry, [&](const Entry& e) { return e.axis == entry->axis; });
    if (earlier != entry) {
      throw Error(Code::InvalidArgument,
                  fmt::format("placements: axis {} has both {} and {}; expected one", entry->axis,
                              parallel::to_string(earlier->placement), parallel::to_string(entry->placement)));
    }
  }
  std::erase_if(entries_, [](const Entry& e) { return replicates(e.placement); });
}

const Placement& Placements::along(std::string_view axis) const noexcept {
  static const Placement kReplicate = Replicate{};
  const auto found = std::ranges::find(entries_, axis, &Entry::axis);
  return found == entries_.end() ? kReplicate : found->placement;
}

Placements Placements::with(std::string_view axis, Placement placement) const {
  Placements changed = *this;
  if (along(axis) == placement) return changed;
  std::erase_if(changed.entries_, [&](const Entry& e) { return e.axis == axis; });
  if (!replicates(placement)) changed.entries_.push_back({std::string(axis), std::move(placement)});
  return changed;
}

std::string Placements::to_string() const {
  if (entries_.empty()) return "replicated";
  std::string text;
  for (const Entry& e : entries_)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", e.axis, parallel::to_string(e.placement));
  return text;
}

}  // namespace sinew::parallel

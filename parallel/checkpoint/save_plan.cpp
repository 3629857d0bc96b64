#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/index/cover.hpp>
#include <sinew/parallel/checkpoint/save_plan.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/mesh/agreement.hpp>

namespace sinew::parallel {
namespace {

struct Holders {
  Extent extent;
  std::vector<int> ranks;  // ascending
  int writer = -1;
};

struct HeldItem {
  CheckpointItem item;
  int rank = 0;  // the first that has it
  std::vector<HeldExtent> parts;
  std::vector<Holders> extents;
};

auto order_of(const Extent& e) { return std::tie(e.box.first, e.box.last, e.first, e.last); }

void add(HeldItem& held, const Extent& extent, int rank) {
  auto at =
      std::ranges::lower_bound(held.extents, order_of(extent), {}, [](const Holders& h) { return order_of(h.extent); });
  if (at == held.extents.end() || at->extent != extent) at = held.extents.insert(at, {extent, {}, -1});
  const auto place = std::ranges::lower_bound(at->ranks, rank);
  if (place == at->ranks.end() || *place != rank) at->ranks.insert(place, rank);
}

std::map<std::string, HeldItem> by_name(const std::vector<std::vector<PartDescription>>& of_ranks) {
  std::map<std::string, HeldItem> items;
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (const PartDescription& part : of_ranks[r]) {
      HeldItem& held = items.try_emplace(part.item.name, HeldItem{part.item, rank, {}}).first->second;
      if (held.item != part.item)
        throw Error(Code::InvalidArgument,
                    fmt::format("rank {} has {}, rank {} {}; expected one shape and element type for a name", held.rank,
                                held.item.to_string(), rank, part.item.to_string()),
                    rank);
      if (part.extent.elements() > 0 || part.item.elements() == 0) held.parts.push_back({part.extent, rank});
    }
  }
  return items;
}

/// Where parts of one box begin and end, if as many ranks have each of its elements: so do those that hold a tensor
/// alike and cut it among others each, at places of their own. Else nothing: parts overlap that should not.
std::vector<std::int64_t> cuts_of(std::span<const HeldExtent> parts) {
  std::map<std::int64_t, int> begun;  // less what ends there
  for (const HeldExtent& part : parts) {
    ++begun[part.extent.first];
    --begun[part.extent.last];
  }
  std::vector<std::int64_t> cuts;
  for (const auto& [at, more] : begun) {
    const bool is_inside = at != begun.begin()->first && at != begun.rbegin()->first;
    if (is_inside && more != 0) return {};
    cuts.push_back(at);
  }
  return cuts;
}

/// Finds the ranks that hold each extent. If ranks divide a box differently, their parts are first divided at all of
/// their ends. So equal elements become equal extents.
void find_holders(HeldItem& held) {
  std::ranges::stable_sort(held.parts, {},
                           [](const HeldExtent& p) { return std::tie(p.extent.box.first, p.extent.box.last); });
  for (std::size_t begin = 0, end = 0; begin < held.parts.size(); begin = end) {
    while (end < held.parts.size() && held.parts[end].extent.box == held.parts[begin].extent.box) ++end;
    const std::span of_box = std::span(held.parts).subspan(begin, end - begin);
    const std::vector<std::int64_t> cuts = cuts_of(of_box);
    for (const auto& [extent, rank] : of_box) {
      Extent piece{extent.box, extent.first, extent.first};
      for (auto cut = std::ranges::upper_bound(cuts, extent.first); piece.last < extent.last; ++cut) {
        piece.first = piece.last;
        piece.last = cut == cuts.end() ? extent.last : *cut;
        add(held, normal_extent(held.item, piece), rank);
      }
      if (extent.elements() == 0) add(held, normal_extent(held.item, extent), rank);
    }
  }
}

/// Chooses the writer of each extent. An extent that one rank alone holds is written by this rank. Then, the largest
/// first, each other extent is written by that holder which has the fewest bytes to write so far.
void choose_writers(std::map<std::string, HeldItem>& items, std::size_t ranks) {
  std::vector<std::uint64_t> load(ranks, 0);
  std::vector<std::pair<std::uint64_t, Holders*>> shared;
  for (auto& [name, held] : items) {
    for (Holders& h : held.extents) {
      const std::uint64_t bytes = bytes_of(held.item, h.extent);
      if (h.ranks.size() > 1) {
        shared.emplace_back(bytes, &h);
      } else {
        h.writer = h.ranks.front();
        load[static_cast<std::size_t>(h.writer)] += bytes;
      }
    }
  }
  std::ranges::stable_sort(shared, std::greater(), [](const auto& s) { return s.first; });
  for (const auto& [bytes, h] : shared) {
    h->writer = *std::ranges::min_element(h->ranks, {}, [&](int r) { return load[static_cast<std::size_t>(r)]; });
    load[static_cast<std::size_t>(h->writer)] += bytes;
  }
}

/// Files of the ranks that write anything, and in each the parts with the largest elements first: all are aligned.
void place(CheckpointIndex& index) {
  for (std::int32_t f = 0; f < std::ssize(index.files); ++f) {
    StoredFile& file = index.files[static_cast<std::size_t>(f)];
    file.name = fmt::format("rank-{:05}-of-{:05}.safetensors", file.rank, index.ranks);
    for (const std::size_t element : {8, 4, 2, 1}) {
      for (StoredItem& stored : index.items) {
        if (size_of(stored.item.dtype) != element) continue;
        for (StoredPart& part : stored.parts) {
          if (part.file != f) continue;
          part.offset = file.data_bytes;
          file.data_bytes += bytes_of(stored.item, part.extent);
        }
      }
    }
  }
}

std::string text_of(const CheckpointMetadata& m) {
  std::string text =
      fmt::format("step {}, optimizer steps {}, seed {}, data position {}, layout '{}', configuration '{}'", m.step,
                  m.optimizer_steps, m.seed, m.data_position, m.layout, m.configuration);
  if (m.loss_scale) {
    text += fmt::format(", loss scale {} after {} good steps, {} steps skipped", m.loss_scale->scale,
                        m.loss_scale->good_steps, m.loss_scale->skipped_steps);
  }
  if (m.sampler) text += ", " + m.sampler->to_string();
  return text;
}

}  // namespace

CheckpointIndex plan_save(const std::vector<std::vector<PartDescription>>& of_ranks,
                          const CheckpointMetadata& metadata) {
  std::map<std::string, HeldItem> items = by_name(of_ranks);
  for (auto& [name, held] : items) {
    find_holders(held);
    std::vector<HeldExtent> extents;
    for (const Holders& h : held.extents) extents.push_back({h.extent, h.ranks.front()});
    require_covered(held.item, extents);
  }
  choose_writers(items, of_ranks.size());
  CheckpointIndex index{metadata, static_cast<std::int32_t>(of_ranks.size()), {}, {}};
  std::map<int, std::int32_t> file_of;
  for (const auto& [name, held] : items) {
    for (const Holders& h : held.extents) file_of.emplace(h.writer, 0);
  }
  for (auto& [rank, file] : file_of) {
    file = static_cast<std::int32_t>(index.files.size());
    index.files.push_back({.rank = rank});
  }
  for (const auto& [name, held] : items) {
    StoredItem& stored = index.items.emplace_back(held.item);
    for (const Holders& h : held.extents) stored.parts.push_back({h.extent, file_of.at(h.writer), 0, {}});
  }
  place(index);
  return index;
}

void require_sound(const CheckpointMetadata& metadata) {
  if (metadata.step < 0) throw Error(Code::InvalidArgument, fmt::format("step {}, expected 0 or more", metadata.step));
  if (metadata.loss_scale && !(std::isfinite(metadata.loss_scale->scale) && metadata.loss_scale->scale > 0))
    throw Error(Code::InvalidArgument,
                fmt::format("loss scale {}, expected a finite number above 0", metadata.loss_scale->scale));
  if (metadata.sampler) require_sound(*metadata.sampler);
  static_cast<void>(to_text(CheckpointIndex{metadata, 0, {}, {}}));  // throws for text that is not UTF-8
}

void require_equal_metadata(CallGroup all, const std::string& what, const CheckpointMetadata& metadata) {
  require_equal_on_all(all, what, text_of(metadata), all.options(what.c_str()));
}

std::vector<PartDescription> descriptions_of(std::span<const CheckpointPart> parts) {
  std::vector<PartDescription> descriptions;
  for (const CheckpointPart& part : parts) {
    require_valid(part);
    descriptions.push_back({part.item, part.extent});
  }
  return descriptions;
}

CheckpointIndex plan_with_all(CallGroup all, const std::string& what, std::span<const CheckpointPart> parts,
                              const CheckpointMetadata& metadata) {
  std::string mine;
  on_all_or_none(all, what, [&] {
    require_sound(metadata);
    mine = to_text(descriptions_of(parts));
  });
  require_equal_metadata(all, what, metadata);
  const std::vector<std::string> texts = texts_of_all(all, mine, all.options(what.c_str()));
  CheckpointIndex plan;
  on_all_or_none(all, what, [&] {
    std::vector<std::vector<PartDescription>> of_ranks;
    for (const std::string& text : texts) of_ranks.push_back(descriptions_from_text(text));
    plan = plan_save(of_ranks, metadata);
  });
  return plan;
}

}  // namespace sinew::parallel

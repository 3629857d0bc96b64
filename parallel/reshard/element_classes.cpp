#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/reshard/element_classes.hpp>

namespace sinew::parallel {
namespace {

/// A part, and the rank that holds or wants it.
struct OwnedRange {
  int rank = 0;
  const PartDescription* part = nullptr;
};
using PartsByItem = std::map<std::string_view, std::vector<OwnedRange>>;

PartsByItem parts_by_item(const std::vector<ReshardFacts>& of_ranks,
                          std::vector<PartDescription> ReshardFacts::*which) {
  PartsByItem parts;
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    for (const PartDescription& part : of_ranks[r].*which) {
      require_valid(part.item, part.extent);
      parts[part.item.name].push_back({static_cast<int>(r), &part});
    }
  }
  return parts;
}

/// The point at which a rank's run of elements begins or ends.
struct RunEnd {
  std::int64_t at = 0;
  int rank = 0;
  bool is_held = false;
  int change = 0;  ///< 1: the run begins; -1: it ends
};

void add_ends(std::vector<RunEnd>& ends, const OwnedRange& owned, bool is_held) {
  for (const ElementRun& run : runs_of(owned.part->item, owned.part->extent)) {
    ends.push_back({run.first, owned.rank, is_held, 1});
    ends.push_back({run.last, owned.rank, is_held, -1});
  }
}

/// By rank: how many parts that hold or want the present element.
struct Owners {
  std::vector<std::uint16_t> parts;
  int ranks = 0;

  explicit Owners(std::size_t all) : parts(all) {}
  void change(const RunEnd& end) {
    std::uint16_t& n = parts[static_cast<std::size_t>(end.rank)];
    ranks -= n > 0 ? 1 : 0;
    n = static_cast<std::uint16_t>(n + end.change);
    ranks += n > 0 ? 1 : 0;
  }
  std::vector<int> list() const {
    std::vector<int> owners;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (parts[r] > 0) owners.push_back(static_cast<int>(r));
    }
    return owners;
  }
  void append_to(std::string& key) const {
    for (const std::uint16_t n : parts) key += n > 0 ? '1' : '0';
  }
};

/// Adds intervals to their classes.
class Sorter {
 public:
  explicit Sorter(std::size_t ranks) : ranks_(ranks) {}

  /// Sweeps over the elements of an item that travel in one dtype. `ends` are those of its parts.
  void sweep(const CheckpointItem& item, std::uint32_t number, DType travels, std::vector<RunEnd> ends) {
    std::ranges::sort(ends, {}, &RunEnd::at);
    Owners holders(ranks_), wanters(ranks_);
    for (std::size_t i = 0; i < ends.size();) {
      const std::int64_t first = ends[i].at;
      for (; i < ends.size() && ends[i].at == first; ++i) (ends[i].is_held ? holders : wanters).change(ends[i]);
      if (i == ends.size() || wanters.ranks == 0) continue;
      require_sound(item, holders, wanters, first, ends[i].at);
      add(holders, wanters, {number, travels, first, ends[i].at - first});
    }
  }

  std::vector<ElementClass> take() { return std::move(classes_); }

 private:
  static void require_sound(const CheckpointItem& item, const Owners& holders, const Owners& wanters,
                            std::int64_t first, std::int64_t last) {
    if (holders.ranks == 0)
      throw Error(Code::InvalidArgument,
                  fmt::format("reshard: elements [{}, {}) of {}: rank {} wants them, and no rank holds them", first,
                              last, item.to_string(), wanters.list().front()));
    const auto twice = std::ranges::find_if(wanters.parts, [](std::uint16_t n) { return n > 1; });
    if (twice != wanters.parts.end())
      throw Error(Code::InvalidArgument,
                  fmt::format("reshard: elements [{}, {}) of {}: rank {} wants them in two parts, expected one part",
                              first, last, item.to_string(), twice - wanters.parts.begin()));
  }

  void add(const Owners& holders, const Owners& wanters, const ReshardSegment& segment) {
    std::string key(1, static_cast<char>(segment.travels));
    holders.append_to(key);
    wanters.append_to(key);
    const auto [at, is_new] = number_of_.try_emplace(std::move(key), classes_.size());
    if (is_new) classes_.push_back({holders.list(), wanters.list(), segment.travels, {}, 0});
    ElementClass& of = classes_[at->second];
    of.segments.push_back(segment);
    of.elements += segment.count;
  }

  std::size_t ranks_;
  std::unordered_map<std::string, std::size_t> number_of_;
  std::vector<ElementClass> classes_;
};

/// The elements that any of the parts has, in the fewest runs.
std::vector<ElementRun> united_runs(const std::vector<OwnedRange>& parts) {
  std::vector<ElementRun> runs, united;
  for (const OwnedRange& owned : parts) {
    const std::vector<ElementRun> more = runs_of(owned.part->item, owned.part->extent);
    runs.insert(runs.end(), more.begin(), more.end());
  }
  std::ranges::sort(runs, {}, &ElementRun::first);
  for (const ElementRun& run : runs) {
    if (!united.empty() && run.first <= united.back().last) {
      united.back().last = std::max(united.back().last, run.last);
    } else {
      united.push_back(run);
    }
  }
  return united;
}

/// An item that two ranks describe differently.
[[noreturn]] void throw_conflict(const OwnedRange& a, const char* a_does, const OwnedRange& b, const char* b_does,
                                 std::string_view expected) {
  throw Error(Code::InvalidArgument,
              fmt::format("reshard: rank {} {} {}, rank {} {} {}; expected {}", a.rank, a_does,
                          a.part->item.to_string(), b.rank, b_does, b.part->item.to_string(), expected));
}

/// The elements that a rank wants in two dtypes are in two sweeps, so they are looked for by themselves.
void require_wanted_once(const CheckpointItem& item, const std::vector<OwnedRange>& wanted) {
  std::map<int, std::vector<ElementRun>> of_rank;
  for (const OwnedRange& owned : wanted) {
    const std::vector<ElementRun> runs = runs_of(owned.part->item, owned.part->extent);
    std::vector<ElementRun>& all = of_rank[owned.rank];
    all.insert(all.end(), runs.begin(), runs.end());
  }
  for (auto& [rank, runs] : of_rank) {
    std::ranges::sort(runs, {}, &ElementRun::first);
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].first < runs[i - 1].last)
        throw Error(Code::InvalidArgument,
                    fmt::format("reshard: elements [{}, {}) of {}: rank {} wants them in two parts, expected one part",
                                runs[i].first, std::min(runs[i].last, runs[i - 1].last), item.to_string(), rank));
    }
  }
}

}  // namespace

std::vector<CheckpointItem> items_of(const std::vector<ReshardFacts>& of_ranks) {
  const PartsByItem held = parts_by_item(of_ranks, &ReshardFacts::held);
  const PartsByItem wanted = parts_by_item(of_ranks, &ReshardFacts::wanted);
  std::map<std::string_view, CheckpointItem> items;
  for (const auto& [name, parts] : held) {
    items.emplace(name, parts[0].part->item);
    for (const OwnedRange& other : parts) {
      if (other.part->item != parts[0].part->item)
        throw_conflict(parts[0], "holds", other, "holds", "one shape and dtype of an item on all ranks that hold it");
    }
  }
  for (const auto& [name, parts] : wanted) {
    const auto holders = held.find(name);
    const OwnedRange& first = holders == held.end() ? parts[0] : holders->second[0];
    items.emplace(name, first.part->item);
    for (const OwnedRange& other : parts) {
      if (other.part->item.shape != first.part->item.shape)
        throw_conflict(first, holders == held.end() ? "wants" : "holds", other, "wants", "one shape of an item");
      if (holders == held.end()) continue;
      try {
        static_cast<void>(travelling_dtype(first.part->item.dtype, other.part->item.dtype));
      } catch (const Error&) {
        throw_conflict(first, "holds", other, "wants", "the same dtype, or two dtypes of floating point");
      }
    }
  }
  std::vector<CheckpointItem> all;
  for (auto& [name, item] : items) all.push_back(std::move(item));
  return all;
}

bool are_held(const std::vector<ReshardFacts>& of_ranks) {
  static_cast<void>(items_of(of_ranks));  // for its checks
  const PartsByItem held = parts_by_item(of_ranks, &ReshardFacts::held);
  for (const auto& [name, wanted] : parts_by_item(of_ranks, &ReshardFacts::wanted)) {
    const auto holders = held.find(name);
    const std::vector<ElementRun> have =
        holders == held.end() ? std::vector<ElementRun>{} : united_runs(holders->second);
    for (const ElementRun& run : united_runs(wanted)) {
      const auto after = std::ranges::upper_bound(have, run.first, {}, &ElementRun::first);
      if (after == have.begin() || std::prev(after)->last < run.last) return false;
    }
  }
  return true;
}

std::vector<ElementClass> classes_of(const std::vector<ReshardFacts>& of_ranks,
                                     const std::vector<CheckpointItem>& items) {
  const PartsByItem held = parts_by_item(of_ranks, &ReshardFacts::held);
  const PartsByItem wanted = parts_by_item(of_ranks, &ReshardFacts::wanted);
  Sorter sorter(of_ranks.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const CheckpointItem& item = items[i];
    const auto wanters = wanted.find(item.name);
    if (wanters == wanted.end()) continue;
    require_wanted_once(item, wanters->second);
    std::vector<RunEnd> held_ends;
    if (const auto holders = held.find(item.name); holders != held.end()) {
      for (const OwnedRange& owned : holders->second) add_ends(held_ends, owned, true);
    }
    std::map<DType, std::vector<RunEnd>> ends_of;
    for (const OwnedRange& owned : wanters->second) {
      const DType travels = travelling_dtype(item.dtype, owned.part->item.dtype);
      add_ends(ends_of.try_emplace(travels, held_ends).first->second, owned, false);
    }
    for (auto& [travels, ends] : ends_of) sorter.sweep(item, static_cast<std::uint32_t>(i), travels, std::move(ends));
  }
  return sorter.take();
}

}  // namespace sinew::parallel

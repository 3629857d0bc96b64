#include <algorithm>
#include <map>
#include <string_view>

#include <sinew/parallel/common/convert.hpp>
#include <sinew/parallel/reshard/part_memory.hpp>

namespace sinew::parallel {

PartMemory::PartMemory(const std::vector<CheckpointItem>& items, std::span<const CheckpointPart> parts,
                       const std::vector<std::byte*>& memory)
    : of_item_(items.size()) {
  std::map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < items.size(); ++i) numbers.emplace(items[i].name, i);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const DType dtype = parts[p].item.dtype;
    const auto number = numbers.find(parts[p].item.name);
    if (number == numbers.end()) continue;
    for (const ElementRun& run : runs_of(parts[p].item, parts[p].extent))
      of_item_[number->second].push_back(
          {run.first, run.last, memory[p] + static_cast<std::size_t>(run.at) * size_of(dtype), dtype});
  }
  for (std::vector<Run>& runs : of_item_) {
    std::ranges::stable_sort(runs, {}, &Run::first);
    std::vector<Run> apart;
    for (Run run : runs) {
      if (!apart.empty() && run.first < apart.back().last) {
        const std::int64_t twice = std::min(run.last, apart.back().last) - run.first;
        run.at += static_cast<std::size_t>(twice) * size_of(run.dtype);
        run.first += twice;
      }
      if (run.first < run.last) apart.push_back(run);
    }
    runs = std::move(apart);
  }
}

std::byte* PartMemory::whole(const std::vector<ReshardSegment>& segments) const {
  if (segments.size() != 1) return nullptr;
  std::byte* at = nullptr;
  for_each_stretch(segments[0], [&](const Stretch& s) {
    if (s.count == segments[0].count && s.dtype == segments[0].travels) at = s.at;
  });
  return at;
}

std::byte* pack(const PartMemory& from, const ReshardSegment& segment, std::byte* to) {
  from.for_each_stretch(segment, [&](const Stretch& s) {
    convert(s.at, s.dtype, to, segment.travels, s.count);
    to += static_cast<std::size_t>(s.count) * size_of(segment.travels);
  });
  return to;
}

const std::byte* unpack(const std::byte* from, const PartMemory& to, const ReshardSegment& segment) {
  to.for_each_stretch(segment, [&](const Stretch& s) {
    convert(from, segment.travels, s.at, s.dtype, s.count);
    from += static_cast<std::size_t>(s.count) * size_of(segment.travels);
  });
  return from;
}

void copy_segment(const PartMemory& from, const PartMemory& to, const ReshardSegment& segment) {
  ReshardSegment rest = segment;
  from.for_each_stretch(segment, [&](const Stretch& s) {
    rest.count = s.count;
    const std::byte* at = s.at;
    to.for_each_stretch(rest, [&](const Stretch& t) {
      convert(at, s.dtype, t.at, t.dtype, t.count);
      at += static_cast<std::size_t>(t.count) * size_of(s.dtype);
    });
    rest.first += s.count;
  });
}

}  // namespace sinew::parallel

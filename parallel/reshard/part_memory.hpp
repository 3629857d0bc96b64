#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel {

/// Elements that lie one after the other in a part's memory.
struct Stretch {
  std::byte* at = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::F32;

  std::size_t bytes() const noexcept { return static_cast<std::size_t>(count) * size_of(dtype); }
};

/// Finds the elements of segments in the memory of a rank's parts.
class PartMemory {
 public:
  PartMemory() = default;
  /// items: those of the plan. memory: for each part, where its elements are; null for parts of no element.
  PartMemory(const std::vector<CheckpointItem>& items, std::span<const CheckpointPart> parts,
             const std::vector<std::byte*>& memory);

  /// Calls f(Stretch) for the stretches of a segment, in order. The parts have all of its elements.
  template <class F>
  void for_each_stretch(const ReshardSegment& segment, const F& f) const {
    const std::vector<Run>& runs = of_item_[segment.item];
    const std::int64_t last = segment.first + segment.count;
    auto run = std::ranges::upper_bound(runs, segment.first, {}, &Run::first);
    if (run != runs.begin()) --run;
    for (std::int64_t first = segment.first; first < last && run != runs.end(); ++run) {
      const std::int64_t until = std::min(last, run->last);
      f(Stretch{run->at + static_cast<std::size_t>(first - run->first) * size_of(run->dtype), until - first,
                run->dtype});
      first = until;
    }
  }

  /// The memory of the segments where it is one stretch in the dtype in which they travel; otherwise null.
  std::byte* whole(const std::vector<ReshardSegment>& segments) const;

 private:
  /// Elements [first, last) of an item, the first of which is at `at`.
  struct Run {
    std::int64_t first = 0, last = 0;
    std::byte* at = nullptr;
    DType dtype = DType::F32;
  };

  std::vector<std::vector<Run>> of_item_;  // by item, ascending and without overlap
};

/// Writes the elements of a segment into a message, in the dtype in which they travel. Returns the end of the bytes.
std::byte* pack(const PartMemory& from, const ReshardSegment& segment, std::byte* to);
/// Reads the elements of a segment from a message. Returns the end of the bytes.
const std::byte* unpack(const std::byte* from, const PartMemory& to, const ReshardSegment& segment);
/// Copies a segment that a rank both holds and wants, through the dtype in which it would travel.
void copy_segment(const PartMemory& from, const PartMemory& to, const ReshardSegment& segment);

}  // namespace sinew::parallel

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel::test {

/// Random numbers that are the same on all ranks.
class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  /// A number from `least` to `most`.
  std::int64_t roll(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool coin() { return roll(0, 1) == 1; }

 private:
  std::mt19937_64 engine_;
};

/// Divides an item into boxes, at random places.
inline std::vector<Box> random_boxes(const CheckpointItem& item, Dice& dice) {
  std::vector<Box> boxes{whole_of(item).box};
  for (std::int64_t cuts = dice.roll(0, 4); cuts > 0 && !item.shape.empty(); --cuts) {
    Box& box = boxes[static_cast<std::size_t>(dice.roll(0, std::ssize(boxes) - 1))];
    const auto dim = static_cast<std::size_t>(dice.roll(0, std::ssize(item.shape) - 1));
    Box rest = box;
    rest.first[dim] = box.last[dim] = dice.roll(box.first[dim], box.last[dim]);
    boxes.push_back(rest);
  }
  return boxes;
}

/// The box, or two ranges of it.
inline std::vector<Extent> random_extents(const Box& box, Dice& dice) {
  const Extent all = box_of(box);
  if (dice.coin()) return {all};
  const std::int64_t middle = dice.roll(0, all.last);
  return {{box, 0, middle}, {box, middle, all.last}};
}

inline bool is_float(DType dtype) { return !is_integer(dtype); }

/// Random parts of random items that ranks on random hosts hold and want. Somebody holds each element.
inline std::vector<ReshardFacts> random_facts(unsigned seed) {
  Dice dice(seed);
  constexpr DType kFloats[] = {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3, DType::F8E5M2};
  std::vector<ReshardFacts> facts(static_cast<std::size_t>(dice.roll(1, 7)));
  const std::int64_t most_rank = std::ssize(facts) - 1, hosts = dice.roll(1, 3);
  for (ReshardFacts& of : facts) of.host = static_cast<int>(dice.roll(0, hosts - 1));
  for (std::int64_t i = dice.roll(1, 5); i > 0; --i) {
    CheckpointItem item{"item " + std::to_string(i), kFloats[dice.roll(0, 5)], {}};
    if (dice.roll(0, 3) == 0) item.dtype = dice.coin() ? DType::I64 : DType::U8;
    for (std::int64_t dims = dice.roll(0, 3); dims > 0; --dims) item.shape.push_back(dice.roll(0, 19));
    for (const Box& box : random_boxes(item, dice)) {
      const std::int64_t first = dice.roll(0, most_rank),
                         copies = dice.roll(1, std::min<std::int64_t>(3, most_rank + 1));
      for (std::int64_t c = 0; c < copies; ++c) {
        for (const Extent& extent : random_extents(box, dice))
          facts[static_cast<std::size_t>((first + c) % (most_rank + 1))].held.push_back({item, extent});
      }
    }
    for (ReshardFacts& of : facts) {
      CheckpointItem wanted = item;
      if (is_float(item.dtype) && dice.coin()) wanted.dtype = kFloats[dice.roll(0, 5)];
      for (const Box& box : random_boxes(item, dice)) {
        if (dice.roll(0, 2) == 0) continue;
        for (const Extent& extent : random_extents(box, dice)) of.wanted.push_back({wanted, extent});
      }
    }
  }
  return facts;
}

}  // namespace sinew::parallel::test

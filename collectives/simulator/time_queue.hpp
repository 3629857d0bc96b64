#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include <sinew/core/call/cost.hpp>

namespace sinew {

/// What is to come, the soonest first, and of one time in the order in which it was added. In a simulation much comes
/// at one time: a heap holds times, each with a list. Cost: of what comes at a time that was added lately, a few
/// instructions.
template <class T>
class TimeQueue {
 public:
  bool empty() const noexcept { return times_.empty(); }
  /// When the next one comes. Shape: not empty.
  Seconds at() const noexcept { return times_.top().at; }
  const T& next() const noexcept { return items_[lists_[times_.top().list].first].what; }

  void push(Seconds at, const T& what) {
    const std::uint32_t item = take(items_, spare_items_);
    items_[item] = {what, kNone};
    std::uint32_t& lately = lately_[place_of(at)];
    if (lately < lists_.size() && lists_[lately].at == at) {
      items_[lists_[lately].last].next = item;
      lists_[lately].last = item;
      return;
    }
    lately = take(lists_, spare_lists_);
    lists_[lately] = {at, item, item};
    times_.push({at, made_++, lately});
  }

  void pop() {
    const std::uint32_t list = times_.top().list, item = lists_[list].first;
    spare_items_.push_back(item);
    lists_[list].first = items_[item].next;
    if (lists_[list].first != kNone) return;
    lists_[list].at = std::numeric_limits<Seconds>::quiet_NaN();  // equals no time: nothing is added to it any more
    spare_lists_.push_back(list);
    times_.pop();
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr int kPlaceBits = 10;

  struct Item {
    T what;
    std::uint32_t next = kNone;
  };
  struct List {
    Seconds at = 0;
    std::uint32_t first = kNone, last = kNone;
  };
  struct Time {
    Seconds at = 0;
    std::uint64_t made = 0;  // of two lists of one time the first is longer no more
    std::uint32_t list = 0;
    bool operator>(const Time& t) const { return at != t.at ? at > t.at : made > t.made; }
  };

  template <class Element>
  static std::uint32_t take(std::vector<Element>& all, std::vector<std::uint32_t>& spare) {
    if (spare.empty()) {
      all.emplace_back();
      return static_cast<std::uint32_t>(all.size() - 1);
    }
    const std::uint32_t taken = spare.back();
    spare.pop_back();
    return taken;
  }
  static std::size_t place_of(Seconds at) noexcept {
    return static_cast<std::size_t>(std::bit_cast<std::uint64_t>(at) * 0x9e3779b97f4a7c15U >> (64 - kPlaceBits));
  }

  std::vector<Item> items_;
  std::vector<List> lists_;
  std::vector<std::uint32_t> spare_items_, spare_lists_;
  std::array<std::uint32_t, std::size_t{1} << kPlaceBits> lately_ = [] {
    std::array<std::uint32_t, std::size_t{1} << kPlaceBits> none{};
    none.fill(kNone);
    return none;
  }();
  std::priority_queue<Time, std::vector<Time>, std::greater<>> times_;
  std::uint64_t made_ = 0;
};

}  // namespace sinew

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace sinew::verifier {

/// What a chunk holds, as a number: equal numbers are equal expressions, up to swapping the two operands of a sum.
using Value = std::uint32_t;
inline constexpr Value kUndefined = 0;

enum class Kind : std::uint8_t { Undefined, Input, Sum, Scale, Encode, Decode };

struct Expression {
  Kind kind = Kind::Undefined;
  Value a = kUndefined;      ///< Input: the rank that gives
  Value b = kUndefined;      ///< Input: its In chunk
  std::uint32_t inputs = 0;  ///< in the whole tree, counted as often as they occur; the largest number: that or more
};

/// All expressions of one execution, each stored once.
class Expressions {
 public:
  Expressions() { all_.emplace_back(); }

  Value input(std::uint32_t rank, std::uint32_t chunk) {
    all_.push_back({Kind::Input, rank, chunk, 1});
    return static_cast<Value>(all_.size() - 1);
  }
  Value sum(Value x, Value y) {
    const auto [a, b] = std::minmax(x, y);
    const std::uint64_t inputs = std::uint64_t{all_[a].inputs} + all_[b].inputs;
    return once({Kind::Sum, a, b, static_cast<std::uint32_t>(std::min<std::uint64_t>(inputs, kMany))});
  }
  Value apply(Kind map, Value x) { return once({map, x, kUndefined, all_[x].inputs}); }

  const Expression& operator[](Value v) const noexcept { return all_[v]; }

 private:
  static constexpr std::uint32_t kMany = std::numeric_limits<std::uint32_t>::max();

  /// Operands fit 30 bits: a schedule of 512 ranks has about a million expressions.
  Value once(const Expression& e) {
    const std::uint64_t key = std::uint64_t{e.a} << 34 | std::uint64_t{e.b} << 4 | static_cast<std::uint64_t>(e.kind);
    const auto [at, is_new] = known_.try_emplace(key, static_cast<Value>(all_.size()));
    if (is_new) all_.push_back(e);
    return at->second;
  }

  std::vector<Expression> all_;
  std::unordered_map<std::uint64_t, Value> known_;
};

}  // namespace sinew::verifier

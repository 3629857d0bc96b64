#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>

namespace sinew::test {

struct Granted {
  std::uint64_t id;
  Completion* receive;
};
struct Refused {
  std::uint64_t id;
  Code why;
  std::uint64_t note;
};

/// Writes down what the matcher asks for.
struct RecordingWire final : MatcherWire {
  std::vector<Granted> granted;
  std::vector<Refused> refused;
  std::size_t returned = 0;

  void grant(std::uint64_t id, Completion& receive) override { granted.push_back({id, &receive}); }
  void refuse(std::uint64_t id, Code why, std::uint64_t note) override { refused.push_back({id, why, note}); }
  void return_credit(std::size_t charge) override { returned += charge; }
};

/// A receive that counts how often it has fired.
struct Pending : Completion {
  Pending() : Completion([](Completion& c) noexcept { ++static_cast<Pending&>(c).fired; }) {
    status = Status::pending();
  }
  int fired = 0;
};

inline constexpr std::uint8_t kGeneration = 3;

/// A matcher, its wire, and what a transport does with it.
class MatcherTest : public ::testing::Test {
 protected:
  static Tag tag(std::uint32_t match, std::uint16_t sequence = 1) {
    return Tag::collective(kGeneration, 2, sequence, match, 0);
  }
  static std::vector<std::byte> text(std::string_view s) {
    const auto* p = reinterpret_cast<const std::byte*>(s.data());
    return {p, p + s.size()};
  }
  static Buffer view(std::vector<std::byte>& v) { return {v.data(), v.size()}; }

  void eager(Tag t, std::string_view s, std::uint64_t note = 0) {
    std::vector<std::byte> copy = text(s);
    matcher.eager({t, note, copy.size()}, copy.data());
    std::fill(copy.begin(), copy.end(), std::byte{0xee});
  }
  static std::string shown(const std::vector<std::byte>& v) {
    return {reinterpret_cast<const char*>(v.data()), v.size()};
  }

  RecordingWire wire;
  BlockPool pool;
  FinishedOperations finished;
  Matcher matcher{wire, pool, finished, kGeneration};
};

}  // namespace sinew::test

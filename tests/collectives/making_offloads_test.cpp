#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world/making_offloads.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// The others wait in each round that a rank leaves out.
TEST(OffloadRounds, AreAllTaken_WhateverEndsTheMaking) {
  int taken = 0;
  const Exchange base{0, 1, [&](const Bytes& mine) {
                        ++taken;
                        return std::vector<Bytes>{mine};
                      }};
  const auto rounds_with = [&](auto&& end) {
    taken = 0;
    const auto make = [&](const Exchange& counted) {
      static_cast<void>(counted.all_gather({}));
      end();
      return std::unique_ptr<CollectiveOffload>();
    };
    try {
      static_cast<void>(in_rounds(base, 3, make));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Unavailable);
      return -taken;
    } catch (const std::bad_alloc&) {
      return -10 * taken;
    }
    return taken;
  };
  EXPECT_EQ(rounds_with([] {}), 3);
  EXPECT_EQ(rounds_with([] { throw Error(Code::Unavailable, "no device"); }), -3);
  EXPECT_EQ(rounds_with([] { throw std::bad_alloc(); }), -30);
}

}  // namespace
}  // namespace sinew

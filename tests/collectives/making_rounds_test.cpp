#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/collectives/world/making_rounds.hpp>
#include <sinew/core/error.hpp>

#include "fakes/fake_device.hpp"
#include "support/ranks.hpp"

namespace sinew {
namespace {

/// The error that `make` throws, or one with Code::Ok.
template <class Make>
Error error_of(const Make& make) {
  try {
    make();
  } catch (const Error& e) {
    return e;
  }
  return {Code::Ok, "nothing was thrown"};
}

TEST(MakingRounds, PassPayloadsOn) {
  test::run_as_threads(3, [](const Exchange& base) {
    const MakingRounds rounds(base);
    or_give_up(rounds.exchange(), [] {});
    const std::vector<Bytes> all =
        rounds.exchange().all_gather(Bytes(static_cast<std::size_t>(base.rank), std::byte{7}));
    ASSERT_EQ(all.size(), 3U);
    for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(all[r], Bytes(r, std::byte{7}));
  });
}

TEST(MakingRounds, TellTheOthersOfAFailure_AlsoIfTheyGoOnWithoutTheFirstRound) {
  test::run_as_threads(3, [](const Exchange& base) {
    const MakingRounds rounds(base);
    if (base.rank == 1) {
      const Error own = error_of(
          [&] { or_give_up(rounds.exchange(), [] { throw Error(Code::InvalidArgument, "device 7 was asked for"); }); });
      EXPECT_STREQ(own.what(), "device 7 was asked for");
      return;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Error told = error_of([&] { static_cast<void>(rounds.exchange().all_gather({})); });
      EXPECT_EQ(told.code(), Code::InvalidArgument);
      EXPECT_EQ(told.rank(), 1);
      EXPECT_STREQ(told.what(), "rank 1 could not make its World: device 7 was asked for");
    }
    EXPECT_EQ(error_of([&] { rounds.exchange().check(); }).rank(), 1);
  });
}

/// Makes a World of three ranks, of which rank 1 has `wrong` changed in its options. Each other rank must be told.
void expect_told(const std::function<void(WorldOptions&)>& wrong, Code code, const std::string& text) {
  fake::Device device(3);
  test::run_as_threads(3, [&](const Exchange& base) {
    WorldOptions options;
    options.config.transports = {"inproc"};
    options.device_runtime = &device;
    if (base.rank == 1) wrong(options);
    const Error error = error_of([&] { World::create(base, options); });
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    const bool is_told = std::string(error.what()).starts_with("rank 1 could not make its World: ");
    EXPECT_EQ(is_told, base.rank != 1) << error.what();
  });
}

TEST(World, TellsAllRanks_WhyOneCannotMakeIt) {
  constexpr Code kWrong = Code::InvalidArgument;
  expect_told([](WorldOptions& o) { o.config.transports = {"pigeon"}; }, kWrong, "no transport is called 'pigeon'");
  expect_told([](WorldOptions& o) { o.device = 7; }, kWrong, "device 7 was asked for, but there are 3");
  expect_told([](WorldOptions& o) { o.config.tune = {"all_reduce:0-4KiB:no_such_way"}; }, kWrong, "no_such_way");
  expect_told([](WorldOptions& o) { o.config.trace_dir = "/dev/null/traces"; }, Code::System, "/dev/null/traces");
}

}  // namespace
}  // namespace sinew

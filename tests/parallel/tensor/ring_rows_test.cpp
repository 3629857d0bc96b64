#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/tensor/ring_rows.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

constexpr std::int64_t kRows = 5, kColumns = 3;
constexpr std::chrono::milliseconds kLate{100};

template <class Call>
bool throws(Call&& call) {
  try {
    call();
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

/// What goes on in the caller's memory is over when the caller gets his own exception back.
TEST(RingRows, LeavesNothingUnderWay_WhenTheCallerThrows) {
  for (const bool is_gather : {true, false}) {
    std::atomic<bool> is_there{false};
    on_threads(2, only("inproc"), [&](World& world) {
      RingRows<float> ring(world.communicator(), Shard{0}, kRows, kColumns);
      std::vector<float> own(static_cast<std::size_t>(ring.own().count() * kColumns), 1.0F), whole(kRows * kColumns),
          room(static_cast<std::size_t>(ring.room_rows() * kColumns)), out(own.size());
      if (world.rank() == 1) {
        std::this_thread::sleep_for(kLate);
        is_there = true;
      }
      int calls = 0;
      const auto here = [&] {  // while the first message is under way
        if (world.rank() == 0 && ++calls == (is_gather ? 1 : 2)) throw std::runtime_error("no");
      };
      const bool thrown = throws([&] {
        if (is_gather) {
          ring.gather(own.data(), whole.data(), [&](const Rows&) { here(); });
        } else {
          ring.scatter(
              [&](const Rows& rows, float* to) {
                std::fill_n(to, rows.count() * kColumns, 1.0F);
                here();
              },
              room.data(), out.data());
        }
      });
      require(thrown == (world.rank() == 0), "thrown");
      require(is_there, "it has come back while a message was under way");
    });
  }
}

}  // namespace
}  // namespace sinew::parallel

#include <signal.h>

#include <gtest/gtest.h>

#include <sinew/collectives/stop_request.hpp>
#include <sinew/core/error.hpp>

#include "support/worlds.hpp"

namespace sinew::test {
namespace {

TEST(StopRequest, NotesTheFirstSignal_AndGivesItBack) {
  ::signal(SIGUSR2, SIG_IGN);
  {
    const StopRequest stop({SIGTERM, SIGUSR2});
    EXPECT_EQ(stop.came(), 0);
    ::raise(SIGUSR2);
    ::raise(SIGTERM);
    EXPECT_EQ(stop.came(), SIGUSR2);
  }
  ::raise(SIGUSR2);  // ignored again
  EXPECT_EQ(::signal(SIGUSR2, SIG_DFL), SIG_IGN);
  EXPECT_EQ(StopRequest().came(), 0) << "the next one begins anew";
}

TEST(StopRequest, RefusesASecondOne_AndWhatCannotBeCaught) {
  const StopRequest stop;
  EXPECT_THROW(StopRequest(), Error);
  ::raise(SIGTERM);
  EXPECT_EQ(stop.came(), SIGTERM) << "the first one goes on";
}

TEST(StopRequest, LeavesNothingBehind_WhereASignalCannotBeCaught) {
  EXPECT_THROW(StopRequest({SIGUSR2, SIGKILL}), Error);
  EXPECT_EQ(::signal(SIGUSR2, SIG_DFL), SIG_DFL);
  EXPECT_EQ(StopRequest().came(), 0);
}

TEST(StopRequest, ComesToAll_WhereASignalComesToOne) {
  in_processes(3, only("shm"), [](World& world) {
    const StopRequest stop;
    Communicator& all = world.communicator();
    require(!stop.came_to_any(all), "nothing has come");
    if (world.rank() == 1) ::raise(SIGTERM);
    require(stop.came_to_any(all), "it has come to rank 1");
    require((stop.came() == SIGTERM) == (world.rank() == 1), "and to no other rank");
  });
}

}  // namespace
}  // namespace sinew::test

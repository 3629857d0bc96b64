#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include <sinew/core/error.hpp>
#include <sinew/transports/inproc/inproc.hpp>
#include <sinew/transports/inproc/mailbox.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

Rail make_inproc(const Exchange& world) { return inproc::make_transport(world.rank, 0); }

INSTANTIATE_TEST_SUITE_P(inproc, Conformance, testing::Values(Subject{"threads", make_inproc, run_threads}),
                         subject_name);

TEST(Inproc, Probe_NamesTheRankOfAnotherProcess) {
  const auto parent = inproc::make_transport(4, 0);
  const Address address = parent->address();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto mine = inproc::make_transport(5, 0);
    const Reach r = mine->probe(address);
    ::_exit(!r.ok && r.reason == "rank 4 is not a thread of this process" ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Inproc, RankThatHasLeft_IsLost) {
  auto here = inproc::make_transport(0, 0);
  auto there = inproc::make_transport(1, 0);
  const auto peer = here->connect(there->address());
  there.reset();
  Watched w;
  std::byte b{};
  peer->send({&b, 1}, step(1), 0, w);
  here->progress();
  EXPECT_EQ(w.status.code(), Code::PeerLost);
  EXPECT_EQ(w.status.rank(), 1);
}

TEST(Inproc, HubForgetsWhoHasLeft) {
  inproc::Hub hub;
  const auto mailbox = std::make_shared<inproc::Mailbox>();
  hub.open(7, mailbox);
  EXPECT_EQ(hub.find(7), mailbox);
  EXPECT_EQ(hub.find(8), nullptr);
  hub.close(7);
  EXPECT_EQ(hub.find(7), nullptr);
  EXPECT_EQ(mailbox.use_count(), 1) << "the hub keeps memory of a rank that has left";
}

}  // namespace
}  // namespace sinew::test

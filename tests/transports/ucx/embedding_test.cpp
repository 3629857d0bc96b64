// UCX as a guest: what it must not do to its host, and what its user's settings do.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ucx/ucx.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A variable of the environment, for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

std::unique_ptr<Transport> make_on(const std::string& host, int rank) {
  return ucx::make_transport({.rank = rank, .size = 2, .host_id = host});
}

std::string handler_of(int signal) {
  struct sigaction action {};
  Dl_info where{};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
    return {};
  }
  return ::dladdr(reinterpret_cast<const void*>(action.sa_handler), &where) != 0 ? where.dli_fname : "";
}

TEST(UcxEmbedded, InstallsNoSignalHandler) {
  const auto transport = make_on("a", 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_THAT(handler_of(signal), ::testing::Not(HasSubstr("libucs"))) << "signal " << signal;
  }
}

TEST(UcxEmbedded, TransportsThatAreNotThere_AreAReasonAndNothingIsPrinted) {
  const Variable tls("UCX_TLS", "no_such_transport");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  std::string reason;
  try {
    static_cast<void>(make_on("a", 0));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    reason = e.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(reason, AllOf(HasSubstr("UCX_TLS=no_such_transport"), HasSubstr("nothing to send over")));
}

TEST(UcxProbe, SaysThatSharedMemoryDoesNotLeadToAnotherHost) {
  const Variable tls("UCX_TLS", "posix,self");
  const auto here = make_on("a", 0);
  const auto neighbour = make_on("a", 1);
  const auto elsewhere = make_on("b", 1);
  EXPECT_TRUE(here->probe(neighbour->address()).ok);
  const Reach reach = here->probe(elsewhere->address());
  EXPECT_FALSE(reach.ok);
  EXPECT_THAT(reach.reason, AllOf(HasSubstr("no network transport"), HasSubstr("rank 0")));
}

TEST(UcxProbe, SaysThatNothingLeadsToANeighbour) {
  const Variable tls("UCX_TLS", "self");
  const auto here = make_on("a", 0);
  const auto neighbour = make_on("a", 1);
  EXPECT_THAT(here->probe(neighbour->address()).reason, HasSubstr("cannot be reached"));
}

/// Gives the transport progress until all have ended. Fails after 10 s.
void await(Transport& transport, std::initializer_list<const Watched*> all) {
  const auto give_up = Deadline::after(std::chrono::seconds(10));
  while (std::ranges::any_of(all, [](const Watched* w) { return !w->done(); })) {
    ASSERT_FALSE(give_up.passed()) << "an operation has not ended";
    transport.progress();
  }
}

/// As one that has ended since it was probed: a call on it ends like calls on ranks that have died, on all ranks.
TEST(UcxConnect, ToAPeerThatCannotBeReached_EndsOperationsAndNamesIt) {
  const Variable tls("UCX_TLS", "self");
  const auto here = make_on("a", 0);
  const auto neighbour = make_on("a", 1);
  const auto peer = here->connect(neighbour->address());
  std::byte b{};
  Watched sent, received;
  peer->send({&b, 1}, step(1), 0, sent);
  peer->recv({{&b, 1}, nullptr, {}}, step(2), received);
  await(*here, {&sent, &received});
  for (const Watched* w : {&sent, &received}) {
    EXPECT_EQ(w->status.code(), Code::PeerLost);
    EXPECT_EQ(w->status.rank(), 1);
    EXPECT_THAT(std::string(w->status.message()), HasSubstr("rank 1 cannot be reached: "));
  }
}

/// The receiver opens its connection when its first receive is posted. The sender's memory is gone then.
TEST(UcxConnect, ToAPeerThatHasEnded_DeliversWhatItSentBefore) {
  const Variable tls("UCX_TLS", "posix,sysv,self");
  const auto here = make_on("a", 0);
  std::byte out{7}, in{}, more{};
  Address ended;
  {
    const auto neighbour = make_on("a", 1);
    ended = neighbour->address();
    const auto peer = neighbour->connect(here->address());
    Watched sent;
    peer->send({&out, 1}, step(1), 0, sent);
    await(*neighbour, {&sent});
    EXPECT_TRUE(sent.status.ok()) << sent.status.message();
  }
  const auto peer = here->connect(ended);
  Watched first, second;
  peer->recv({{&in, 1}, nullptr, {}}, step(1), first);
  peer->recv({{&more, 1}, nullptr, {}}, step(2), second);
  await(*here, {&first, &second});
  EXPECT_TRUE(first.status.ok()) << first.status.message();
  EXPECT_EQ(in, std::byte{7});
  EXPECT_EQ(second.status.code(), Code::PeerLost);
}

TEST(UcxProbe, ReachesAnotherHostByNetwork) {
  const Variable tls("UCX_TLS", "tcp,self");
  EXPECT_TRUE(make_on("a", 0)->probe(make_on("b", 1)->address()).ok);
}

TEST(UcxProbe, DoesNotReachItself) {
  const auto alone = make_on("a", 0);
  EXPECT_THAT(alone->probe(alone->address()).reason, HasSubstr("does not reach itself"));
}

}  // namespace
}  // namespace sinew::test

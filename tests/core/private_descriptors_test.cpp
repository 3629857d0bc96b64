#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/sanitizer.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;

struct Ends {
  FileDescriptor ours;
  int other = -1;

  Ends() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("socketpair");
    ours = FileDescriptor(ends[0]);
    other = ends[1];
  }
  ~Ends() { ::close(other); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
};

/// What the child of a fork finds: the exit code is `body`'s.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a hang, not a slow machine
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A child of fork that holds what it got until this goes; with one of its own where it is asked for. Both run when
/// this has been made.
class Lingering {
 public:
  explicit Lingering(bool has_child = false) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("socketpair");
    child_ = ::fork();
    if (child_ == 0) {
      if (has_child) static_cast<void>(::fork());
      ::close(ends[1]);
      char byte = 0;
      static_cast<void>(!::write(ends[0], &byte, 1));
      ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));
    }
    ::close(ends[0]);
    go_ = ends[1];
    char byte = 0;
    for (int runs = 0; runs < (has_child ? 2 : 1);) runs += static_cast<int>(::read(go_, &byte, 1));
  }
  ~Lingering() {
    ::close(go_);
    ::waitpid(child_, nullptr, 0);
  }
  Lingering(const Lingering&) = delete;
  Lingering& operator=(const Lingering&) = delete;

 private:
  pid_t child_ = -1;
  int go_ = -1;
};

bool has_ended(int descriptor) {
  pollfd end{descriptor, POLLIN, 0};
  return ::poll(&end, 1, 10'000) == 1 && (end.revents & POLLHUP) != 0;
}

TEST(PrivateDescriptors, ConnectionEnds_WithTheParent_ThoughAChildLives) {
  for (const bool has_child : {false, true}) {
    Ends ends;
    const Lingering children(has_child);
    ends.ours = FileDescriptor();
    EXPECT_TRUE(has_ended(ends.other)) << "with a child of the child: " << has_child;
  }
}

TEST(PrivateDescriptors, PortIsFree_ThoughAChildLives) {
  std::optional<Listener> listener(listen_on(SocketAddress::parse("127.0.0.1:0")));
  const SocketAddress address = listener->address;
  const Lingering child;
  listener.reset();
  EXPECT_EQ(listen_on(address).address.port(), address.port());
}

TEST(PrivateDescriptors, ChildFindsADescriptorThatDoesNothing) {
  const Ends ends;
  EXPECT_EQ(in_child([&] {
              char byte = 0;
              const bool idle = ::write(ends.ours.get(), "x", 1) < 0 && ::read(ends.ours.get(), &byte, 1) < 0;
              const bool closed_on_exec = (::fcntl(ends.ours.get(), F_GETFD) & FD_CLOEXEC) != 0;
              return idle && closed_on_exec ? 0 : 1;
            }),
            0);
  EXPECT_EQ(::write(ends.ours.get(), "y", 1), 1) << "the parent's is as it was";
  char byte = 0;
  EXPECT_EQ(::read(ends.other, &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
}

/// An object of the parent's that ends in the child must not close what the child has opened.
TEST(PrivateDescriptors, ObjectsThatEndInAChild_CloseNothingElse) {
  std::optional<Ends> ends(std::in_place);
  EXPECT_EQ(in_child([&] {
              const int opened = ::open("/dev/null", O_RDWR | O_CLOEXEC);
              if (opened == ends->ours.get()) return 1;
              ends.reset();
              return ::fcntl(opened, F_GETFD) >= 0 ? 0 : 2;
            }),
            0);
}

TEST(PrivateDescriptors, ChildKeepsWhatIsMeantForIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor in(ends[0]);
  const FileDescriptor out = FileDescriptor::kept_by_children(ends[1]);
  EXPECT_EQ(in_child([&] { return ::write(out.get(), "z", 1) == 1 ? 0 : 1; }), 0);
}

TEST(PrivateDescriptors, ChildKeepsAFile_ThatHasTheNumberOfAClosedOrReleasedOne) {
  Ends ends;
  const int number = ends.ours.get();
  ends.ours = FileDescriptor();
  const int again = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(again, number);
  EXPECT_EQ(in_child([&] { return ::write(again, "a", 1) == 1 ? 0 : 1; }), 0);
  FileDescriptor released(again);
  EXPECT_EQ(released.release(), again);
  EXPECT_EQ(in_child([&] { return ::write(again, "a", 1) == 1 ? 0 : 1; }), 0);
  ::close(again);
}

TEST(PrivateDescriptors, CountsLargeNumbers) {
  constexpr int kLarge = 10'000;  // beyond the first block
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, kLarge + 1);
  limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) GTEST_SKIP() << "this process may have no " << kLarge << " descriptors";
  Ends ends;
  FileDescriptor high(::fcntl(ends.ours.get(), F_DUPFD_CLOEXEC, kLarge));
  ends.ours = FileDescriptor();
  ASSERT_TRUE(high);
  const Lingering child;
  high = FileDescriptor();
  EXPECT_TRUE(has_ended(ends.other));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

/// A full table: then a number is closed in the child, and nothing is kept.
TEST(PrivateDescriptors, ChildKeepsNothing_WhereItMayOpenNoMore) {
  Ends ends;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before = limit;
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe2(go.data(), O_CLOEXEC), 0);
  limit.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go[1]);
    char none = 0;
    ::_exit(static_cast<int>(::read(go[0], &none, 1)));
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  ends.ours = FileDescriptor();
  EXPECT_TRUE(has_ended(ends.other));
  ::close(go[0]);
  ::close(go[1]);
  ::waitpid(child, nullptr, 0);
}

/// Whatever other threads open and close meanwhile, a child has all that is not sinew's.
TEST(PrivateDescriptors, ForksOfAThreadedProcess_KeepTheirFiles) {
  constexpr int kForks = 200;  // not a page
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) {
    others.emplace_back([&] {
      while (!stop) {
        std::vector<Ends> many(20);
      }
    });
  }
  const int file = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  int right = 0;
  for (int i = 0; i < kForks; ++i) right += in_child([&] { return ::write(file, "a", 1) == 1 ? 0 : 1; }) == 0 ? 1 : 0;
  stop = true;
  for (std::thread& t : others) t.join();
  ::close(file);
  EXPECT_EQ(right, kForks);
}

/// As the static objects of a program end in each child that calls exit().
TEST(PrivateDescriptors, AStoreServersThread_IsNotWaitedForInAChild) {
  if constexpr (SINEW_THREAD_SANITIZER)
    GTEST_SKIP() << "clang's thread sanitizer does not know the threads of a parent in its child";
  std::optional<StoreServerThread> store(std::in_place,
                                         StoreServerOptions{.secret = Bytes(32, std::byte{1}), .ranks = 2});
  EXPECT_EQ(in_child([&] {
              store.reset();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace sinew

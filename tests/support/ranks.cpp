#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <support/ranks.hpp>

namespace sinew::test {
namespace {

bool write_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int fd, void* data, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(fd, at, bytes, 0);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool write_bytes(int fd, const Bytes& bytes) {
  const std::uint64_t length = bytes.size();
  return write_all(fd, &length, sizeof length) && write_all(fd, bytes.data(), bytes.size());
}

bool read_bytes(int fd, Bytes& bytes) {
  std::uint64_t length = 0;
  if (!read_all(fd, &length, sizeof length)) return false;
  bytes.resize(length);
  return read_all(fd, bytes.data(), bytes.size());
}

bool readable_until(int fd, Deadline bound) {
  pollfd one{fd, POLLIN, 0};
  while (::poll(&one, 1, bound.left_ms(1000)) <= 0) {
    if (bound.passed()) return false;
  }
  return true;
}

/// The hub: rounds until a rank hangs up or the time is over; then everybody else is hung up on, too.
void serve(const std::vector<FileDescriptor>& sockets, Deadline bound) {
  while (true) {
    std::vector<Bytes> all(sockets.size());
    for (std::size_t r = 0; r < sockets.size(); ++r) {
      if (!readable_until(sockets[r].get(), bound) || !read_bytes(sockets[r].get(), all[r])) return;
    }
    for (const FileDescriptor& s : sockets) {
      for (const Bytes& b : all) write_bytes(s.get(), b);
    }
  }
}

Exchange exchange_over(int socket, int rank, int ranks) {
  return {rank, ranks, [socket, ranks](const Bytes& mine) {
            std::vector<Bytes> all(static_cast<std::size_t>(ranks));
            bool well = write_bytes(socket, mine);
            for (Bytes& b : all) well = well && read_bytes(socket, b);
            if (!well) throw Error(Code::Timeout, "the exchange of the test ended: a rank is gone");
            return all;
          }};
}

/// Its wait status, at the latest when it has been killed for outlasting the bound.
int wait_for(pid_t child, Deadline bound) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (bound.passed()) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status;
}

[[noreturn]] void run_child(int socket, int rank, int ranks, const RankBody& body) {
  try {
    body(exchange_over(socket, rank, ranks));
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rank " << rank << ": " << e.what();
  }
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void run_as_threads(int ranks, const RankBody& body, Duration timeout) {
  const std::vector<Exchange> exchanges = thread_exchanges(ranks, timeout);
  std::vector<std::thread> threads;
  for (const Exchange& e : exchanges) {
    threads.emplace_back([&body, &e] {
      try {
        body(e);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << e.rank << ": " << error.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

std::vector<int> fork_ranks(int ranks, const RankBody& body, Duration bound) {
  const Deadline until = Deadline::after(bound);
  std::fflush(nullptr);
  std::vector<FileDescriptor> sockets;
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
    FileDescriptor mine(pair[0]);
    const FileDescriptor theirs = FileDescriptor::kept_by_children(pair[1]);
    const pid_t child = ::fork();
    if (child == 0) {
      {
        const FileDescriptor unused(mine.release());
      }
      sockets.clear();
      run_child(theirs.get(), r, ranks, body);
    }
    children.push_back(child);
    sockets.push_back(std::move(mine));
  }
  serve(sockets, until);
  sockets.clear();
  std::vector<int> statuses;
  for (const pid_t child : children) statuses.push_back(wait_for(child, until));
  return statuses;
}

void run_as_processes(int ranks, const RankBody& body) {
  const std::vector<int> statuses = fork_ranks(ranks, body);
  for (std::size_t r = 0; r < statuses.size(); ++r)
    EXPECT_TRUE(WIFEXITED(statuses[r]) && WEXITSTATUS(statuses[r]) == 0)
        << "rank " << r << " ended with wait status " << statuses[r];
}

}  // namespace sinew::test

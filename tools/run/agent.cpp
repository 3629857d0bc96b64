#include "agent.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/socket_address.hpp>
#include <sinew/core/store_server.hpp>

#include "agent_protocol.hpp"
#include "event_loop.hpp"
#include "local_ranks.hpp"
#include "signals.hpp"

namespace sinew::run {
namespace {

void read_whole(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(0, into.data(), into.size());
    if (got == 0 || (got < 0 && errno != EINTR)) {
      throw Error(Code::InvalidArgument,
                  "--agent: expected a task on standard input; it is for sinew-run itself to use");
    }
    if (got > 0) into = into.subspan(static_cast<std::size_t>(got));
  }
}

AgentTask read_task() {
  constexpr std::uint32_t kLongestTask = 64u << 20;
  std::uint32_t length = 0;
  read_whole(std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestTask) throw Error(Code::Mismatch, "--agent: standard input holds no task");
  Bytes task(length);
  read_whole(task);
  return AgentTask::decode(task);
}

/// To the sinew-run that started us; when it is gone the ranks end with us.
void say(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(1, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) ::_exit(1);
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Two names of one host, or namespaces that share a network: who came first serves the ranks of both. Places bear the
/// job's name, so it is of this job, and need not answer: it may be busy with starting its ranks.
void serve_unless_served(StoreServer& door, const SocketAddress& place) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  for (;;) {
    try {
      return door.listen(listen_on(place));
    } catch (const Error&) {
      const int error = try_connect(place, deadline).second;
      if (error == 0 || error == EAGAIN) return;  // EAGAIN: more wait there than may
      if (deadline.passed()) throw;
    }
    ::usleep(1000);  // it does not listen yet, or not any more
  }
}

RankEvents reporting() {
  RankEvents events;
  events.output = [](int rank, Stream stream, std::string_view bytes) {
    say(encode_frame(stream == Stream::Output ? FrameKind::Output : FrameKind::Errors, rank, bytes));
  };
  events.ended = [](int rank, const Ending& ending) {
    say(encode_frame(FrameKind::Ended, rank, encode_ending(ending)));
  };
  return events;
}

}  // namespace

int run_agent() {
  const SignalDescriptor signals({SIGCHLD});
  AgentTask task = read_task();
  say(kAgentGreeting);
  EventLoop loop;
  StoreServer door({.secret = task.secret, .host = StoreHost::Launcher, .elsewhere = task.store});
  serve_unless_served(door, meeting_place(task.master_port, task.job));
  loop.add(door.descriptor(), [&] { door.poll(); });
  LocalRanks ranks(loop, reporting());
  loop.add(signals.descriptor(), [&] {
    while (signals.next() != 0) {
    }
    ranks.reap();
  });
  bool told_to_end = false;
  loop.add(0, [&] {
    char number = 0;
    const ssize_t got = ::read(0, &number, 1);
    if (got > 0) ranks.signal(number);
    if (got == 0) told_to_end = true;
  });
  try {
    ranks.start(task.plan);
  } catch (const Error& e) {
    say(encode_frame(FrameKind::Broken, -1, e.what()));
    return 2;
  }
  while (ranks.running() != 0 && !told_to_end) loop.run_once(-1);
  return 0;
}

}  // namespace sinew::run

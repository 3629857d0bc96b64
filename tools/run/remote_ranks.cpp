#include "remote_ranks.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>

namespace sinew::run {
namespace {

/// A remote shell may be slow. Whoever waits for a job that does not start should know the reason within 30 s.
constexpr Duration kTellAfter = std::chrono::seconds(20);

/// A word that any POSIX shell takes for itself.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace

AgentCommand agent_by_rsh(const std::string& rsh, const std::string& host) {
  AgentCommand command;
  std::istringstream text(rsh);
  for (std::string word; text >> word;) command.words.push_back(word);
  command.words.push_back(host);
  command.trial = fmt::format("{} true", fmt::join(command.words, " "));
  command.words.push_back(quoted(own_program()) + " --agent");
  return command;
}

AgentCommand agent_here() { return {{own_program(), "--agent"}, ""}; }

AgentCommand agent_by_srun(const std::string& node) {
  // Without --ntasks-per-node, srun would warn of the one that sbatch has set for the program's own tasks.
  AgentCommand command{
      {"srun", "--overlap", "-N1", "-n1", "--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "-w", node}, ""};
  command.trial = fmt::format("{} true", fmt::join(command.words, " "));
  command.words.insert(command.words.end(), {own_program(), "--agent"});
  return command;
}

RemoteRanks::RemoteRanks(EventLoop& loop, RankEvents events, AgentCommand command, std::string host,
                         const AgentTask& task, Duration patience)
    : loop_(loop), events_(std::move(events)), host_(std::move(host)), timer_(loop) {
  if (!command.trial.empty())
    cure_ = fmt::format("; cure: make `{}` work without a password, and have sinew on that host at the same path",
                        command.trial);
  ProcessOptions options;
  options.command = std::move(command.words);
  options.pipe_input = true;
  options.pipe_errors = false;
  agent_ = start_process(options);
  for (int i = 0; i < task.plan.count; ++i) alive_.insert(task.plan.first + i);
  const Bytes message = WireWriter().bytes(task.encode()).take();
  // All of it must fit: waiting here for a shell that hangs, nothing could end this job.
  constexpr int kMostPipeBytes = 1 << 20;  // that anybody may ask for; a larger task needs a shell that reads
  ::fcntl(agent_.input.get(), F_SETPIPE_SZ, kMostPipeBytes);
  tell({reinterpret_cast<const char*>(message.data()), message.size()});
  watch_ = loop_.watch(agent_.output.get(), {.read = true}, [this] { drain(); });
  const auto give_up = [this, patience] {
    if (reader_.greeted()) return;
    cut(fmt::format("no answer within {} s (SINEW_TIMEOUT) from the sinew-run that the remote shell should start{}",
                    std::chrono::duration<double>(patience).count(), cure_));
  };
  timer_.start(std::min<Duration>(patience, kTellAfter), [this, patience, give_up] {
    if (patience <= kTellAfter) return give_up();
    if (reader_.greeted()) return;
    events_.warned(fmt::format(
        "host {}: no answer for {} s from the sinew-run that the remote shell should start{}. It is awaited "
        "until SINEW_TIMEOUT ({} s) is over",
        host_, std::chrono::duration<double>(kTellAfter).count(), cure_,
        std::chrono::duration<double>(patience).count()));
    timer_.start(patience - kTellAfter, give_up);
  });
}

RemoteRanks::~RemoteRanks() {
  watch_ = {};
  agent_.input = FileDescriptor();  // the agent ends everything
  if (agent_.pid < 0) return;
  constexpr int kPatienceMs = 2000;
  for (int waited = 0; waited < kPatienceMs; waited += 10) {
    if (::waitpid(agent_.pid, nullptr, WNOHANG) != 0) return;
    ::usleep(10000);
  }
  ::kill(-agent_.pid, SIGKILL);
  ::waitpid(agent_.pid, nullptr, 0);
}

void RemoteRanks::tell(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(agent_.input.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return;  // its end is noticed where its output ends
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RemoteRanks::signal(int number) {
  if (agent_.pid < 0) return;
  const std::string order = AgentOrder{AgentOrder::Kind::Signal, number}.encode();
  if (reader_.greeted()) {
    tell(order);
    if (number == SIGKILL) {
      timer_.start(kAgentPatience, [this] { cut("its sinew-run did not report the end of its ranks after SIGKILL"); });
    }
    return;
  }
  switch (number) {
    case SIGKILL: return cut("the remote shell was killed before its sinew-run answered");
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
    case SIGSTOP:
    case SIGCONT:
      is_signalled_ = true;
      ::kill(-agent_.pid, number);
      return;
    default: tell(order);  // for the ranks, once they are there
  }
}

void RemoteRanks::cut(const std::string& why) {
  if (agent_.pid < 0) return;
  watch_ = {};
  agent_.output = FileDescriptor();
  agent_.input = FileDescriptor();
  ::kill(-agent_.pid, SIGKILL);
  ::waitpid(agent_.pid, nullptr, 0);
  agent_.pid = -1;
  lose(why);
}

void RemoteRanks::hold_all(Stream stream, bool on) {
  if (on) held_.insert(stream);
  if (!on) held_.erase(stream);
  watch_.want({.read = !is_held()});
}

void RemoteRanks::hold_one(Source source, bool on) {
  if (!alive_.contains(source.first)) return;
  tell(AgentOrder{on ? AgentOrder::Kind::Hold : AgentOrder::Kind::Release, source.first, source.second}.encode());
}

/// Its answer is awaited in any case: what happens to the remote shell depends on it.
bool RemoteRanks::is_held() const noexcept { return reader_.greeted() && !held_.empty(); }

void RemoteRanks::drain() {
  if (is_held()) return;
  std::array<char, 65536> bytes;
  const ssize_t got = ::read(agent_.output.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return close_output();
  try {
    hear({bytes.data(), static_cast<std::size_t>(got)});
    if (is_held()) watch_.want({});
  } catch (const Error& e) {
    cut(e.what());
  }
}

void RemoteRanks::hear(std::string_view bytes) {
  reader_.take(bytes, [this](const AgentFrame& frame, std::string_view payload) { take(frame, payload); });
}

void RemoteRanks::close_output() {
  watch_ = {};
  agent_.output = FileDescriptor();
  reap();
}

void RemoteRanks::take(const AgentFrame& frame, std::string_view payload) {
  switch (frame.kind) {
    case FrameKind::Output: return events_.output({frame.rank, Stream::Output}, payload);
    case FrameKind::Errors: return events_.output({frame.rank, Stream::Errors}, payload);
    case FrameKind::Warned: return events_.warned(fmt::format("host {}: {}", host_, payload));
    case FrameKind::Broken: return lose(std::string(payload));
    case FrameKind::Ended:
      if (alive_.erase(frame.rank) != 0) events_.ended(frame.rank, decode_ending(payload));
      return;
  }
}

/// What the remote shell has started may hold its output open after its end (a shared connection's master does), so
/// the end of the shell counts, not the end of its output: the pipe holds all that it has said.
void RemoteRanks::reap() {
  int status = 0;
  if (agent_.pid < 0 || ::waitpid(agent_.pid, &status, WNOHANG) != agent_.pid) return;
  agent_.pid = -1;
  if (agent_.output) {
    try {
      read_what_is_there(agent_.output.get(), [this](std::string_view bytes) { hear(bytes); });
    } catch (const Error& e) {
      lose(e.what());
    }
    close_output();
  }
  lose(fmt::format("the connection to its sinew-run {}{}", Ending::from_wait_status(status).text(),
                   reader_.greeted() || is_signalled_ ? "" : cure_));
}

void RemoteRanks::lose(const std::string& why) {
  if (alive_.empty()) return;
  const std::set<int> lost = std::exchange(alive_, {});
  const std::vector<int> names(lost.begin(), lost.end());
  events_.broken(host_, why, names);
  for (const int rank : lost) events_.ended(rank, Ending{.lost = true});
}

}  // namespace sinew::run

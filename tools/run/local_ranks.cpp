#include "local_ranks.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew::run {
int ranks_for_one_process(const LocalPlan& plan, int served) {
  constexpr std::size_t kOwn = 64;
  constexpr std::size_t kOfRankHere = 6;  // which a rank needs for each rank of its host, at most
  constexpr std::size_t kOfRank = 4;      // and for any rank
  const std::size_t for_each = plan.logs.folder.empty() ? 2 : 4;  // pipes, and log files
  const auto here = static_cast<std::size_t>(plan.count);
  const std::size_t for_ranks = kOwn + kOfRankHere * here + kOfRank * static_cast<std::size_t>(plan.ranks);
  const std::size_t taken = kOwn + static_cast<std::size_t>(served);
  const std::size_t allowed = allow_descriptors(std::max(taken + for_each * here, for_ranks));
  const std::size_t room = allowed > taken ? (allowed - taken) / for_each : 0;
  return static_cast<int>(std::min(room, here));
}

LocalRanks::~LocalRanks() {
  signal(SIGKILL);
  watches_.clear();
  for (auto& [rank, process] : processes_) ::waitpid(process.pid, nullptr, 0);
}

void LocalRanks::start(const LocalPlan& plan) {
  logs_.emplace(plan.logs, [this](const std::string& why) { events_.warned(why); });
  for (int i = 0; i < plan.count; ++i) logs_->open(plan.first + i);
  const int local_ranks = plan.local_ranks != 0 ? plan.local_ranks : plan.count;
  for (int i = 0; i < plan.count; ++i) {
    const int rank = plan.first + i;
    ProcessOptions options;
    options.command = plan.command;
    options.folder = plan.folder;
    options.environment = plan.environment;
    if (!plan.elastic)
      options.environment.insert(options.environment.end(),
                                 {{"RANK", fmt::format("{}", rank)}, {"WORLD_SIZE", fmt::format("{}", plan.ranks)}});
    options.environment.insert(options.environment.end(), {{"LOCAL_RANK", fmt::format("{}", plan.local_first + i)},
                                                           {"LOCAL_WORLD_SIZE", fmt::format("{}", local_ranks)}});
    if (rank == 0) options.input = plan.input;
    Process& process = processes_.emplace(rank, start_process(options)).first->second;
    watch({rank, Stream::Output}, process.output);
    watch({rank, Stream::Errors}, process.errors);
  }
}

void LocalRanks::watch(Source source, FileDescriptor& descriptor) {
  const auto ready = [this, source, &descriptor] { drain(source, descriptor); };
  watches_[source] = loop_.watch(descriptor.get(), {.read = !is_held(source)}, ready);
}

void LocalRanks::hold_all(Stream stream, bool on) {
  if (held_.contains(stream) == on) return;
  if (on) held_.insert(stream);
  if (!on) held_.erase(stream);
  apply_holds();
}

/// A rank whose output goes to files alone waits for nobody.
bool LocalRanks::is_held(Source source) const noexcept {
  return (held_.contains(source.second) || held_alone_.contains(source)) && logs_->prints(source);
}

void LocalRanks::apply_holds() {
  for (auto& [source, watch] : watches_) watch.want({.read = !is_held(source)});
}

void LocalRanks::hold_one(Source source, bool on) {
  if (!processes_.contains(source.first)) return;
  if (on) held_alone_.insert(source);
  if (!on) held_alone_.erase(source);
  if (const auto at = watches_.find(source); at != watches_.end()) at->second.want({.read = !is_held(source)});
}

void LocalRanks::hear(Source source, std::string_view bytes) {
  if (source.second == Stream::Errors) last_errors_[source.first].take(bytes);
  const bool printed_before = logs_->prints(source);
  const bool printed = logs_->take(source, bytes);
  if (printed) events_.output(source, bytes);
  if (printed && !printed_before) apply_holds();
}

void LocalRanks::drain(Source source, FileDescriptor& descriptor) {
  constexpr int kTurns = 16;  // then others get theirs
  std::array<char, 65536> bytes;
  for (int turn = 0; turn < kTurns && descriptor; ++turn) {
    if (is_held(source)) return;
    const ssize_t got = ::read(descriptor.get(), bytes.data(), bytes.size());
    if (got > 0) {
      hear(source, {bytes.data(), static_cast<std::size_t>(got)});
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      watches_.erase(source);
      descriptor = FileDescriptor();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

/// What lies in the pipe now is all that the rank has written. The pipe's end may never come: a child of the rank that
/// has left its process group may hold the pipe open, and write to it.
void LocalRanks::take_rest(Source source, const FileDescriptor& descriptor) {
  if (!descriptor) return;
  read_what_is_there(descriptor.get(), [&](std::string_view bytes) { hear(source, bytes); });
  watches_.erase(source);
}

void LocalRanks::signal(int number) {
  for (const auto& [rank, process] : processes_) ::kill(-process.pid, number);
}

void LocalRanks::reap() {
  for (auto it = processes_.begin(); it != processes_.end();) {
    const int rank = it->first;
    Process& process = it->second;
    siginfo_t info{};
    const int found = ::waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (found != 0 || info.si_pid == 0) {
      ++it;
      continue;
    }
    ::kill(-process.pid,
           SIGKILL);  // what it has left behind; its own entry keeps the group's number until it is reaped
    take_rest({rank, Stream::Output}, process.output);
    take_rest({rank, Stream::Errors}, process.errors);
    int status = 0;
    ::waitpid(process.pid, &status, 0);
    Ending ending = Ending::from_wait_status(status);
    ending.pid = process.pid;
    if (!ending.ok()) ending.last_errors = last_errors_[rank].text();
    last_errors_.erase(rank);
    logs_->close(rank);
    it = processes_.erase(it);
    events_.ended(rank, ending);
  }
}

pid_t LocalRanks::pid_of(int rank) const {
  const auto it = processes_.find(rank);
  return it == processes_.end() ? -1 : it->second.pid;
}

}  // namespace sinew::run

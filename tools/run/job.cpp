#include "job.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/stop_request.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew::run {
namespace {

LogOptions logs_of(LogOptions logs, int attempt) {
  if (!logs.folder.empty()) logs.folder += fmt::format("/attempt_{}", attempt);
  return logs;
}

}  // namespace

Job::Job(const Options& options, int attempt, const Config& config, const SignalDescriptor& signals,
         InsideLine& inside_line)
    : options_(options),
      logs_(logs_of(options.logs, attempt)),
      signals_(signals),
      printer_(loop_, options.prefix, inside_line, holding()),
      fleet_(loop_, options, logs_, config, events()) {}

LinePrinter::Hold Job::holding() {
  return {.all = [this](Stream stream, bool on) { fleet_.hold_all(stream, on); },
          .one = [this](Source source, bool on) { fleet_.hold_one(source, on); }};
}

RankEvents Job::events() {
  return {.output = [this](Source source, std::string_view bytes) { printer_.take(source, bytes); },
          .ended = [this](int rank, const Ending& ending) { on_ended(rank, ending); },
          .warned = [this](const std::string& why) { report(why); },
          .broken =
              [this](const std::string& host, const std::string& why, const std::vector<int>& ranks) {
                report(fmt::format("host {}: {}; {} lost", host, why, name_ranks(ranks)));
              }};
}

void Job::start() {
  signals_come_ = loop_.watch(signals_.descriptor(), {.read = true}, [this] { on_signals(); });
  fleet_.start();
}

int Job::finish() {
  while (fleet_.running() != 0 || printer_.busy() || awaits_return()) {
    loop_.run_once(next_look());
    end_if_left_behind();
    kill_if_late();
    if (fleet_.running() == 0 && !awaits_return()) close_output();
    if (interrupted_by_ != 0 && fleet_.running() == 0 && printer_.stuck() >= kReaderPatience) printer_.forget();
    if (printer_.closed() && !ending_ && interrupted_by_ == 0) {
      exit_code_ = exit_code_.value_or(128 + SIGPIPE);
      end_others();
    }
  }
  return exit_code();
}

int Job::exit_code() const noexcept { return exit_code_.value_or(saved_ ? kSavedExitCode : 0); }

bool Job::is_over() const noexcept { return interrupted_by_ != 0 || printer_.closed() || (saved_ && !exit_code_); }

/// All ranks have ended.
void Job::close_output() {
  printer_.finish_all();
  if (std::exchange(summed_up_, true) || interrupted_by_ != 0 || printer_.closed()) return;
  if (options_.elastic && exit_code() == 0) return;  // the job went on without those that failed
  for (const std::string& line : failures_.lines(logs_.folder)) report(line);
}

Deadline Job::next_look() const noexcept {
  constexpr auto kLookAfter = std::chrono::milliseconds(100);
  if (kill_at_) return *kill_at_;
  if (end_at_ && !ending_) return *end_at_;
  return interrupted_by_ != 0 && fleet_.running() == 0 ? Deadline::after(kLookAfter) : Deadline::never();
}

void Job::report(std::string_view what) { printer_.say(fmt::format("sinew-run: {}\n", what)); }

void Job::on_ended(int rank, const Ending& ending) {
  printer_.finish(rank);
  if (options_.elastic) return on_member_ended(rank, ending);
  if (ending.ok()) return;
  if (ending.exit_code() == kSavedExitCode) return on_saved(rank, ending);
  const bool is_interrupted = interrupted_by_ != 0;
  const bool ours = ending_ && (ending.signal == SIGTERM || ending.signal == SIGKILL);
  if (!ours && !is_interrupted && !ending.lost) report(fmt::format("rank {} {}", rank, ending.text()));
  failures_.add(rank, fleet_.host_of(rank), ending, ours);
  // We have ended it for whoever sent the signal: the rank itself, or the remote shell.
  const bool by_user = is_interrupted && (ending.lost || (killed_ && ending.signal == SIGKILL));
  exit_code_ = exit_code_.value_or(by_user ? 128 + interrupted_by_ : ending.exit_code());
  if (options_.on_failure == OnFailure::End) end_others();
}

/// If a process ends well, all processes with a rank have done their work. Processes that wait for a rank are told, and
/// their exit codes do not count.
void Job::on_member_ended(int number, const Ending& ending) {
  if (ending.ok()) {
    if (!std::exchange(is_done_, true))
      fleet_.end_rounds(fmt::format("the job is done: process {} ended well", number));
    return;
  }
  if (ending.exit_code() == kSavedExitCode) {
    fleet_.end_rounds("the ranks have saved their state");
    return on_saved(number, ending);
  }
  if (is_done_ || saved_) return;
  const bool is_over = ending_ || interrupted_by_ != 0;
  if (!is_over && !ending.lost) report(fmt::format("process {} {}", number, ending.text()));
  failures_.add(number, fleet_.host_of(number), ending, ending_);
  if (is_over) {
    exit_code_ = exit_code_.value_or(interrupted_by_ != 0 ? 128 + interrupted_by_ : ending.exit_code());
    return;
  }
  if (restarts_ < options_.restarts) return bring_back(number);
  int left = fleet_.running();
  for (const auto& [n, r] : returns_) left += r.is_due ? 1 : 0;
  if (left >= options_.elastic->least) return;
  report(fmt::format("the job cannot go on: {} rank{} left, it needs {} or more, and {}", left,
                     left == 1 ? " is" : "s are", options_.elastic->least,
                     options_.restarts == 0 ? "no rank may be started again (--restarts)"
                                            : fmt::format("{} restarts have been used (--restarts)", restarts_)));
  exit_code_ = exit_code_.value_or(ending.exit_code());
  for (auto& [n, r] : returns_) r.is_due = false;
  end_others();
}

void Job::bring_back(int number) {
  ++restarts_;
  const auto at =
      returns_.try_emplace(number, Return{.timer = EventLoop::Timer(loop_), .backoff = Backoff(options_.backoff)})
          .first;
  Return& r = at->second;
  const Duration wait = r.backoff.after(Clock::now() - r.started);
  r.is_due = true;
  report(fmt::format("starting process {} again in {} s ({} of {})", number,
                     std::chrono::duration<double>(wait).count(), restarts_, options_.restarts));
  r.timer.start(wait, [this, number] { start_again(number); });
}

void Job::start_again(int number) {
  Return& r = returns_.at(number);
  if (!std::exchange(r.is_due, false) || ending_ || is_done_ || saved_ || interrupted_by_ != 0) return;
  r.started = Clock::now();
  try {
    fleet_.start_again(number, ++r.times);
  } catch (const Error& e) {
    report(e.what());
    exit_code_ = exit_code_.value_or(2);
    end_others();
  }
}

bool Job::awaits_return() const noexcept {
  const bool may_return = !ending_ && !is_done_ && !saved_ && interrupted_by_ == 0;
  return may_return && std::ranges::any_of(returns_, [](const auto& r) { return r.second.is_due; });
}

/// The others have most likely saved, too, and are about to leave: a signal could hit them on their way out.
void Job::on_saved(int rank, const Ending& ending) {
  if (!std::exchange(saved_, true) && interrupted_by_ == 0)
    report(fmt::format("rank {} {}: it has saved its state", rank, ending.text()));
  if (!end_at_ && options_.on_failure == OnFailure::End) end_at_ = Deadline::after(options_.grace);
}

void Job::end_if_left_behind() {
  if (end_at_ && end_at_->passed() && fleet_.running() != 0) end_others();
}

void Job::end_others() {
  if (ending_) return;
  ending_ = true;
  printer_.hold_no_more();
  if (interrupted_by_ != 0) return;  // all have been asked already, and have the time of --grace
  if (const int left = fleet_.running(); left != 0) {
    const char* const which = printer_.closed() ? "nobody reads the output any more: ending the" : "ending the other";
    report(fmt::format("{} {} rank{}", which, left, left == 1 ? "" : "s"));
  }
  ask_to_end(SIGTERM);
}

void Job::ask_to_end(int number) {
  fleet_.signal(number);
  fleet_.signal(SIGCONT);  // a stopped process takes no other signal
  if (asked_by_ != 0) return;
  asked_by_ = number;
  kill_at_ = Deadline::after(options_.grace);
}

void Job::kill_if_late() {
  if (!kill_at_ || !kill_at_->passed()) return;
  if (const int late = fleet_.running(); late != 0) {
    report(fmt::format("{} rank{} did not end within {} s of {} (--grace), so SIGKILL ends {}", late,
                       late == 1 ? "" : "s", std::chrono::duration<double>(options_.grace).count(),
                       signal_name(asked_by_), late == 1 ? "it" : "them"));
  }
  kill();
}

void Job::kill() {
  kill_at_.reset();
  if (!std::exchange(killed_, true)) fleet_.signal(SIGKILL);
}

void Job::on_signals() {
  while (const int number = signals_.next()) {
    switch (number) {
      case SIGCHLD: fleet_.reap(); break;
      case SIGTSTP:
        fleet_.signal(SIGSTOP);
        ::raise(SIGSTOP);
        fleet_.signal(SIGCONT);
        break;
      case SIGINT:
      case SIGTERM:
      case SIGHUP:
      case SIGQUIT: interrupt(number); break;
      default: fleet_.signal(number);
    }
  }
}

void Job::interrupt(int number) {
  if (interrupted_by_ == 0) {
    interrupted_by_ = number;
    printer_.hold_no_more();
    if (const int left = fleet_.running(); left != 0 && asked_by_ == 0) {
      report(fmt::format("{} ends the job: {} rank{} {} it, too, and {} {} s to end (--grace)", signal_name(number),
                         left, left == 1 ? "" : "s", left == 1 ? "gets" : "get", left == 1 ? "has" : "have",
                         std::chrono::duration<double>(options_.grace).count()));
    } else {
      report(fmt::format("{} ends the job", signal_name(number)));
    }
    return ask_to_end(number);
  }
  if (number == SIGHUP)
    return;  // a terminal that closes, or systemd, sends it beside another signal: nobody has asked twice
  if (!killed_ && fleet_.running() != 0)
    report(fmt::format("{} came after {}, so SIGKILL ends the ranks at once", signal_name(number),
                       signal_name(interrupted_by_)));
  kill();
}

}  // namespace sinew::run

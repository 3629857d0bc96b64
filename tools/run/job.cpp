#include "job.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/reachable_addresses.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/store/store_client.hpp>

#include "local_ranks.hpp"
#include "remote_ranks.hpp"

extern char** environ;

namespace sinew::run {
namespace {

/// A TCP port that was free a moment ago: nothing of ours listens there, but programs may want MASTER_PORT for
/// themselves.
std::uint16_t free_port(const Config& config) { return listen_everywhere(0, config.ports).address.port(); }

/// What ranks on other hosts get of our environment.
std::vector<std::pair<std::string, std::string>> travelling_environment() {
  std::vector<std::pair<std::string, std::string>> all;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry(*e);
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const bool ours = name.starts_with("SINEW_") && name != "SINEW_RSH";
    if (ours || name == "PATH" || name == "LD_LIBRARY_PATH") all.emplace_back(name, entry.substr(equals + 1));
  }
  return all;
}

std::string working_folder() {
  const std::unique_ptr<char, decltype(&std::free)> path(::getcwd(nullptr, 0), &std::free);
  return path ? path.get() : "/";
}

}  // namespace

Job::Job(const Options& options, const Config& config, const SignalDescriptor& signals, InsideLine& inside_line)
    : options_(options),
      config_(config),
      signals_(signals),
      printer_(loop_, options.prefix, inside_line, holding()),
      secret_(random_secret()),
      store_(loop_, {.secret = secret_, .ranks = options.ranks, .host = StoreHost::Launcher}),
      master_port_(free_port(config)),
      name_(fmt::format("{:016x}", random_id())) {}

LinePrinter::Hold Job::holding() {
  return {.all =
              [this](Stream stream, bool on) {
                for (const auto& r : ranks_) r->hold_all(stream, on);
              },
          .one =
              [this](Source source, bool on) {
                for (const auto& r : ranks_) r->hold_one(source, on);
              }};
}

void Job::start() {
  signals_come_ = loop_.watch(signals_.descriptor(), {.read = true}, [this] { on_signals(); });
  store_.listen(listen_on(bootstrap_address(master_port_, name_)));
  bool elsewhere = false;
  for (const HostShare& share : options_.shares) elsewhere = elsewhere || !share.host.empty();
  if (elsewhere) {
    port_.emplace(loop_, listen_everywhere(0, config_.ports), TlsContext::open(config_.tls));
    serves_store_ = port_->serve({.service = kStoreService}, secret_,
                                 [this](const AuthClaim&, Socket client) { store_.take(std::move(client)); });
    store_addresses_ = format_addresses(reachable_addresses(config_.interface, port_->number()));
  }
  // A rank is in a process group of its own: reading the terminal would stop it.
  const int input = ::isatty(0) ? -1 : 0;
  int first = 0;
  for (const HostShare& share : options_.shares) {
    start_share(share, first, input);
    first += share.ranks;
  }
}

void Job::start_share(const HostShare& share, int first, int input) {
  RankEvents events;
  events.output = [this](Source source, std::string_view bytes) { printer_.take(source, bytes); };
  events.ended = [this](int rank, const Ending& ending) { on_ended(rank, ending); };
  events.broken = [this](const std::string& why) { on_broken(why); };
  LocalPlan plan;
  plan.command = options_.command;
  plan.first = first;
  plan.count = share.ranks;
  plan.ranks = options_.ranks;
  plan.input = input;
  if (!share.host.empty()) plan.environment = travelling_environment();
  plan.environment.emplace_back("SINEW_ALONE", "0");  // the value that --env gives comes later and takes its place
  plan.environment.insert(plan.environment.end(), options_.environment.begin(), options_.environment.end());
  plan.environment.insert(
      plan.environment.end(),
      {{"MASTER_ADDR", master_address()}, {"MASTER_PORT", fmt::format("{}", master_port_)}, {"SINEW_JOB", name_}});
  if (share.host.empty()) {
    auto local = std::make_unique<LocalRanks>(loop_, std::move(events));
    LocalRanks& started = *local;
    ranks_.push_back(std::move(local));
    started.start(plan);
    return;
  }
  plan.folder = working_folder();
  const AgentTask task{std::move(plan), master_port_, name_, store_addresses_, secret_};
  auto agent = options_.by_srun ? agent_by_srun(share.host) : agent_by_rsh(config_.rsh, share.host);
  ranks_.push_back(
      std::make_unique<RemoteRanks>(loop_, std::move(events), std::move(agent), share.host, task, config_.timeout));
}

/// Of the host of rank 0, for programs that serve something there.
std::string Job::master_address() const {
  if (!options_.shares.front().host.empty()) return options_.shares.front().host;
  if (options_.shares.size() == 1) return "127.0.0.1";
  const auto own = reachable_addresses(config_.interface, 0);
  if (own.empty()) return "127.0.0.1";
  const std::string text = own.front().text();
  const std::string host = text.substr(0, text.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

int Job::finish() {
  while (running() != 0 || printer_.busy()) {
    loop_.run_once(next_look());
    kill_if_late();
    if (running() == 0) printer_.finish_all();
    if (interrupted_by_ != 0 && running() == 0 && printer_.stuck() >= kReaderPatience) printer_.forget();
    if (printer_.closed() && !ending_) {
      exit_code_ = exit_code_.value_or(128 + SIGPIPE);
      end_others();
    }
  }
  return exit_code_.value_or(0);
}

Deadline Job::next_look() const noexcept {
  constexpr auto kLookAfter = std::chrono::milliseconds(100);
  if (kill_at_) return *kill_at_;
  return interrupted_by_ != 0 && running() == 0 ? Deadline::after(kLookAfter) : Deadline::never();
}

void Job::report(std::string_view what) { printer_.say(fmt::format("sinew-run: {}\n", what)); }

int Job::running() const noexcept {
  int count = 0;
  for (const auto& r : ranks_) count += r->running();
  return count;
}

void Job::signal_all(int number) {
  for (const auto& r : ranks_) r->signal(number);
}

void Job::on_ended(int rank, const Ending& ending) {
  printer_.finish(rank);
  store_.lose(rank, fmt::format("rank {} {}", rank, ending.text()));
  if (ending.ok()) return;
  const bool is_interrupted = interrupted_by_ != 0;
  const bool ours = ending_ && (ending.signal == SIGTERM || ending.signal == SIGKILL);
  if (!ours && !is_interrupted && !ending.lost) report(fmt::format("rank {} {}", rank, ending.text()));
  // We have ended it for whoever sent the signal: the rank itself, or the remote shell.
  const bool by_user = is_interrupted && (ending.lost || (killed_ && ending.signal == SIGKILL));
  exit_code_ = exit_code_.value_or(by_user ? 128 + interrupted_by_ : ending.exit_code());
  if (options_.on_failure == OnFailure::End) end_others();
}

void Job::on_broken(const std::string& why) { report(why); }

void Job::end_others() {
  if (ending_) return;
  ending_ = true;
  printer_.hold_no_more();
  if (interrupted_by_ != 0) return;  // all have been asked already, and have the time of --grace
  if (const int left = running(); left != 0) {
    const char* const which = printer_.closed() ? "nobody reads the output any more: ending the" : "ending the other";
    report(fmt::format("{} {} rank{}", which, left, left == 1 ? "" : "s"));
  }
  ask_to_end(SIGTERM);
}

void Job::ask_to_end(int number) {
  signal_all(number);
  signal_all(SIGCONT);  // a stopped process takes no other signal
  if (asked_by_ != 0) return;
  asked_by_ = number;
  kill_at_ = Deadline::after(options_.grace);
}

void Job::kill_if_late() {
  if (!kill_at_ || !kill_at_->passed()) return;
  if (const int late = running(); late != 0) {
    report(fmt::format("{} rank{} did not end within {} s of {} (--grace): SIGKILL", late, late == 1 ? "" : "s",
                       std::chrono::duration<double>(options_.grace).count(), signal_name(asked_by_)));
  }
  kill();
}

void Job::kill() {
  kill_at_.reset();
  if (!std::exchange(killed_, true)) signal_all(SIGKILL);
}

void Job::on_signals() {
  while (const int number = signals_.next()) {
    switch (number) {
      case SIGCHLD:
        for (const auto& r : ranks_) r->reap();
        break;
      case SIGTSTP:
        signal_all(SIGSTOP);
        ::raise(SIGSTOP);
        signal_all(SIGCONT);
        break;
      case SIGINT:
      case SIGTERM:
      case SIGHUP:
      case SIGQUIT: interrupt(number); break;
      default: signal_all(number);
    }
  }
}

void Job::interrupt(int number) {
  if (interrupted_by_ == 0) {
    interrupted_by_ = number;
    printer_.hold_no_more();
    return ask_to_end(number);
  }
  if (number == SIGHUP)
    return;  // a terminal that closes, or systemd, sends it beside another signal: nobody has asked twice
  if (!killed_ && running() != 0)
    report(fmt::format("{} after {}: SIGKILL", signal_name(number), signal_name(interrupted_by_)));
  kill();
}

}  // namespace sinew::run

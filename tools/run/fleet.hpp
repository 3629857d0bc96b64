#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/store/store_server.hpp>

#include "local_ranks.hpp"
#include "options.hpp"
#include "rank_events.hpp"

namespace sinew::run {

struct AgentCommand;

/// All ranks of one start on all their hosts, and the store at which they meet. The store listens at a UNIX socket
/// here, and over TCP if some ranks are on other hosts.
class Fleet {
 public:
  /// `logs`: of this start. Lifetime: `loop`, `options` and `config` live longer.
  Fleet(EventLoop& loop, const Options& options, LogOptions logs, const Config& config, RankEvents events);

  /// Starts the ranks. Errors: Error{InvalidArgument} if the program cannot be run or a log file cannot be made.
  void start();
  /// For an elastic job: starts the process with this number again, on its host. `again`: how often it has been started
  /// before; its log files lie in a folder of that number. Not to be called from a rank's event.
  /// Errors: as start().
  void start_again(int number, int again);
  /// For an elastic job: no process gets a rank any more. Those that wait for one are told.
  void end_rounds(const std::string& why) { store_.end_rounds(why); }
  int running() const noexcept;
  void signal(int number);
  void hold_all(Stream stream, bool on);
  void hold_one(Source source, bool on);
  void reap();
  /// The name of the host that a rank runs on.
  std::string host_of(int rank) const;

 private:
  /// A part of a host's share: `count` processes, of which the first one has this number.
  struct Part {
    const HostShare* share;
    int first;
    int first_local;
    int count;
    int input;
  };
  void start_part(const Part& part, LogOptions logs);
  Part part_of(int number) const;
  /// The first round waits for those that run.
  void expect_all() {
    if (options_.elastic) store_.expect(running());
  }
  void start_here(LocalPlan plan, RankEvents events);
  void start_agent(LocalPlan plan, RankEvents events, AgentCommand command, const std::string& host);
  std::string master_address() const;

  EventLoop& loop_;
  const Options& options_;
  LogOptions logs_;
  const Config& config_;
  RankEvents events_;
  Bytes secret_;
  StoreServer store_;
  std::optional<ListeningPort> port_;  // empty if all ranks are on this host
  ListeningPort::Service serves_store_;
  std::uint16_t master_port_ = 0;
  std::string name_;
  std::string store_addresses_;
  std::vector<std::unique_ptr<Ranks>> ranks_;  // by host
};

}  // namespace sinew::run

#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/event_loop.hpp>

#include "agent_protocol.hpp"
#include "rank_events.hpp"

namespace sinew::run {

/// The command that starts an agent on a host.
struct AgentCommand {
  std::vector<std::string> words;
  std::string trial;  ///< a command for a user to try whether the host can be reached; empty: of this host
};
/// The agent is on another host. `rsh` takes the host, and then words for a shell there.
AgentCommand agent_by_rsh(const std::string& rsh, const std::string& host);
/// The same within Slurm's allocation, whose nodes need no sshd. The agent is a step of its own beside the others. It
/// has all cores of the node that the allocation has.
AgentCommand agent_by_srun(const std::string& node);
/// The agent is on this host.
AgentCommand agent_here();

/// Ranks on another host, started and watched by an agent there.
class RemoteRanks final : public Ranks {
 public:
  /// Starts an agent on the host by this command. The agent has to answer within `patience`; otherwise the ranks are
  /// lost.
  /// Errors: Error{InvalidArgument} if the command cannot be run.
  RemoteRanks(EventLoop& loop, RankEvents events, AgentCommand command, std::string host, const AgentTask& task,
              Duration patience);
  ~RemoteRanks() override;

  int running() const noexcept override { return static_cast<int>(alive_.size()); }
  /// Before the agent has answered what ends a job ends the remote shell: it may be all that there is. After SIGKILL
  /// the agent has kAgentPatience to report, then the shell is killed too; the agent ends with its connection.
  void signal(int number) override;
  /// Both streams come by one connection: either holds it, and the agent its ranks.
  void hold_all(Stream stream, bool on) override;
  /// The agent holds that rank; the connection goes on.
  void hold_one(Source source, bool on) override;
  void reap() override;

 private:
  static constexpr Duration kAgentPatience = std::chrono::seconds(2);

  bool is_held() const noexcept;
  void drain();
  void hear(std::string_view bytes);
  void close_output();
  void tell(std::string_view bytes);
  void take(const AgentFrame& frame, std::string_view payload);
  /// Kills the remote shell and hears no more of it.
  void cut(const std::string& why);
  /// No more word from there: its ranks are taken for lost.
  void lose(const std::string& why);

  EventLoop& loop_;
  RankEvents events_;
  std::string host_;
  bool is_signalled_ = false;  ///< the remote shell has got a signal from here before it started a sinew-run
  std::string cure_;           ///< "; cure: ..": of a remote shell that starts no sinew-run; empty: on this host
  Process agent_;
  EventLoop::Watch watch_;  // of the agent's output
  FrameReader reader_;
  EventLoop::Timer timer_;  // first of the answer, then of the end
  std::set<int> alive_;
  std::set<Stream> held_;
};

}  // namespace sinew::run

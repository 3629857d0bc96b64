#pragma once

#include <set>
#include <string>

#include "agent_protocol.hpp"
#include "event_loop.hpp"
#include "rank_events.hpp"

namespace sinew::run {

/// Ranks on another host, started and watched by an agent there.
class RemoteRanks final : public Ranks {
 public:
  /// Starts `rsh HOST sinew-run --agent`. Errors: Error{InvalidArgument} if `rsh` cannot be run.
  RemoteRanks(EventLoop& loop, RankEvents events, const std::string& rsh, std::string host, const AgentTask& task);
  ~RemoteRanks() override;

  int running() const noexcept override { return static_cast<int>(alive_.size()); }
  void signal(int number) override;
  void reap() override;

 private:
  void drain();
  void tell(std::string_view bytes);
  void take(const AgentFrame& frame, std::string_view payload);
  /// No more word from there: its ranks are taken for lost.
  void lose(const std::string& why);

  EventLoop& loop_;
  RankEvents events_;
  std::string host_;
  Process agent_;
  FrameReader reader_;
  std::set<int> alive_;
};

}  // namespace sinew::run

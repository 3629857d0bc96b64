#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/collectives/control/doorbell.hpp>
#include <sinew/collectives/control/host_links.hpp>
#include <sinew/collectives/control/verdict/report.hpp>

namespace sinew {

/// Questions about calls whose records lie on other hosts, and the answers to them. It sends the questions of this
/// rank, keeps the answers to them, and answers for all ranks of this host.
/// Only the rank that speaks for a host has links. The other ranks of the host send questions through it, and their
/// answers come back through it.
/// Thread: report() from any; the rest on the control thread.
class RemoteReports {
 public:
  /// `peers`, `user` and `doorbell` outlive it. `peers` may be filled later.
  RemoteReports(int rank, const std::vector<ControlPeer>& peers, const LinkUser& user, const Doorbell& doorbell)
      : rank_(rank), peers_(peers), user_(user), doorbell_(doorbell) {}

  /// Sends an encoded Question to the hosts of the ranks that it asks about.
  void ask(HostLinks& links, std::span<const std::byte> question);
  /// Answers an encoded Question from another host.
  void answer(HostLink& to, std::span<const std::byte> question) const;
  /// Takes the body of a LinkFrame::Answer, and hands it on if another rank of this host has asked.
  /// Errors: Error{Mismatch} where it is no answer.
  void take(std::span<const std::byte> answer);
  /// Takes the encoded reports that answer a question of this rank. Errors: as RankReport::decode.
  void keep(std::span<const std::byte> reports);

  /// The latest answer about a rank of another host to a question about this call, not older than two seconds.
  std::optional<RankReport> report(int rank, std::uint64_t communicator, std::uint32_t sequence) const;

 private:
  struct Answer {
    std::uint32_t sequence;
    RankReport report;
    Clock::time_point at;
  };

  bool is_rank(int rank) const noexcept { return rank >= 0 && rank < static_cast<int>(peers_.size()); }
  const ControlPeer& peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }

  const int rank_;
  const std::vector<ControlPeer>& peers_;
  const LinkUser& user_;
  const Doorbell& doorbell_;

  mutable std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, Answer> answers_;  // by rank and communicator
};

}  // namespace sinew

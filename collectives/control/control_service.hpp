#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/collectives/control/doorbell.hpp>
#include <sinew/collectives/control/failures.hpp>
#include <sinew/collectives/control/host_links.hpp>
#include <sinew/collectives/control/remote_reports.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// The half of a rank's control plane that works while the rank computes: on the control thread it watches the other
/// processes of the host and reads what their ranks announce. What it learns waits for the thread that drives.
/// Ranks of other hosts are heard through their hosts' speakers (HostLinks); for its own host it answers.
/// Thread: announce, news, take_news, ask, report and the questions about failures from any; the rest on the control
/// thread.
class SINEW_API ControlService : private LinkUser {
 public:
  /// Introduces this rank to the others and starts to listen. Errors: as meet_control_peers; Error{System}.
  ControlService(const Exchange& exchange, const ControlSetup& setup);
  /// Says goodbye: this rank has left in order.
  ~ControlService() override;
  ControlService(const ControlService&) = delete;
  ControlService& operator=(const ControlService&) = delete;

  int rank() const noexcept { return rank_; }
  const std::vector<ControlPeer>& peers() const noexcept { return peers_; }
  std::byte* records() const noexcept { return pages_.records.get(); }

  /// Tells all ranks. The first notice about a thing counts, here and everywhere; a later one is dropped.
  void announce(const Notice& notice);
  /// The same for the end of the generation, which all ranks that are known to be lost come before.
  /// patience_ms: for deaths that a transport saw sooner than the kernel tells; none where one is known.
  void announce_end(const Notice& notice, int patience_ms);
  /// Something waits for take_news.
  bool news() const noexcept { return news_.load(std::memory_order_relaxed); }
  std::vector<Notice> take_news();
  /// Readable while there is news.
  int wake_descriptor() const noexcept { return wake_.get(); }

  /// As Failures.
  Status end_of(std::uint64_t communicator, const std::vector<int>& world_ranks) const;
  Status world_end() const;
  bool left(int rank) const;
  bool living(int rank) const;
  std::optional<Notice> proposal_of(int leader) const;
  std::optional<Notice> vote_of(int rank) const;
  /// Called on any thread for each rank that is lost or leaves, until replaced; it must not come back here.
  void on_gone(std::function<void(int world_rank)> call);

  /// Asks the hosts of those ranks whose records cannot be read here. What they say comes to report(), if ever.
  void ask(const Question& question);
  /// The latest answer about a rank of another host to a question about this call, not older than two seconds.
  std::optional<RankReport> report(int rank, std::uint64_t communicator, std::uint32_t sequence) const;

  /// Reads the notices of one rank of this host, or of all. Every notice written before the call is known afterwards.
  /// Thread: any.
  void look(int from);
  void look_everywhere();

 private:
  bool is_living(int world_rank) const override { return living(world_rank); }
  int speaker() const override;
  void greet(HostLink& link) override;
  void take(HostLink& from, LinkFrame type, std::span<const std::byte> bytes) override;
  void out_of_reach(int world_rank, const std::string& why) override;

  void serve(const Keys& keys);
  void leave_thread();
  void connected(const AuthClaim& claim, Socket socket);
  void hear();
  void compare_records();
  void process_ended(std::uint64_t process_token);
  /// Of processes whose end the kernel has told, but nobody has read yet. On the control thread.
  void look_for_deaths(int patience_ms);
  bool learn(const Notice& notice);
  void learn_from_afar(Notice notice);
  void tell_host() const;
  bool alone() const noexcept;

  const int rank_;
  const pid_t process_;  // a child of fork must not speak for it
  ControlPages pages_;
  Doorbell doorbell_;
  std::uint64_t token_;
  std::vector<ControlPeer> peers_;
  RemoteReports remote_reports_;
  FileDescriptor wake_;
  std::shared_ptr<ControlThread> thread_;            // null: all ranks are in this process
  std::unique_ptr<HostLinks> links_;                 // of the control thread; null: all ranks are on this host
  std::vector<std::pair<AuthClaim, Socket>> early_;  // of the control thread; connections that came before links_
  std::set<std::uint64_t> suspected_;                // of the control thread; communicators
  std::atomic<bool> linked_{false};                  // true: links_ has been made

  std::mutex looking_;        // held while notices are read, so that they are handled in the order of writing
  mutable std::mutex mutex_;  // guards what follows, and the own board
  Failures failures_;
  std::vector<std::uint64_t> seen_;  // notices read, per rank
  std::vector<Notice> inbox_;
  std::function<void(int)> gone_;
  std::atomic<bool> news_{false};

  std::shared_ptr<ListeningPort> port_;  // null: all ranks are on this host
  ListeningPort::Service service_;       // destroyed first
};

}  // namespace sinew

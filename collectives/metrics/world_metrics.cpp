#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <sinew/collectives/metrics/metrics_file.hpp>
#include <sinew/collectives/metrics/metrics_socket.hpp>
#include <sinew/collectives/metrics/world_metrics.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

constexpr auto kMetricsPeriod = std::chrono::seconds(5);

/// Puts the host's name and the process in the place of %h and %p. Config has refused every other use of '%'.
std::string path_of_process(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'h': path += host_name(); break;
      case 'p': path += std::to_string(::getpid()); break;
      default: path += pattern[i];
    }
  }
  return path;
}

}  // namespace

/// The file and the socket of this process, for the metrics of all its Worlds that name them.
/// Thread: the control thread.
class MetricsOutlet {
 public:
  /// The outlet of these two paths, each of which may be empty.
  static std::shared_ptr<MetricsOutlet> of_process(ControlThread& thread, const std::string& file,
                                                   const std::string& socket) {
    static std::map<std::tuple<pid_t, std::string, std::string>, std::weak_ptr<MetricsOutlet>> all;
    const ProcessLock lock(OfProcess::Metrics);
    auto& known = all[{::getpid(), file, socket}];
    auto outlet = known.lock();
    if (!outlet) known = outlet = std::make_shared<MetricsOutlet>(thread, file, socket);
    return outlet;
  }

  MetricsOutlet(ControlThread& thread, const std::string& file, const std::string& socket)
      : loop_(thread.loop()), timer_(loop_) {
    if (!file.empty()) file_.emplace(file);
    if (socket.empty()) return;
    try {
      socket_.emplace(loop_, socket, [this] { return text(); });
    } catch (const std::exception& e) {
      log::warning("SINEW_METRICS_SOCKET={}: {}", socket, e.what());
    }
  }

  void add(WorldMetrics& world) {
    world.world_ = next_world_++;
    worlds_.push_back(&world);
    write();
  }
  void remove(WorldMetrics& world) {
    world.is_ending_ = true;
    write();
    std::erase(worlds_, &world);
  }

 private:
  std::string text() const {
    std::vector<RankMetrics> all;
    for (const WorldMetrics* world : worlds_) world->add_to(all);
    return open_metrics_text(all);
  }
  void write() {
    if (!file_) return;
    file_->write(text());
    timer_.start(kMetricsPeriod, [this] { write(); });
  }

  EventLoop& loop_;
  EventLoop::Timer timer_;
  std::optional<MetricsFile> file_;
  std::optional<MetricsSocket> socket_;
  std::vector<WorldMetrics*> worlds_;
  std::uint32_t next_world_ = 0;
};

std::unique_ptr<WorldMetrics> WorldMetrics::make(const Config& config, const ControlService& control) {
  if (config.metrics_file.empty() && config.metrics_socket.empty()) return nullptr;
  const std::vector<ControlPeer>& peers = control.peers();
  const std::string& host = peers[static_cast<std::size_t>(control.rank())].host_id;
  const auto first = std::ranges::find(peers, host, &ControlPeer::host_id);
  if (first->rank != control.rank()) return nullptr;
  try {
    return std::unique_ptr<WorldMetrics>(new WorldMetrics(config, control));
  } catch (const Error& e) {
    log::warning("this host shows no metrics: {}", e.what());
    return nullptr;
  }
}

WorldMetrics::WorldMetrics(const Config& config, const ControlService& control)
    : control_(control), thread_(ControlThread::of_process()) {
  thread_->run([&] {
    outlet_ = MetricsOutlet::of_process(*thread_, path_of_process(config.metrics_file),
                                        path_of_process(config.metrics_socket));
    outlet_->add(*this);
  });
}

WorldMetrics::~WorldMetrics() {
  thread_->run([this] {
    outlet_->remove(*this);
    outlet_.reset();
  });
}

void WorldMetrics::add_to(std::vector<RankMetrics>& all) const {
  const std::vector<ControlPeer>& peers = control_.peers();
  const ControlPeer& self = peers[static_cast<std::size_t>(control_.rank())];
  for (const ControlPeer& peer : peers) {
    if (peer.host_id != self.host_id || !peer.records) continue;
    RankMetrics of = read_metrics(*peer.records, coarse_now());
    const bool has_left = peer.page && peer.page->left.load(std::memory_order_acquire) != 0;
    of.host = self.host_name;
    of.world = world_;
    of.rank = peer.rank;
    of.is_in_world = control_.living(peer.rank) && !has_left && !(is_ending_ && peer.rank == self.rank);
    all.push_back(std::move(of));
  }
}

}  // namespace sinew

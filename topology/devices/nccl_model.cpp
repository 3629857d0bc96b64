#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <sinew/core/call/bus_factor.hpp>
#include <sinew/topology/devices/nccl_model.hpp>

namespace sinew {
namespace {

constexpr Seconds kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// The launch of NCCL's kernel, and the host's work for it. Source: the shortest calls of eight ranks take 20 to 25 us
/// in public runs of nccl-tests. The latencies below are taken off.
constexpr Seconds kLaunch = 10 * kMicrosecond;

using ByProtocol = std::array<double, 3>;
double of(const ByProtocol& table, NcclProtocol protocol) noexcept { return table[static_cast<std::size_t>(protocol)]; }

// In microseconds, by protocol: LL, LL128, Simple.
// NCCL's table has 14.0 for LL128, its launch included. Public runs of 1 to 64 MiB show that Simple takes no longer.
constexpr ByProtocol kRingStart = {6.6, 4.0, 4.0};
constexpr ByProtocol kTreeStart = {6.8, 4.0, 4.0};
constexpr ByProtocol kRingStepNvLink = {0.6, 1.9, 3.4};
constexpr ByProtocol kRingStepPci = {1.0, 2.5, 5.7};
constexpr ByProtocol kTreeStepNvLink = {0.6, 1.25, 4.0};
constexpr ByProtocol kTreeStepPci = {1.0, 1.9, 4.0};
/// The time in which a chunk passes from one device to the next. LL sends its flags with the data.
constexpr ByProtocol kRingHop = {0.0, 2.0, 4.0};
constexpr ByProtocol kTreeHop = {2.0, 4.0, 4.0};
/// Data that a NIC has written is visible to kernels after it was flushed, by a read of the NIC.
constexpr double kFlush = 7.0;

/// The share of the payload of links that rings reach. Source: 231 of 240 GB/s on eight A100, 695 of 722 on eight B200.
constexpr double kRingShare = 0.96;
/// The same of NICs. Source: all_gather and reduce_scatter on 2 to 32 hosts, 308 to 334 GB/s of 384.
constexpr double kRingShareOfNics = 0.94;
constexpr double kLl128Share = 0.92;
constexpr double kLlShare = 0.5;
constexpr double kTreeShare = 0.92;
constexpr double kTreeLlShare = 1 / 3.8;
constexpr double kTreeLl128Share = 7.0 / 9;
constexpr double kTreeLl128ShareOfNics = 120.0 / 128;
/// The same of a NIC, of messages to many peers. Source: all_to_all on 2 to 32 hosts, 40 to 45 GB/s of 48.
constexpr double kMessagesShareOfNic = 0.875;
/// The work of a NIC for each peer, as a share of a message's latency. Source: the same runs, 4 us of 30.
constexpr double kPerPeer = 0.125;

/// The figures that differ between architectures. Rates are gigabytes per second, for one host, two, and more.
struct Architecture {
  int compute_capability;
  std::array<double, 3> ll;          ///< the most that LL moves
  std::array<double, 3> tree;        ///< of each channel
  std::array<double, 3> tree_ll128;  ///< of each channel
  double ring_ll128;                 ///< of each channel
  double nvls_share;                 ///< of the payload of NVLinks
  /// The time in which a chunk passes the switch, in microseconds.
  /// Source: all_reduce of 8 to 256 MiB by eight H100 (Azure ND H100 v5, NCCL 2.18) and by eight B200 (two public runs,
  ///         NCCL 2.26 and 2.28).
  double nvls_hop;
};
constexpr Architecture kArchitectures[] = {
    {100, {282.0, 90.0, 70.0}, {70.0, 42.8, 24.0}, {55.6, 31.67, 20.0}, 40.0, 0.74, 9.0},
    {90, {141.0, 45.0, 35.0}, {38.7, 41.4, 36.0}, {36.7, 36.7, 29.0}, 36.7, 0.85, 4.0},
    {80, {87.7, 22.5, 19.0}, {24.0, 23.6, 17.8}, {20.0, 20.0, 20.0}, 20.0, 0, 0},
    {0, {39.0, 39.0, 20.4}, {26.5, 18.5, 10.0}, {20.0, 20.0, 20.0}, 20.0, 0, 0},
};

const Architecture& architecture_of(int compute_capability) noexcept {
  const auto* found = std::ranges::find_if(
      kArchitectures, [&](const Architecture& a) { return a.compute_capability <= compute_capability; });
  return *found;
}

/// The column of the tables above.
std::size_t column(int hosts) noexcept { return static_cast<std::size_t>(std::min(hosts, 3) - 1); }

bool is_ring_alone(Collective collective) noexcept {
  return collective == Collective::AllGather || collective == Collective::ReduceScatter ||
         collective == Collective::AllGatherV || collective == Collective::ReduceScatterV ||
         collective == Collective::Broadcast || collective == Collective::Reduce;
}

/// Levels of a binary tree over the hosts.
int levels(int hosts) noexcept { return hosts > 1 ? static_cast<int>(std::ceil(std::log2(hosts))) : 0; }

constexpr int kFirstWithNvls = 21700;
constexpr int kFirstWithNvlsTree = 21800;
constexpr int kFirstArchitectureWithNvls = 90;
constexpr int kFirstArchitectureWithLl128 = 70;

}  // namespace

std::string_view name_of(NcclAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case NcclAlgorithm::Ring: return "Ring";
    case NcclAlgorithm::Tree: return "Tree";
    case NcclAlgorithm::Nvls: return "NVLS";
    case NcclAlgorithm::NvlsTree: return "NVLSTree";
    case NcclAlgorithm::Messages: return "messages";
  }
  return "?";
}

std::string_view name_of(NcclProtocol protocol) noexcept {
  switch (protocol) {
    case NcclProtocol::Ll: return "LL";
    case NcclProtocol::Ll128: return "LL128";
    case NcclProtocol::Simple: return "Simple";
  }
  return "?";
}

std::string to_text(const NcclForecast& forecast) {
  return fmt::format("{}, {}", name_of(forecast.algorithm), name_of(forecast.protocol));
}

/// The start of a call and its chunks, in microseconds, and the bytes of the call that move each second.
struct NcclModel::Pipeline {
  double start = 0;
  double hop = 0;
  double bytes_per_s = kUnlimited;

  Seconds seconds(double bytes) const noexcept {
    const Seconds moving = bytes / std::max(bytes_per_s, 1.0);
    return kLaunch + start * kMicrosecond + moving + 2 * std::sqrt(hop * kMicrosecond * moving);
  }
};

/// Between the devices of a host. One device alone limits nothing.
double NcclModel::inside_bytes_per_s() const noexcept {
  return group_.most_on_host > 1 ? group_.device_bytes_per_s : kUnlimited;
}

/// The number of channels. One block of NCCL's kernel moves the data of a channel. Between hosts there is a channel for
/// each NIC, two at least, and no more than devices. On one host NCCL has so many that links are the limit.
double NcclModel::channels() const noexcept {
  return group_.hosts > 1 ? std::clamp(group_.nics, 2.0, std::max(2.0, 1.0 * group_.most_on_host)) : kUnlimited;
}

/// LL128 needs that the 128 bytes of a store arrive together. NVLinks keep them so, and PCI switches up to a NIC.
bool NcclModel::has_protocol(NcclProtocol protocol) const noexcept {
  if (protocol == NcclProtocol::Simple) return true;
  if (group_.hosts > 1 && !group_.nic_keeps_order) return false;
  if (protocol == NcclProtocol::Ll) return true;
  const bool inside = group_.most_on_host == 1 || group_.path == DevicePath::NvLink;
  const bool outside = group_.hosts == 1 || group_.nic_path <= DevicePath::PciSwitch;
  return inside && outside && group_.compute_capability >= kFirstArchitectureWithLl128;
}

/// Hosts with one device, or with different numbers of them, have nothing to add in a switch.
bool NcclModel::has_nvls() const noexcept {
  return group_.compute_capability >= kFirstArchitectureWithNvls && group_.has_nvswitch && group_.fewest_on_host > 1 &&
         group_.fewest_on_host == group_.most_on_host &&
         version_ >= (group_.hosts > 1 ? kFirstWithNvlsTree : kFirstWithNvls);
}

/// A ring passes each host once. Between hosts a step is data and, for Simple, a flush that takes as long.
NcclModel::Pipeline NcclModel::ring(Collective collective, NcclProtocol protocol) const noexcept {
  const bool is_all_reduce = collective == Collective::AllReduce;
  const int steps = (is_all_reduce ? 2 : 1) * (group_.ranks - 1);
  const int between_hosts = (is_all_reduce ? 2 : 1) * (group_.hosts - 1);
  const double latency = group_.nic_latency_s / kMicrosecond;
  const ByProtocol& step = group_.path == DevicePath::NvLink ? kRingStepNvLink : kRingStepPci;
  const double step_between = protocol == NcclProtocol::Simple ? 2 * latency : latency;
  double rate = inside_bytes_per_s() * kRingShare;
  if (group_.hosts > 1) rate = std::min(rate, group_.host_bytes_per_s * kRingShareOfNics);
  if (protocol == NcclProtocol::Ll) {
    const double most = architecture_of(group_.compute_capability).ll[column(group_.hosts)];
    rate = std::min(rate * kLlShare, most * kGigabyte);
  }
  if (protocol == NcclProtocol::Ll128)
    rate = std::min(rate * kLl128Share, channels() * architecture_of(group_.compute_capability).ring_ll128 * kGigabyte);
  Pipeline pipeline{.hop = of(kRingHop, protocol), .bytes_per_s = rate / bus_factor(collective, group_.ranks)};
  pipeline.start =
      of(kRingStart, protocol) + (steps - between_hosts) * of(step, protocol) + between_hosts * step_between;
  return pipeline;
}

/// The data go up and down: by chains within the hosts, and by levels of trees over the hosts. Each host sends and
/// receives the data twice, or once if there are two hosts.
NcclModel::Pipeline NcclModel::tree(NcclProtocol protocol) const noexcept {
  const Architecture& architecture = architecture_of(group_.compute_capability);
  const double latency = group_.nic_latency_s / kMicrosecond;
  const ByProtocol& step = group_.path == DevicePath::NvLink ? kTreeStepNvLink : kTreeStepPci;
  const double step_between = protocol == NcclProtocol::Simple ? latency + kFlush : latency;
  double rate = inside_bytes_per_s();
  if (group_.hosts > 1) rate = std::min(rate, group_.host_bytes_per_s * (group_.hosts == 2 ? 2 : 1));
  const double whole = rate;
  const auto most = [&](const std::array<double, 3>& each) {
    return channels() * each[column(group_.hosts)] * kGigabyte;
  };
  rate = std::min(rate * kTreeShare, most(architecture.tree));
  if (protocol == NcclProtocol::Ll)
    rate = std::min(whole * kTreeLlShare, architecture.ll[column(group_.hosts)] * kGigabyte);
  if (protocol == NcclProtocol::Ll128) {
    rate =
        std::min(rate * (group_.hosts == 1 ? kTreeLl128Share : kTreeLl128ShareOfNics), most(architecture.tree_ll128));
  }
  const double climb = 2 * levels(group_.hosts) * step_between;
  return {.start = of(kTreeStart, protocol) + 2 * (group_.most_on_host - 1) * of(step, protocol) + climb,
          .hop = of(kTreeHop, protocol) + climb,
          .bytes_per_s = rate / 2};
}

/// Each device reads its part of the sum from the switch, then writes it for all. So it sends all n bytes, which the
/// switch adds, and n / P bytes of results. Between hosts each part goes up and down the trees.
NcclModel::Pipeline NcclModel::nvls() const noexcept {
  constexpr double kStart = 15.0;  // NCCL has 25 for a chunk and its launch
  const Architecture& architecture = architecture_of(group_.compute_capability);
  const double parts = group_.most_on_host;
  double rate = inside_bytes_per_s() * architecture.nvls_share / (1 + 1 / parts);
  double hop = architecture.nvls_hop;
  if (group_.hosts > 1) {
    hop += 2 * levels(group_.hosts) * (group_.nic_latency_s / kMicrosecond + kFlush);
    rate = std::min(rate, group_.host_bytes_per_s / (group_.hosts == 2 ? 1 : 2));
  }
  return {.start = kStart + hop, .hop = hop, .bytes_per_s = rate};
}

/// Each pair of ranks sends its message by itself. A message that leaves the host takes the NICs of its own device.
NcclModel::Pipeline NcclModel::messages(Collective collective) const noexcept {
  constexpr double kStart = 5.0;
  constexpr double kHop = 4.0;
  const bool from_all = collective == Collective::AllToAll || collective == Collective::AllToAllV;
  const double ranks = group_.ranks;
  const double here = group_.most_on_host - 1;
  const double there = ranks - group_.fewest_on_host;
  const double latency = group_.nic_latency_s / kMicrosecond;
  Pipeline pipeline{.start = kStart, .hop = kHop};
  const double inside = inside_bytes_per_s() * kRingShare;
  if (here > 0) pipeline.bytes_per_s = inside * ranks / (from_all ? here : ranks - 1);
  if (there > 0) {
    pipeline.bytes_per_s = std::min(pipeline.bytes_per_s, group_.nic_bytes_per_s * kMessagesShareOfNic * ranks / there);
    pipeline.start += 2 * latency + there * kPerPeer * latency;
  }
  return pipeline;
}

std::vector<NcclForecast> NcclModel::ways(Collective collective, double bytes) const {
  std::vector<NcclForecast> all;
  const auto add = [&](const Pipeline& pipeline, NcclAlgorithm algorithm, NcclProtocol protocol) {
    all.push_back({pipeline.seconds(bytes), algorithm, protocol});
  };
  const bool is_all_reduce = collective == Collective::AllReduce;
  if (!is_all_reduce && !is_ring_alone(collective)) {
    add(messages(collective), NcclAlgorithm::Messages, NcclProtocol::Simple);
    return all;
  }
  for (const NcclProtocol protocol : {NcclProtocol::Ll, NcclProtocol::Ll128, NcclProtocol::Simple}) {
    if (!has_protocol(protocol)) continue;
    add(ring(collective, protocol), NcclAlgorithm::Ring, protocol);
    if (is_all_reduce) add(tree(protocol), NcclAlgorithm::Tree, protocol);
  }
  if (is_all_reduce && has_nvls())
    add(nvls(), group_.hosts > 1 ? NcclAlgorithm::NvlsTree : NcclAlgorithm::Nvls, NcclProtocol::Simple);
  return all;
}

NcclForecast NcclModel::predict(Collective collective, double bytes) const {
  return std::ranges::min(ways(collective, bytes), {}, &NcclForecast::seconds);
}

}  // namespace sinew

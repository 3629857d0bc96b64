#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/topology/devices/device_group.hpp>

namespace sinew {

/// The algorithms of NCCL.
enum class NcclAlgorithm : std::uint8_t {
  Ring,
  Tree,      ///< a chain within each host, two binary trees over the hosts
  Nvls,      ///< NVSwitches add and multicast; one host
  NvlsTree,  ///< the same within each host, two binary trees over the hosts
  Messages,  ///< sends and receives: all_to_all, gather, scatter
};
/// The protocols by which NCCL moves data. Ll sends a flag with each 4 bytes, and Ll128 with each 120 bytes. Simple
/// sends one with each chunk.
enum class NcclProtocol : std::uint8_t { Ll, Ll128, Simple };

/// Names as NCCL_ALGO and NCCL_PROTO have them: "Ring", "Tree", "NVLS", "NVLSTree"; "LL", "LL128", "Simple".
SINEW_API std::string_view name_of(NcclAlgorithm algorithm) noexcept;
SINEW_API std::string_view name_of(NcclProtocol protocol) noexcept;

struct NcclForecast {
  Seconds seconds = 0;
  NcclAlgorithm algorithm = NcclAlgorithm::Ring;
  NcclProtocol protocol = NcclProtocol::Simple;
};
/// "NVLS, Simple".
SINEW_API std::string to_text(const NcclForecast& forecast);

/// Predicts NCCL from the links of its devices. A pure function of the group, NCCL's version and the call: nothing is
/// measured. NCCL takes the algorithm and protocol that it believes to be the fastest, and so does the model.
///
/// Each algorithm is a pipeline of chunks. A call takes `start`, then what its bytes take on the slowest link, n / B,
/// and what the pipeline adds. A pipeline whose chunks take `hop` each to pass on has its best chunk size where it adds
/// 2 sqrt(hop n / B), so the sum is start + n / B + 2 sqrt(hop n / B).
/// Units:  seconds of one call among many, as nccl-tests times them: with the launch, without waiting for its end.
/// Source: latencies and efficiencies come from NCCL's tuning table (tuning.cc of version 2.28). Numbers that come from
///         elsewhere name their source.
class SINEW_API NcclModel {
 public:
  /// `version`: NCCL's, such as 22807 for 2.28.7.
  NcclModel(const DeviceGroup& group, int version) noexcept : group_(group), version_(version) {}

  /// The fastest way to run the collective. `bytes`: CollectiveDesc::bytes().
  /// Precondition: NCCL has the collective (a barrier and messages between two ranks are none of its collectives).
  NcclForecast predict(Collective collective, double bytes) const;
  /// All ways that this NCCL has for the collective on these devices.
  std::vector<NcclForecast> ways(Collective collective, double bytes) const;

  const DeviceGroup& group() const noexcept { return group_; }

 private:
  struct Pipeline;
  double inside_bytes_per_s() const noexcept;
  double channels() const noexcept;
  bool has_protocol(NcclProtocol protocol) const noexcept;
  bool has_nvls() const noexcept;
  Pipeline ring(Collective collective, NcclProtocol protocol) const noexcept;
  Pipeline tree(NcclProtocol protocol) const noexcept;
  Pipeline nvls() const noexcept;
  Pipeline messages(Collective collective) const noexcept;

  DeviceGroup group_;
  int version_ = 0;
};

}  // namespace sinew

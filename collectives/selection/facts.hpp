#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <sinew/collectives/selection/times/seen_times.hpp>
#include <sinew/collectives/selection/times/tuned_times.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost_model.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/device_links.hpp>

namespace sinew {

/// A user's choice: for calls of `collective` whose bytes lie in [min_bytes, max_bytes], take this.
/// Written "all_reduce:0-4KiB:recursive_doubling@shm"; either of algorithm and transport may be "*".
struct Rule {
  std::string collective;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::string algorithm;
  std::string transport;

  /// Errors: Error{InvalidArgument} that shows the form and the known names.
  SINEW_API static Rule parse(const std::string& text);
};

/// Two ranks seen from far: which hosts, and whether they share a process. Links of equal class are alike.
struct LinkClass {
  int host_a = 0;  ///< host_a <= host_b
  int host_b = 0;
  bool same_process = false;
  friend auto operator<=>(const LinkClass&, const LinkClass&) = default;
};

/// The table that every choice is a function of: gathered once inside create, equal on all ranks (its hash is
/// compared), never changed afterwards.
struct SINEW_API Facts {
  struct Rank {
    int host = 0;  ///< hosts and processes are numbered in the order of their first rank
    int process = 0;
    int device = -1;      ///< the accelerator it uses; -1: none
    int nic = 0;          ///< of its host, the nearest one
    DeviceLinks links{};  ///< of its device, where it has one
  };
  /// What one transport offers on the links of one class.
  struct Link {
    std::string transport;
    Reach reach;
    CostSource source = CostSource::Default;  ///< of the reach's cost; Default: assumed by the transport
  };
  /// One transport that some rank could not open.
  struct Absence {
    std::string transport;
    int rank = 0;
    std::string reason;
  };

  std::vector<Rank> ranks;
  std::vector<int> cores_of_host;
  std::map<LinkClass, std::vector<Link>> links;  ///< transports in order of name
  std::vector<std::string> transports;           ///< opened by at least one rank, in order of name
  std::set<std::string> by_nic;  ///< transports that leave each rank's host by its nic; others: by one for all ranks
  std::vector<Absence> absences;
  std::map<std::string, Bytes> offload_facts;     ///< by transport: what its offload decides by
  std::set<std::string> measured_offloads;        ///< transports whose offload_facts were measured
  std::map<std::string, std::string> no_offload;  ///< by transport: why it has none
  std::string no_device;  ///< why calls cannot take device memory: the first rank without one, and its reason
  std::vector<Rule> rules;
  double copy_bytes_per_s = assumed::kCopyBytesPerS;      ///< one core, memory to memory; 0: it takes no time
  double reduce_bytes_per_s = assumed::kReduceBytesPerS;  ///< one core, `dst = a + b`, counted in bytes of dst
  CostSource rates_source = CostSource::Default;          ///< the source of both rates
  TunedTimes tuned;                                       ///< empty if there is no file
  SeenTimes seen;                                         ///< of earlier jobs' calls on device memory
  std::string source = "defaults";
  bool measures = true;        ///< true if all ranks allow the World to measure unknown costs
  bool measures_again = true;  ///< true if all ranks allow it to measure doubtful costs again

  LinkClass class_of(int rank_a, int rank_b) const noexcept;
  /// What a transport offers on links of a class; nullptr: it was not opened there.
  const Link* link(const LinkClass& where, const std::string& transport) const noexcept;
  /// The reach between two ranks over one transport; a reason where there is none.
  const Reach& reach(int rank_a, int rank_b, const std::string& transport) const;
  /// The links of the devices of these ranks, in their order; empty: some rank has no device.
  std::vector<DeviceLinks> devices_of(std::span<const int> world_ranks) const;
  /// The transports whose own collectives every rank can have, in order of name.
  std::vector<std::string> with_offload() const;
  std::string to_string() const;
};

/// Gathers the table: `mine` are this rank's opened transports. Three rounds of the exchange.
/// Errors: Error{InvalidArgument} where versions or rules differ, showing both.
struct OpenedTransport {
  std::string name;
  Transport* rail = nullptr;  ///< null: could not be opened, or has only an offload
  std::string unavailable;    ///< why it could not be opened
  std::string no_offload;     ///< why it has no collectives; empty: it has
  Bytes offload_facts;
  bool by_nic = false;  ///< Facts
};

}  // namespace sinew

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/control/control_page.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/runtime/call_record.hpp>

namespace sinew {

class ControlService;

/// What a World tells the control plane that it makes.
struct ControlSetup {
  std::uint32_t generation = 0;
  HostPeers& host;  ///< outlives the plane
  std::string host_id;
  Bytes secret;
  const Config& config;
};

/// The memory in which a rank writes its notices and records. It lies in the rank's shared segment if other processes
/// of the host read it, and otherwise in private memory.
struct ControlPages {
  std::shared_ptr<ControlPage> page;
  std::shared_ptr<std::byte> records;  ///< RecordRing::bytes()
  std::uint64_t page_offset = 0;       ///< the offset of `page` in the shared segment
  std::uint64_t records_offset = 0;
  std::string trace;  ///< the file that holds the records instead, or empty

  /// Errors: Error{System} if the shared segment is full or the trace file cannot be made.
  static ControlPages make(const ControlSetup& setup, int rank, int ranks);
};

/// One rank of the World as the control plane of another knows it. Plain values, never changed after create.
struct ControlPeer {
  int rank = -1;
  std::uint64_t token = 0;          ///< of this rank of this World, random
  std::uint64_t process_token = 0;  ///< equal for ranks that are threads of one process
  pid_t process = -1;
  int life = -1;  ///< HostPeers::life_of

  std::string host_id;
  std::string host_name;
  std::string doorbell;                       ///< name of its socket
  std::string clock;                          ///< clock_identity() where it times calls, else empty
  std::vector<std::string> addresses;         ///< where it listens for other hosts
  std::shared_ptr<const ControlPage> page;    ///< null: on another host
  std::shared_ptr<const RecordPage> records;  ///< null: on another host, or its trace file cannot be read

  /// "rank 3 (host a, process 17)"
  std::string name() const;
};

/// Makes this rank known to all others, and learns who they are: one round of the exchange.
/// Errors: Error{Unavailable}, on all ranks alike, where ranks of several hosts have no secret to trust each other by.
struct ControlIntroduction {
  std::uint64_t token = 0;
  std::string doorbell;
  std::vector<std::string> addresses;
};
std::vector<ControlPeer> meet_control_peers(const Exchange& exchange, const ControlSetup& setup,
                                            const ControlPages& pages, const ControlIntroduction& mine);

/// The control planes of this process, by token: ranks that are threads reach each other without a kernel between.
class ProcessPlanes {
 public:
  /// Before anybody can know the token.
  static void add(std::uint64_t token, const ControlPages& pages);
  /// From now on it is told of notices.
  static void open(std::uint64_t token, ControlService& service);
  static void remove(std::uint64_t token);
  /// Empty where that rank is not of this process.
  static ControlPages pages_of(std::uint64_t token);
  /// Has that rank read the notices of `from`. Does nothing once its World has ended.
  static void look(std::uint64_t token, int from);
};

/// One number per process and lifetime, random.
std::uint64_t process_token();

}  // namespace sinew

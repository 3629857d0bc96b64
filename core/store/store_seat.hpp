#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {

/// A request that waits in the server.
struct ParkedRequest {
  std::vector<std::string> keys;  ///< of Get and Wait: keys that were not there when the request came
  bool wants_value = false;
  bool wants_round = false;  ///< NextRound
  std::string gathering;     ///< AllGather: its name
  std::shared_ptr<Gathering> round;
  Deadline deadline;
  Clock::time_point since{};
  Duration allowed{};
};

/// A client of a store, whether it has a connection of its own (StoreConnection) or shares one (RelayClients).
class StoreSeat {
 public:
  StoreSeat() = default;
  StoreSeat(const StoreSeat&) = delete;
  StoreSeat& operator=(const StoreSeat&) = delete;
  virtual ~StoreSeat() = default;

  /// Sends a reply, which is a frame. All clients of one all_gather get the same frame.
  virtual void send(std::shared_ptr<const Bytes> frame) = 0;
  /// The queued replies go out, then the client is disconnected.
  virtual void close_after_flush() = 0;

  std::optional<StoreIdentity> identity;
  std::optional<ParkedRequest> parked;
  std::optional<ElasticMembers::Id> member;  ///< set with its first NextRound
};

/// Handles the requests of clients: a StoreService answers them, a RelayService passes their requests on.
class StoreHandler {
 public:
  StoreHandler() = default;
  StoreHandler(const StoreHandler&) = delete;
  StoreHandler& operator=(const StoreHandler&) = delete;
  virtual ~StoreHandler() = default;

  virtual void handle(StoreSeat& from, const Bytes& request) = 0;
  /// The client is gone. `how` is the reason why it was cut off. Empty: it has left.
  virtual void forget(StoreSeat& gone, const std::string& how) = 0;
  /// Does what is due, and returns when something is due next.
  virtual Deadline expire() = 0;
};

}  // namespace sinew

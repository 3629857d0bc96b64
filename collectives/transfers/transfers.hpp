#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/transfers/incoming.hpp>
#include <sinew/collectives/transfers/outgoing.hpp>
#include <sinew/collectives/transfers/piece_pool.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// The messages of a World in which some rank has a device: all receives, and the sends of long device messages.
/// Transfers belong to the World, since the last message of a cancelled send may come after its communicator has ended.
/// Thread:   of the World's engine.
/// Lifetime: must outlive all endpoints. Then no message of a transfer can come any more.
/// Cost:     a receive allocates its state. Pinned memory as PiecePool says, once for sends and once for receives.
class SINEW_API Transfers final : public ProgressSource {
 public:
  enum class Cancelled : std::uint8_t {
    Unknown,  ///< the operation is not of these
    Done,     ///< the operation will end with Cancelled
    TooLate,  ///< the operation will end as without the call
  };

  /// Returns the connection to a rank of the World over a transport.
  using Connect = std::function<Endpoint&(int world_rank, int transport)>;

  /// `runtime` may be null: then this rank has no device. `path` may be null.
  Transfers(DeviceRuntime* runtime, int device, std::unique_ptr<PeerMemory> path, Connect connect);
  ~Transfers() override;

  /// Sends device memory of more than kWholeBytes. Precondition: `runtime` is not null.
  /// Errors: as OutgoingTransfer. Nothing was sent then.
  void send(const TransferRoute& route, std::uint32_t tag, ConstBuffer from, StreamRef after, Completion& done);
  /// Receives into any memory. `lands`: the buffer is device memory that the transport does not take.
  void recv(const TransferRoute& route, std::uint32_t tag, Buffer to, StreamRef after, bool lands, Completion& done);
  Cancelled cancel(const Completion& done) noexcept;
  /// Ends all transfers of a communicator. Their operations end when no buffer is used any more.
  void end(const void* owner, const Status& reason) noexcept;
  /// True if a peer may still answer to a card of this communicator. Its id must not be used again then.
  bool has_cards(const void* owner) const noexcept;
  /// The communicator is destroyed.
  void forget_owner(const void* owner) noexcept;
  /// Says in words why the messages of a communicator with this peer wait. Empty: there are none, or they wait for a
  /// message of the peer as any receive does.
  std::string describe(const void* owner, int peer) const;
  const TransferCounts& counts() const noexcept { return counts_; }

  int progress() noexcept override;
  bool active() const noexcept override { return !active_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override;
  void disarm() noexcept override {}

 private:
  static void first_came(Completion& first) noexcept;
  TransferMeans means(std::optional<PiecePool>& pool);
  template <class F>
  void for_each(F&& visit) const;

  TransferCounts counts_;
  DeviceRuntime* runtime_;
  int device_;
  std::unique_ptr<PeerMemory> path_;
  Connect connect_;
  std::optional<PiecePool> send_pool_;
  std::optional<PiecePool> receive_pool_;
  TransferMeans sending_;
  TransferMeans receiving_;
  std::uint32_t numbers_ = 0;                              // of transfers so far
  std::vector<std::unique_ptr<IncomingTransfer>> posted_;  // wait for their first message, in any order
  std::vector<std::unique_ptr<DeviceTransfer>> active_;    // in the order in which they began
  std::vector<OutgoingTransfer*> outgoing_;                // those of `active_`
};

}  // namespace sinew

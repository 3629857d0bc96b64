#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sinew/collectives/transfers/landing.hpp>
#include <sinew/collectives/transfers/transfer.hpp>

namespace sinew {

/// A receive in a World with devices. It takes the plain message or the card that comes first.
/// A plain message ends the receive as without this class. If the buffer is device memory that the transport does not
/// take, the plain message comes to a landing and is copied from there. After a card the receiver takes the details,
/// answers with a way, and waits for the sender's Go. The receiver answers when its own stream has come to the call, so
/// that the sender does not hold pinned memory before.
class SINEW_API IncomingTransfer final : public DeviceTransfer {
 public:
  /// `lands`: the transport does not take the memory of the buffer.
  /// Errors: Error{System} if no landing can be mapped, or if the stream cannot be recorded.
  IncomingTransfer(const TransferMeans& means, TransferCounts& counts, const TransferRoute& route, Buffer to,
                   StreamRef after, bool lands, Completion& done);

  void post(std::uint32_t users_tag);
  /// Cancels the receive. Returns false if it has found its message.
  bool cancel() noexcept;
  /// Takes the end of the first message. Returns true if the receive is over. Then finish_first() must be called and
  /// the object be destroyed. Otherwise advance() must be called from now on.
  bool take_first() noexcept;
  bool waits_for_peer() const noexcept override;
  std::string describe() const override;

  /// The first message, and where its owner keeps this object.
  struct First : TransferPart {
    IncomingTransfer* of = nullptr;
    void* list = nullptr;   ///< Transfers
    std::size_t place = 0;  ///< in its list
  };
  First& first() noexcept { return first_; }
  /// Ends the user's operation as the first message has ended.
  void finish_first() noexcept;

 private:
  enum class Step : std::uint8_t { Posted, Details, Answered, Pieces, PeerCopy, Direct, Landed };

  void step() override;
  bool uses_buffer() noexcept override;
  void take_leave() override;
  TransferPart* own_parts(std::size_t index) noexcept override;
  bool goes_to_device() const noexcept { return to_.place.kind == MemoryKind::Device; }
  void answer();
  /// Returns the way that is expected to be the fastest of those that both sides can go.
  TransferWay choose_way() noexcept;
  /// Looks for the sender's memory in this process. Returns false if this rank cannot read it.
  bool find_memory() noexcept;
  void take_word();
  /// The sender has said Go.
  void begin();
  void receive_pieces();
  void land_pieces();
  void copy_pieces();
  void copy_from_peer();

  Buffer to_;
  Landing landing_;
  ConstBuffer peer_memory_;      // from which a peer copy reads
  PeerMemory::Mapping mapping_;  // keeps memory of another process mapped
  Step step_ = Step::Posted;
  TransferWay way_ = TransferWay::Pieces;
  First first_;
  TransferPart word_part_;
  std::uint64_t word_ = 0;
  bool owes_word_ = false;     // the sender waits until this rank no longer reads its memory
  Status failure_;             // of a copy; the rest of the message is received, but not kept
  std::uint64_t posted_ = 0;   // pieces whose receive was posted
  std::uint64_t here_ = 0;     // pieces that have come
  std::uint64_t copied_ = 0;   // pieces whose copy was begun
  std::uint64_t through_ = 0;  // pieces that are in the buffer
};

}  // namespace sinew

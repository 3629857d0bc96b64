#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sinew/collectives/transfers/transfer.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// The sender's side of a long message of device memory.
/// The sender sends a card on the user's tag and the details. It waits for the receiver's answer and for the stream.
/// Then it says Go. Its pieces follow, or the receiver copies from its memory. If the communicator ends while the
/// receiver copies, the send ends when the receiver has said that it no longer reads, or after a second.
class SINEW_API OutgoingTransfer final : public DeviceTransfer {
 public:
  /// Errors: Error{System} if there is no pinned memory, or if the stream cannot be recorded.
  OutgoingTransfer(const TransferMeans& means, TransferCounts& counts, const TransferRoute& route, std::uint32_t number,
                   ConstBuffer from, StreamRef after, Completion& done);

  /// Sends the card and the details. Nothing was sent before.
  void announce(std::uint32_t users_tag);
  /// Cancels the send. The user's operation ends at the next progress, and the receiver learns of it when it answers.
  /// Returns false if the sender has said Go.
  bool cancel() noexcept;
  bool waits_for_peer() const noexcept override;
  std::string describe() const override;

 private:
  enum class Step : std::uint8_t { Announced, Answered, Pieces, PeerCopy, Direct };

  void step() override;
  bool uses_buffer() noexcept override;
  TransferPart* own_parts(std::size_t index) noexcept override;
  const Status* failure_of_announcement() const noexcept;
  void take_answer();
  void begin();
  void move_pieces();
  void await_copied();
  void await_direct();

  ConstBuffer from_;
  Step step_ = Step::Announced;
  TransferWay way_ = TransferWay::Pieces;
  bool cancelled_ = false;
  bool has_gone_ = false;
  TransferPart card_part_;
  TransferPart answer_part_;
  TransferPart last_part_;  // tells the receiver that the device has failed
  std::uint64_t answer_ = 0;
  TransferPart copied_part_;  // the receiver has copied
  std::uint64_t word_ = 0;
  Deadline patience_;          // with a receiver that copies when the transfer closes
  std::uint64_t copied_ = 0;   // pieces whose copy was begun
  std::uint64_t sent_ = 0;     // pieces that were given to the transport
  std::uint64_t through_ = 0;  // pieces that were sent
};

}  // namespace sinew

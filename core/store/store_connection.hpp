#pragma once

#include <sys/types.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {

/// A request that waits in the server.
struct ParkedRequest {
  std::vector<std::string> keys;  ///< Get and Wait: not there when it was parked
  bool wants_value = false;
  std::string gathering;  ///< AllGather: its name
  std::shared_ptr<Gathering> round;
  Deadline deadline;
  Duration allowed{};
};

/// One client of a StoreServer: its bytes, framed, after its proof. Memory: at most one request of `limit` bytes, grown
/// as its bytes arrive and never by what a length field promises, and replies, which all clients of a round share.
class StoreConnection {
 public:
  /// A TCP client has to prove the secret; a UNIX client was judged by its user id already.
  StoreConnection(Socket socket, std::optional<Authentication> proof, std::size_t limit);

  int descriptor() const noexcept { return socket_.get(); }
  /// Reads what is there, hands every whole request to `take`; false: the client is gone or broke the protocol.
  template <class F>
  bool read(F&& take) {
    while (fill()) {
      if (!unproven() && whole()) {
        const Bytes request(in_.begin() + kFrameHeaderBytes, in_.end());
        in_.clear();
        take(request);
      }
    }
    return !broken_;
  }
  /// Queues and writes as much as the socket takes.
  void send(std::shared_ptr<const Bytes> message);
  void flush();
  /// What is queued goes out, then the connection ends.
  void close_after_flush() noexcept { closing_ = true; }
  bool finished() const noexcept { return broken_ || (closing_ && idle()); }
  /// Whether it still reads from its client. It does not after close_after_flush().
  bool reads() const noexcept { return !closing_; }
  bool idle() const noexcept { return out_.empty() && !socket_.wants_write(); }
  bool unproven() const noexcept { return proof_.has_value(); }

  std::optional<StoreIdentity> identity;
  std::optional<ParkedRequest> parked;
  ProofClock clock;  ///< until it is proven

 private:
  /// One recv; false: nothing more now, or broken_.
  bool fill();
  bool whole() const;
  std::size_t next_bytes();
  ssize_t receive(std::span<std::byte> room);
  bool prove();

  Socket socket_;
  std::optional<Authentication> proof_;
  const std::size_t limit_;
  bool broken_ = false;
  bool closing_ = false;
  Bytes in_;
  std::deque<std::shared_ptr<const Bytes>> out_;
  std::size_t written_ = 0;  // of out_.front()
};

}  // namespace sinew

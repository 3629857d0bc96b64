#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/transport/progress_source.hpp>
#include <sinew/core/transport/tag.hpp>

namespace sinew {

/// Bytes by which a peer's transport of the same kind finds this rank. Only transports of that kind understand them.
/// The exchange of World::create brings them to the peers.
using Address = Bytes;

/// The abilities of a transport.
struct Capabilities {
  /// True if buffers of messages with user tags may be memory of this rank's device. Such a buffer never reduces.
  bool device_memory = false;
  bool cancels_sends = false;                                               ///< true if cancel() can take back a send
  std::size_t max_message_bytes = std::numeric_limits<std::size_t>::max();  ///< a longer send ends with InvalidArgument
  std::size_t eager_bytes = 0;  ///< the longest message that the receiver may buffer before its receive is posted
};

/// The destination of a received message. Without `reduce` the message is written to `into`. With `reduce` the sum
/// `with (op) message` is written to `into`. `with` may be the same memory as `into`; null `with.data` means `into`.
/// A transport that holds the message in its own memory reduces from there. Other transports receive into scratch
/// first.
struct Sink {
  Buffer into;
  const Reducer* reduce = nullptr;
  ConstBuffer with{};
};

/// The connection to one peer. Operations complete only inside Transport::progress(), never inside send, recv, cancel
/// or close.
/// Lifetime: operations that are pending when the endpoint is destroyed complete at the transport's next progress(). If
///           their buffers must be untouched from then on, call close() first and wait for its completion.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// Sends a message. The caller leaves `from` unchanged until `done` fires. Then `from` may be reused, but the message
  /// need not have arrived. The receiver finds `note` in its completion.
  virtual void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) = 0;
  /// Receives one message of this peer with exactly this tag. Messages with the same tag match in the order of their
  /// sends.
  /// Errors: `done` ends with Truncated if the message is longer than the sink. It ends with Mismatch if done.note is
  ///         not 0 and differs from the message's note. In both cases no byte is written to the sink.
  virtual void recv(Sink to, Tag tag, Completion& done) = 0;
  /// True if an unexpected message with this tag is here, which the next recv() of the tag takes. Receives from any
  /// rank ask this.
  virtual bool has_unexpected(Tag tag) const noexcept = 0;
  /// Cancels a send or receive. If true is returned, `done` fires with Cancelled at the next progress(). If false is
  /// returned, it was too late and `done` completes as without the call.
  /// A send that is cancelled before a byte was received counts as never sent. Later, its receive ends with Cancelled
  /// too, even if cancel() returned false for that receive.
  virtual bool cancel(Completion& done) = 0;
  /// Ends pending operations with Cancelled. Messages whose sends have ended with Ok still arrive. When `closed` fires,
  /// the endpoint has touched a user's buffer for the last time.
  virtual void close(Completion& closed) = 0;
};

/// Delivers messages between processes over one rail, such as "tcp/eth0". Authors of transports implement this class
/// and Endpoint.
/// Thread:   one thread at a time.
/// Lifetime: its endpoints are destroyed first.
class Transport : public ProgressSource {
 public:
  virtual std::string_view name() const noexcept = 0;
  virtual const Capabilities& capabilities() const noexcept = 0;
  /// The address by which peers find this rank. It never changes.
  virtual Address address() const = 0;
  /// Returns the cost of messages to the peer, or the reason why this transport cannot reach the peer. Never waits. May
  /// begin a connection if only that can tell (ucx does it for ranks of this host). If that connection fails later, the
  /// operations on it end with the error. Called once for each host.
  virtual Reach probe(const Address& peer) = 0;
  /// Connects to a peer. Both ranks call it, each when it first needs the peer, and once per peer. Messages that the
  /// peer sent earlier are kept until then. Never waits: if the peer does not answer, operations end with the error.
  /// Errors: Unavailable with the reason of probe(). InvalidArgument if the transport notices a second call for a peer.
  virtual std::unique_ptr<Endpoint> connect(const Address& peer) = 0;
};

}  // namespace sinew

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

/// Opaque to everybody but the transport that made it; reaches the peers through the exchange of World::create.
using Address = Bytes;

struct Capabilities {
  bool device_memory = false;  ///< messages with user tags may lie on this rank's device; no sink there reduces
  bool cancels_sends = false;
  bool ordered = true;  ///< messages of a pair arrive in the order of the sends
  std::size_t max_message_bytes = std::numeric_limits<std::size_t>::max();  ///< a longer send ends InvalidArgument
  std::size_t eager_bytes = 0;  ///< longest message that may be buffered at the receiver
};

/// Where a message lands. With `reduce`: into = with (op) message, and `with` may be `into`; `with.data` null means
/// into itself. A transport that holds the bytes reduces from there; the others receive to scratch first.
struct Sink {
  Buffer into;
  const Reducer* reduce = nullptr;
  ConstBuffer with{};
};

/// The connection to one peer. Nothing completes inside send, recv, cancel or close, only in Transport::progress().
/// Lifetime: what is pending when it ends fires at the transport's next progress; close() first, and wait, where
/// buffers must be at rest.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// `from` stays untouched by its owner until `done` fires, which says that it may be reused, not that it arrived.
  virtual void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) = 0;
  /// Matches one message of this peer with exactly this tag; same tags match in the order of the sends.
  /// Ends Truncated if it is longer than the sink, Mismatch if done.note is set and differs from the message's:
  /// in both cases before a byte is taken.
  virtual void recv(Sink to, Tag tag, Completion& done) = 0;
  /// Has a message with this tag come that no receive has taken? Then recv() takes it. For receives from any rank.
  virtual bool has_unexpected(Tag tag) const noexcept = 0;
  /// true: `done` will fire Cancelled at the next progress; false: too late, it completes as it would have, but a
  /// receive whose message is then taken back by its sender ends Cancelled.
  /// A send taken back before a byte of it was received was never sent; after that its receive ends Cancelled, too.
  virtual bool cancel(Completion& done) = 0;
  /// Pending operations end Cancelled; after `closed` fires no buffer of this endpoint is touched any more.
  virtual void close(Completion& closed) = 0;
};

/// Framed delivery between two processes; one object per rail ("tcp/eth0"). All the author of a transport writes.
/// Thread: one thread at a time. Lifetime: endpoints end before it.
class Transport : public ProgressSource {
 public:
  virtual std::string_view name() const noexcept = 0;
  virtual const Capabilities& capabilities() const noexcept = 0;
  /// Where peers find this rank: the same bytes as long as it lives.
  virtual Address address() const = 0;
  /// Can this transport reach the peer? Never waits. May begin a connection where nothing else tells (ucx, for ranks of
  /// this host); what comes of it later shows as the end of operations. Asked once per distinct host.
  virtual Reach probe(const Address& peer) = 0;
  /// Lazily on first use, once per peer; both sides call it; what a peer sent before is kept until then. Never waits: a
  /// peer that is not there shows as the end of operations.
  /// Errors: Unavailable with probe's reason; InvalidArgument where a second one is asked for and noticed.
  virtual std::unique_ptr<Endpoint> connect(const Address& peer) = 0;
};

}  // namespace sinew

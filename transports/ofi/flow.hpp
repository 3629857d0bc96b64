#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <sinew/core/completion.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/frame_pool.hpp>
#include <sinew/transports/ofi/rail.hpp>
#include <sinew/transports/ofi/request.hpp>

namespace sinew::ofi {

enum class Way : std::uint8_t { Send, Receive };

struct Flow;

struct Piece : Request {
  explicit Piece(Completed c) noexcept : Request(c) {}

  Flow* flow = nullptr;
  Frame* scratch = nullptr;
  std::size_t bytes = 0;
  bool posted = false;
  bool done = false;
};

class FlowOwner {
 public:
  /// Of a receive: `flow.posted` pieces may come by now.
  virtual void receives_posted(Flow& flow) = 0;
  /// Of a receive, the next piece in order: it lies in `scratch`, or (null) where it belongs.
  virtual void piece_arrived(Flow& flow, const std::byte* scratch, std::size_t bytes) = 0;
  /// The provider has nothing of it any more; Ok: all of it was carried.
  virtual void flow_ended(Flow& flow, const Status& why) = 0;

 protected:
  ~FlowOwner() = default;
};

/// One message, cut into pieces of which a few at a time are with the provider.
struct Flow {
  static constexpr std::size_t kWindow = 4;
  static constexpr std::size_t kSendWindow = 2;

  explicit Flow(Request::Completed c) : window{Piece(c), Piece(c), Piece(c), Piece(c)} {}

  // For whoever starts it.
  FlowOwner* owner = nullptr;  ///< null: nobody wants to hear of it any more
  Completion* operation = nullptr;
  Way way = Way::Send;
  bool through_scratch = false;  ///< pieces of a receive come through memory of ours
  bool withdrawn = false;        ///< the owner's
  std::byte* base = nullptr;
  std::size_t total = 0;
  Place place{};  ///< of `base`
  std::size_t piece_bytes = 0;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  int life = -1;             ///< of the peer, see has_ended
  std::uint32_t number = 0;  ///< in the owner's table
  std::uint32_t theirs = 0;  ///< in the peer's: of a send, the receiver's; of a receive, the sender's

  // For Flows.
  bool stopping = false;
  bool broken = false;  ///< the provider failed it
  bool stalled = false;
  std::uint64_t posted = 0;
  std::uint64_t granted = 0;  ///< of a receive: what the owner has told the sender; of a send: what it was told
  std::uint64_t retired = 0;
  std::uint32_t in_flight = 0;
  Status why{};
  Handle<fid_mr> registration;  ///< of all of `base`; null: the provider wants none, or the flow goes through scratch
  class Flows* flows = nullptr;
  std::array<Piece, kWindow> window;

  /// At least one: an empty message is an empty piece.
  std::uint64_t pieces() const noexcept { return total == 0 ? 1 : (total + piece_bytes - 1) / piece_bytes; }
  bool has_room() const noexcept {
    if (way == Way::Send) return posted < granted && posted - retired < kSendWindow;
    return posted - retired < kWindow;
  }
};

/// The flows of one transport.
class Flows {
 public:
  /// Pieces of receives that go through scratch are at most this long.
  static constexpr std::size_t kScratchBytes = 256 * 1024;

  explicit Flows(Rail& rail)
      : rail_(rail), scratch_(rail, kScratchBytes), most_receives_(rail.info().rx_attr->size / 2) {}

  /// A flow with nothing set.
  Flow& take();
  /// Posts what the provider takes. Ends in flow_ended, perhaps before the return.
  void start(Flow& flow);
  /// Of a send: its receiver has posted so many pieces.
  void grant(Flow& flow, std::uint64_t pieces);
  /// Takes back what the provider gives back; flow_ended(why) when it has nothing of it any more.
  void stop(Flow& flow, Status why);
  /// What the provider would not take when it was asked.
  void retry();
  bool anything_stalled() const noexcept { return !stalled_.empty(); }

 private:
  static void piece_ended(Request& request, const Outcome& outcome);

  void post(Flow& flow);
  ssize_t post(Flow& flow, Piece& piece);
  void ended(Flow& flow, Piece& piece, const Outcome& outcome);
  void retire(Flow& flow);
  void halt(Flow& flow, Status why);
  void settle(Flow& flow);

  Rail& rail_;
  FramePool scratch_;
  // The rest is for what comes unasked: the shm provider stops for good where that finds no entry.
  std::size_t most_receives_;
  std::size_t receives_ = 0;
  std::deque<Flow> all_;
  std::vector<Flow*> free_;
  std::vector<Flow*> stalled_;
};

}  // namespace sinew::ofi

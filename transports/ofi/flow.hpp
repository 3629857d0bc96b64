#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <sinew/core/completion.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/frame_pool.hpp>
#include <sinew/transports/ofi/rails.hpp>
#include <sinew/transports/ofi/request.hpp>

namespace sinew::ofi {

enum class Way : std::uint8_t { Send, Receive };

struct Flow;

struct Piece : Request {
  explicit Piece(Completed c) noexcept : Request(c) {}

  Flow* flow = nullptr;
  Frame* scratch = nullptr;
  std::size_t bytes = 0;
  std::uint32_t rail = 0;  ///< that has it, or had it last
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

/// One message, cut into pieces of which a few at a time are with the provider. The pieces take turns over the rails to
/// the peer. The receiver's number of the message says with which rail they begin, so that messages of one piece take
/// turns, too.
struct Flow {
  static constexpr std::size_t kWindow = 4;      ///< of each rail
  static constexpr std::size_t kSendWindow = 2;  ///< of each rail
  using Window = std::array<Piece, kWindow * kMostRails>;

  explicit Flow(Request::Completed c)
      : window([&]<std::size_t... I>(std::index_sequence<I...>) {
          return Window{(static_cast<void>(I), Piece(c))...};
        }(std::make_index_sequence<kWindow * kMostRails>{})) {}

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
  RailsTo to{};
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
  /// Each covers all of `base`. They are numbered as the rails are. Null: the provider wants none, or the flow goes
  /// through scratch.
  std::array<Handle<fid_mr>, kMostRails> registrations;
  class Flows* flows = nullptr;
  Window window;

  /// At least one: an empty message is an empty piece.
  std::uint64_t pieces() const noexcept { return total == 0 ? 1 : (total + piece_bytes - 1) / piece_bytes; }
  bool has_room() const noexcept {
    if (way == Way::Send) return posted < granted && posted - retired < kSendWindow * to.count;
    return posted - retired < most_posted();
  }
  std::size_t most_posted() const noexcept { return kWindow * to.count; }
  const RailTo& rail_of(std::uint64_t which) const noexcept {
    return to.rails[(which + (way == Way::Send ? theirs : number)) % to.count];
  }
  /// Each place of the window keeps its rail, and with it its scratch.
  Piece& piece(std::uint64_t which) noexcept { return window[which % most_posted()]; }
};

/// The flows of one transport.
class Flows {
 public:
  /// Pieces of receives that go through scratch are at most this long.
  static constexpr std::size_t kScratchBytes = 256 * 1024;

  explicit Flows(Rails& rails);

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
  bool take_scratch(Flow& flow, Piece& piece);
  void ended(Flow& flow, Piece& piece, const Outcome& outcome);
  void retire(Flow& flow);
  void halt(Flow& flow, Status why);
  void settle(Flow& flow);

  Rails& rails_;
  std::deque<FramePool> scratch_;  // of each rail
  // The rest is for what comes unasked: the shm provider stops for good where that finds no entry.
  std::size_t most_receives_;
  std::size_t receives_ = 0;
  std::deque<Flow> all_;
  std::vector<Flow*> free_;
  std::vector<Flow*> stalled_;
};

}  // namespace sinew::ofi

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// Whether a step completes a result: the step that does carries the one multiplication of Average.
enum class Sum : std::uint8_t { Partial, Complete };

/// How the author of an algorithm states one rank's data flow, in an order that is right when run one by one. The
/// builder numbers the messages, derives which steps must wait for which, and drops copies of a chunk onto itself.
/// Shape: chunks and classes of In and Out follow from the collective (schedule.hpp); `chunks` is the author's
///        choice for all_reduce, broadcast and reduce only. Slices of one step have the same classes chunk by chunk.
class SINEW_API ProgramBuilder {
 public:
  ProgramBuilder(const CollectiveDesc& desc, int rank, int ranks, bool in_place, int chunks = 1);

  /// The rank (or chunk number) s places to the right or left of this rank's, going round.
  int right(int s) const noexcept { return left(-s); }
  int left(int s) const noexcept { return ((program_.rank - s) % program_.ranks + program_.ranks) % program_.ranks; }

  Slice in(int first = 0, int count = 1) const { return slice(Space::In, first, count); }
  Slice out(int first = 0, int count = 1) const { return slice(Space::Out, first, count); }
  Slice scratch(std::uint32_t chunk_class);
  /// Scratch for a run of chunks of these sizes.
  Slice scratch_like(Slice chunks);
  /// The same memory, which happens in place: then a receive into it waits until it is sent.
  bool same(Slice x, Slice y) const noexcept { return cells_.same(x, y); }

  /// These chunks as one run: where they lie side by side, or copied to scratch. See tell_sizes().
  Slice packed(const std::vector<Slice>& chunks);

  /// Chunks are not to be cut into segments. Needed on every rank where any rank states a slice of several: such a run
  /// is one piece of memory only while its chunks are whole.
  void keep_whole() noexcept { program_.whole = true; }
  /// Messages have the sizes of their chunks in front. Needed on every rank where any rank passes on blocks whose sizes
  /// it does not know from its own counts. Then all messages are runs of scratch, and packed() always copies.
  void tell_sizes() noexcept { program_.whole = program_.sized = true; }
  bool tells_sizes() const noexcept { return program_.sized; }

  void send(int peer, Slice a);
  void recv(int peer, Slice dst);
  /// dst = a (op) message
  void recv_reduce(int peer, Slice dst, Slice a, Sum sum = Sum::Partial);
  void copy(Slice dst, Slice a, Sum sum = Sum::Partial);
  /// dst = a (op) b; dst may be a or b.
  void reduce(Slice dst, Slice a, Slice b, Sum sum = Sum::Partial);
  /// Begins a new turn. Messages that are added from here on start after all messages of the turn before have ended.
  /// Algorithms call it to keep the number of messages in flight small. Correctness does not need it.
  void turn();

  Program build();

 private:
  /// The number of messages so far, for each peer. Most programs have few peers, even among 100,000 ranks.
  class MessageCounts {
   public:
    explicit MessageCounts(int ranks) noexcept : ranks_(ranks) {}
    std::uint32_t& with(int peer);

   private:
    struct Count {
      int peer = 0;
      std::uint32_t messages = 0;
    };
    static constexpr std::size_t kFew = 48;

    int ranks_;
    std::vector<Count> few_;
    std::vector<std::uint32_t> all_;  // by peer, once there are more than a few
  };

  static Slice slice(Space space, int first, int count) {
    return {space, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
  }
  std::uint32_t class_of(Slice chunk) const;
  ElementMap map_of(Sum sum) const noexcept;
  void message(Op op, ElementMap map, Slice a, Slice dst, int peer, MessageCounts& numbers);

  Collective collective_;
  bool average_;
  Program program_;
  Cells cells_;
  MessageCounts sent_;
  MessageCounts received_;
  std::vector<std::uint32_t> last_turn_;  ///< steps that the messages of this turn wait for
  std::vector<std::uint32_t> this_turn_;
};

}  // namespace sinew

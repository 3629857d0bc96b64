#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/counts.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// This rank's part of a tensor, and the tensor's placement along the group.
struct PlacedInput {
  Placement placement;
  ConstBuffer data;
};

/// Brings one tensor from one placement to another along a group. It is made once and runs in every step.
///   Replicate to Replicate: a copy.       Partial to Replicate: all_reduce.
///   Shard to Replicate: all_gather.       Replicate to Shard: this rank keeps its part, nothing is sent.
///   Partial to Shard: reduce_scatter.     Shard to another Shard: all_to_all.
/// On a device, buffers are in its memory. An exchange starts after the work that is on its stream.
/// Shape:    any dimensions and cuts. Parts that are not contiguous in memory are packed.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
class SINEW_API Exchange {
 public:
  /// `what` names the exchange in errors, such as "gather". The placements of `tensor` itself are not used.
  /// Errors: InvalidArgument naming tensor and axis for a placement that the tensor cannot have, and for another pair
  ///         of placements than those above.
  Exchange(CallGroup group, std::string what, std::string axis, TensorSpec tensor, Placement from, Placement to,
           const ComputeDevice& device = {});
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// An exchange in flight. Its buffers belong to the exchange until get() returns. The destructor waits for its end.
  class [[nodiscard]] SINEW_API Underway {
   public:
    Underway(Exchange* of, Work work, Buffer out) noexcept : of_(of), work_(std::move(work)), out_(out) {}
    Underway(Underway&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), work_(std::move(other.work_)), out_(other.out_) {}
    Underway& operator=(Underway&&) = delete;
    ~Underway();
    /// Waits for the end.
    /// Errors: as the collectives.
    void get();

   private:
    Exchange* of_;  // null: it is over
    Work work_;
    Buffer out_;
  };

  /// Shape:  disjoint buffers of in_bytes() and out_bytes(). For a copy and an all_reduce they may be the same buffer.
  /// Errors: InvalidArgument before anything is sent, naming exchange, tensor, axis and rank. It is thrown for a
  ///         placement other than `from`, for a buffer of another length, and while the exchange is still in flight.
  Underway start(const PlacedInput& in, Buffer out, const CallOptions& options = {});
  void run(const PlacedInput& in, Buffer out, const CallOptions& options = {}) { start(in, out, options).get(); }

  std::size_t in_bytes() const noexcept { return bytes(in_[me()]); }
  std::size_t out_bytes() const noexcept { return bytes(out_[me()]); }
  const Placement& from() const noexcept { return from_; }
  const Placement& to() const noexcept { return to_; }
  /// Bytes that this rank sends to others, at least. 0 in a group of one rank.
  std::size_t sent_bytes() const noexcept;

 private:
  enum class Kind : std::uint8_t { Copy, AllReduce, AllGather, Keep, ReduceScatter, AllToAll };

  std::size_t me() const noexcept { return static_cast<std::size_t>(GroupPlace(*group_).rank); }
  std::size_t bytes(const Box& box) const noexcept {
    return static_cast<std::size_t>(box.elements()) * size_of(tensor_.dtype);
  }
  Kind kind_of_placements() const;
  void require(const PlacedInput& in, Buffer out) const;
  [[noreturn]] void complain(const std::string& why) const;
  void copy(ConstBuffer from, Buffer to);
  /// Copies a part from a buffer that holds `from_box` to one that holds `to_box`.
  void copy_part(const std::byte* from, const Box& from_box, std::byte* to, const Box& to_box, const Box& part);
  Work begin(ConstBuffer in, Buffer out, const CallOptions& options);
  Work all_to_all(ConstBuffer in, Buffer out, const CallOptions& options);
  /// Copies the received parts, which lie one behind the other, to their places in the output.
  void end(Buffer out);

  CallGroup group_;
  std::string what_, axis_;
  std::string label_;  // CallOptions::label of its calls
  TensorSpec tensor_;
  Placement from_, to_;
  ComputeDevice device_;
  std::vector<Box> in_, out_;  // by rank
  Kind kind_;
  bool packed_ = false, even_ = false;           // parts lie apart, all have one length
  Counts counts_, sends_;                        // elements by rank; for an all_to_all: received and sent
  PlacedArray<std::byte> sent_room_, got_room_;  // of what is packed
  bool underway_ = false;
};

}  // namespace sinew::parallel

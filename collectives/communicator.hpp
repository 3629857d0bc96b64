#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

#include <sinew/collectives/call_stats.hpp>
#include <sinew/collectives/element_range.hpp>
#include <sinew/collectives/memory.hpp>
#include <sinew/collectives/message.hpp>
#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

struct CommunicatorState;

/// A group of ranks that communicate. World and split() make communicators. They are move-only.
/// Order:    all ranks call the same collectives in the same order. Calls of different communicators may be in any
///           order.
/// Thread:   that of its World. With Threads::Multiple any thread may call, one at a time for each communicator.
/// Lifetime: ends before its World. The destructor waits for calls in flight.
/// Errors:   bad arguments throw Error{InvalidArgument} from the call. Later failures come through the Work: Mismatch,
///           PeerLost, Timeout, Aborted.
/// Shape:    counts are elements. The bytes of a buffer must be a multiple of the element size.
///           - In place: both buffers are the same pointer. For all_gather and gather, `in` is this rank's block of
///             `out` instead. For reduce_scatter and scatter, `out` is this rank's block of `in`.
///           - Otherwise the buffers must be disjoint.
///           - Only the root has the `out` of reduce and gather, and the `in` of scatter. Other ranks' arguments for
///             them are ignored.
///           - v-forms take a buffer with one part for each rank. Parts may have any length, also 0, and the buffer may
///             be longer than the parts need. Received parts must not overlap. Parts that reduce_scatter_v reads must
///             not overlap either.
/// Cost:     plan(desc).explain().
class SINEW_API Communicator {
 public:
  Communicator() noexcept;
  explicit Communicator(std::shared_ptr<CommunicatorState> state) noexcept;
  /// A rank's number and the size of a communicator that need not exist. Layers that are made with it have the
  /// parameters and the sizes of a layout without its ranks. It makes no calls: they throw InvalidArgument.
  /// Errors: InvalidArgument unless 0 <= rank < size.
  static Communicator planned(int rank, int size);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const noexcept;
  int size() const noexcept;
  /// Converts a rank of this communicator to its rank in the World. Errors show World ranks.
  int world_rank(int rank) const;
  /// The name and size that errors show, such as "tp of 2" or, for the World's communicator, "world of 8".
  std::string name() const;
  /// Names a rank of this communicator for an error message: "rank 5", or "rank 5 (1 in tp)" if the rank's number in
  /// this communicator is not 5.
  std::string rank_text(int rank) const;

  /// Combines `in` of all ranks by `op` into `out` on every rank.
  /// Shape: in.bytes == out.bytes, equal on all ranks.
  Work all_reduce(ConstBuffer in, Buffer out, DType dtype, ReduceOp op = ReduceOp::Sum, const CallOptions& = {});
  /// Puts the `in` of all ranks, in the order of the ranks, into `out` on every rank.
  /// Shape: out.bytes == size() * in.bytes.
  Work all_gather(ConstBuffer in, Buffer out, DType dtype, const CallOptions& = {});
  /// Combines `in` of all ranks by `op` and puts block r of the result into `out` of rank r.
  /// Shape: in.bytes == size() * out.bytes.
  Work reduce_scatter(ConstBuffer in, Buffer out, DType dtype, ReduceOp op = ReduceOp::Sum, const CallOptions& = {});
  /// Sends block j of `in` to rank j, and puts the block from rank i into block i of `out`.
  /// Shape: in.bytes == out.bytes, a multiple of size().
  Work all_to_all(ConstBuffer in, Buffer out, DType dtype, const CallOptions& = {});
  /// Copies `data` of the root into `data` of all other ranks.
  Work broadcast(Buffer data, DType dtype, int root, const CallOptions& = {});
  /// Combines `in` of all ranks by `op` into `out` of the root.
  /// Shape: at the root, out.bytes == in.bytes. In place: the root passes the same pointer.
  Work reduce(ConstBuffer in, Buffer out, DType dtype, int root, ReduceOp op = ReduceOp::Sum, const CallOptions& = {});
  /// Puts the `in` of all ranks, in the order of the ranks, into `out` of the root.
  /// Shape: at the root, out.bytes == size() * in.bytes.
  Work gather(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& = {});
  /// Puts block r of the root's `in` into `out` of rank r.
  /// Shape: at the root, in.bytes == size() * out.bytes.
  Work scatter(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& = {});
  /// The Work is done when all ranks have called barrier().
  Work barrier(const CallOptions& = {});

  /// all_gather() of parts that differ in length.
  /// Shape: `out_parts` has the counts of all ranks, equal on all ranks. Its displacements are this rank's own choice.
  ///        in.bytes is the length of this rank's part.
  Work all_gather_v(ConstBuffer in, Buffer out, DType dtype, const Parts& out_parts, const CallOptions& = {});
  /// reduce_scatter() into parts that differ in length.
  /// Shape: `in_parts` is like out_parts of all_gather_v(). out.bytes is the length of this rank's part.
  Work reduce_scatter_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, ReduceOp op = ReduceOp::Sum,
                        const CallOptions& = {});
  /// Sends part j of `in` to rank j, and puts the part from rank i into part i of `out`.
  /// Shape:  the counts are this rank's own: how much it sends to each rank, and how much it expects from each rank. In
  ///         place: the same pointer, and in_parts equals out_parts.
  /// Errors: Mismatch, with both ranks and counts, if a rank sends another count than its peer expects. NCCL compares
  ///         no counts: there, the call ends at its deadline or gives wrong data.
  /// Cost:   the algorithm is chosen without the counts. CallOptions::largest_bytes, equal on all ranks, helps the
  ///         choice. Across hosts, a call of few bytes sends one message for the blocks of a whole host. Then a rank
  ///         holds the blocks that pass through it, up to all that its host sends to one rank of each other host.
  Work all_to_all_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, const Parts& out_parts,
                    const CallOptions& = {});
  /// gather() of parts that differ in length. Only the root passes `out_parts`. Errors and cost: see all_to_all_v().
  Work gather_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& out_parts, const CallOptions& = {});
  /// scatter() of parts that differ in length. Only the root passes `in_parts`. Errors and cost: see all_to_all_v().
  Work scatter_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& in_parts, const CallOptions& = {});

  /// The next five functions take a separate buffer for each rank, in the order of the ranks, and do not copy them into
  /// one. If one rank calls the form with lists, all ranks must call it.
  /// Shape: buffers may differ in length. They are host memory, and their addresses differ by multiples of an element.
  ///        In place, the single buffer is this rank's own buffer of the list, or both lists of all_to_all() are equal.
  ///        Otherwise a buffer that is written shares no byte with another buffer.
  /// all_gather() puts the `in` of rank r into outs[r]. Lengths are equal on all ranks. outs[rank()].bytes == in.bytes.
  Work all_gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, const CallOptions& = {});
  /// Combines the ins[r] of all ranks into `out` of rank r. Lengths are equal on all ranks.
  /// ins[rank()].bytes == out.bytes.
  Work reduce_scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, ReduceOp op = ReduceOp::Sum,
                      const CallOptions& = {});
  /// Sends ins[r] to rank r and puts the data from rank r into outs[r]. Lengths are this rank's own, see
  /// all_to_all_v().
  Work all_to_all(std::span<const ConstBuffer> ins, std::span<const Buffer> outs, DType dtype, const CallOptions& = {});
  /// Puts the `in` of rank r into outs[r] of the root. Only the root has `outs`.
  Work gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, int root, const CallOptions& = {});
  /// Sends ins[r] of the root to `out` of rank r. Only the root has `ins`.
  Work scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, int root, const CallOptions& = {});

  /// Sends a message to a rank. Messages of a pair of ranks with the same tag are received in the order of the sends.
  /// The Work is done when the buffer may be reused. A rank may send to itself. Then the send of more than 64 KiB is
  /// done when its receive is done.
  Work send(ConstBuffer from, int to_rank, std::uint32_t tag = 0, const CallOptions& = {});
  /// Receives a message from a rank. It ends with Truncated if the message is longer than the buffer.
  Work recv(Buffer to, int from_rank, std::uint32_t tag = 0, const CallOptions& = {});
  /// Receives the next message with this tag from any rank. Work::source() tells the rank.
  /// Order: a recv() of the same tag that was posted earlier takes the message of its rank first.
  /// Cost:  that of recv(). While the call is pending, the messages of all ranks are searched.
  Work recv_any(Buffer to, std::uint32_t tag = 0, const CallOptions& = {});
  /// Sends a message and receives another one at the same time, with the same rank or with two ranks. It cannot
  /// deadlock, even if all ranks call it at the same time.
  Work sendrecv(ConstBuffer from, int to_rank, Buffer to, int from_rank, std::uint32_t send_tag = 0,
                std::uint32_t recv_tag = 0, const CallOptions& = {});
  /// Starts several sends and receives together, as ncclGroupStart and ncclGroupEnd do. The Work is done when all have
  /// ended. It ends with the first failure. Peers may use send(), recv() or group() for their side.
  Work group(std::span<const Message> messages, const CallOptions& = {});
  Work group(std::initializer_list<Message> messages, const CallOptions& options = {}) {
    return group(std::span(messages.begin(), messages.size()), options);
  }

  /// Makes the call that `plan` describes. It saves the time to look up the plan of a call that repeats. Several calls
  /// of one plan may be in flight. Operator, dtype and determinism are those of the plan, whatever the options.
  /// Shape:  the buffers are those that the collective takes. A broadcast takes `out` alone.
  /// Errors: InvalidArgument if the plan is not of this communicator, or is of messages or of a call with local counts.
  ///         Also if the plan's dtype is not that of a range's elements; std::byte goes with any dtype.
  Work run(const Plan& plan, ConstBuffer in, Buffer out, const CallOptions& = {});

  template <WritableElements R>
  Work all_reduce(R&& data, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    const Buffer b = buffer_of(data);
    return all_reduce(b, b, dtype_of<R>(), op, options);
  }
  template <ElementRange I, WritableElements O>
  Work all_reduce(const I& in, O&& out, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    return all_reduce(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), op, options);
  }
  template <ElementRange I, WritableElements O>
  Work all_gather(const I& in, O&& out, const CallOptions& options = {}) {
    return all_gather(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), options);
  }
  template <ElementRange I, WritableElements O>
  Work reduce_scatter(const I& in, O&& out, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    return reduce_scatter(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), op, options);
  }
  template <ElementRange I, WritableElements O>
  Work all_to_all(const I& in, O&& out, const CallOptions& options = {}) {
    return all_to_all(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), options);
  }
  template <WritableElements R>
  Work broadcast(R&& data, int root, const CallOptions& options = {}) {
    return broadcast(buffer_of(data), dtype_of<R>(), root, options);
  }
  /// In place at the root.
  template <WritableElements R>
  Work reduce(R&& data, int root, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    const Buffer b = buffer_of(data);
    return reduce(b, b, dtype_of<R>(), root, op, options);
  }
  template <ElementRange I, WritableElements O>
  Work reduce(const I& in, O&& out, int root, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    return reduce(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), root, op, options);
  }
  template <ElementRange I, WritableElements O>
  Work gather(const I& in, O&& out, int root, const CallOptions& options = {}) {
    return gather(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), root, options);
  }
  template <ElementRange I, WritableElements O>
  Work scatter(const I& in, O&& out, int root, const CallOptions& options = {}) {
    return scatter(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), root, options);
  }
  template <ElementRange I, WritableElements O>
  Work all_gather_v(const I& in, O&& out, const Parts& out_parts, const CallOptions& options = {}) {
    return all_gather_v(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), out_parts, options);
  }
  template <ElementRange I, WritableElements O>
  Work reduce_scatter_v(const I& in, O&& out, const Parts& in_parts, ReduceOp op = ReduceOp::Sum,
                        const CallOptions& options = {}) {
    return reduce_scatter_v(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), in_parts, op, options);
  }
  template <ElementRange I, WritableElements O>
  Work all_to_all_v(const I& in, O&& out, const Parts& in_parts, const Parts& out_parts,
                    const CallOptions& options = {}) {
    return all_to_all_v(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), in_parts, out_parts, options);
  }
  template <ElementRange I, WritableElements O>
  Work gather_v(const I& in, O&& out, int root, const Parts& out_parts, const CallOptions& options = {}) {
    return gather_v(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), root, out_parts, options);
  }
  template <ElementRange I, WritableElements O>
  Work scatter_v(const I& in, O&& out, int root, const Parts& in_parts, const CallOptions& options = {}) {
    return scatter_v(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), root, in_parts, options);
  }
  template <PlainRange I, WritableRange O>
  Work sendrecv(const I& from, int to_rank, O&& to, int from_rank, std::uint32_t send_tag = 0,
                std::uint32_t recv_tag = 0, const CallOptions& options = {}) {
    return sendrecv(const_buffer_of(from), to_rank, buffer_of(to), from_rank, send_tag, recv_tag, options);
  }
  template <PlainRange R>
  Work send(const R& from, int to_rank, std::uint32_t tag = 0, const CallOptions& options = {}) {
    return send(const_buffer_of(from), to_rank, tag, options);
  }
  template <WritableRange R>
  Work recv(R&& to, int from_rank, std::uint32_t tag = 0, const CallOptions& options = {}) {
    return recv(buffer_of(to), from_rank, tag, options);
  }
  template <WritableRange R>
  Work recv_any(R&& to, std::uint32_t tag = 0, const CallOptions& options = {}) {
    return recv_any(buffer_of(to), tag, options);
  }
  template <PlainRange I, WritableRange O>
  Work run(const Plan& plan, const I& in, O&& out, const CallOptions& options = {}) {
    require_element<I>(plan, "in");
    require_element<O>(plan, "out");
    return run(plan, const_buffer_of(in), buffer_of(out), options);
  }

  /// Returns the plan of a call, for run() or to be explained, without running the call. It exchanges no messages. The
  /// plan is equal on all ranks.
  Plan plan(const CollectiveDesc& desc) const;

  /// Makes a new communicator of the ranks with the same `color`, in the order of `key`, then of rank. A rank whose
  /// color is below 0 gets an empty communicator of size 0. Collective over this communicator.
  /// `name` is the new communicator's name in errors. It has at most 47 characters and must be equal on all ranks of
  /// the new communicator. If it is empty, the name is made of the color and the caller's line: "split 1 at
  /// train.cpp:30".
  /// Errors: if this communicator has ended: its reason. With NCCL a rank that fails to split ends this communicator
  ///         and the new ones.
  Communicator split(int color, int key = 0, const CallOptions& = {}, std::string_view name = {});

  /// Allocates `bytes` bytes of device memory on every rank, registered for calls of this communicator. With NCCL 2.27
  /// and later it is a symmetric window. With NCCL 2.19 and later it is registered memory. Otherwise it is plain device
  /// memory. Memory::known_as() tells which, and why. For other communicators it is plain device memory.
  /// Shape:    all ranks of a call use such memory, at the same offset, or none does.
  /// Lifetime: may outlive the communicator, but not the World. It is freed with the Memory, or in the next call or
  ///           wait.
  /// Errors:   InvalidArgument if the ranks ask for different sizes. Unavailable on all ranks if one rank, which the
  ///           message names, has no device or too little memory. If the communicator has ended: its reason.
  /// Cost:     collective over this communicator. Two rounds on the host, and the time in which NCCL maps the memory.
  Memory allocate(std::size_t bytes, const CallOptions& = {});

  /// Chooses the priority of the streams on which this communicator's calls run on its device. Each communicator has
  /// streams of its own, so that calls of different communicators overlap. A call on a High stream, such as a short
  /// one of tensor parallelism, does not wait behind the blocks of a long one on a Normal stream. Default: Normal.
  /// Local: ranks may choose differently.
  /// Errors: InvalidArgument if this communicator has made calls on device memory.
  void set_stream_priority(StreamPriority priority);

  /// Ends all pending and later calls of this communicator on all its ranks. They end with Aborted, this rank's number
  /// and `reason`. Does nothing if the communicator has already ended. To forward another abort, give its text as
  /// `reason`: the text and the rank that first aborted then stay the same.
  void abort(const std::string& reason);

  /// Ends all pending and later calls of this rank alone, with Aborted and `reason`. Never waits. A call of another
  /// rank that needs this rank ends up to a second later, with Aborted and this rank's number. A call to which this
  /// rank has already contributed ends as usual. If no rank can use the communicator any more, call abort() instead:
  /// the other ranks learn of it sooner.
  void abort_here(const std::string& reason);

  /// Ends the World of this communicator on all its ranks because a user's callback threw. Call it in the handler of
  /// that exception. Without it, the other ranks would wait for a rank that no longer makes the expected calls.
  /// The calls of all ranks end with this rank's number, `doing` (which may be empty) and the text of the exception. If
  /// the exception forwards another abort, they end with that abort's text, see abort().
  /// The code is PeerLost if the exception is an Error with that code, so that survivors can shrink; otherwise it is
  /// Aborted. Does nothing if the World has already ended or if this communicator is empty.
  void abort_world_by_exception(std::string_view doing) const noexcept;

  /// Says in words why the oldest call that waits has not ended: which rank is late, where it is, and since when. Empty
  /// if no call waits.
  std::string verdict() const;

  /// Returns how long the calls so far took, which rank they waited for, and how long they were predicted to take. Sums
  /// are of all calls of this rank. The other figures are of the latest 2,048 calls that all ranks still know. The
  /// calls by which stats() itself gathers them are not counted. Needs Config::time_calls (SINEW_STATS=1) or
  /// SINEW_TRACE.
  /// Errors: Unavailable on all ranks if one rank, which the message names, does not time its calls. If the
  ///         communicator has ended: its reason.
  /// Cost:   collective over this communicator. Each rank sends up to 48 KiB to every rank.
  CommunicatorStats stats(const CallOptions& = {});

  /// The bytes of buffers that this rank holds for the communicator, with the scratch that all calls of the World
  /// share.
  /// Errors: InvalidArgument in a fork's child.
  std::size_t memory_bytes() const;

 private:
  /// Errors: InvalidArgument if this object is empty, or if this process was forked since it was made.
  CommunicatorState& state() const;
  template <class R>
  static void require_element(const Plan& plan, const char* which) {
    using Element = std::remove_cv_t<std::ranges::range_value_t<R>>;
    if constexpr (ElementRange<R> && !std::same_as<Element, std::byte>) require_dtype(plan, which, kDTypeOf<Element>);
  }
  static void require_dtype(const Plan& plan, const char* which, DType given);
  template <class R>
  static constexpr DType dtype_of() noexcept {
    return kDTypeOf<std::ranges::range_value_t<R>>;
  }
  template <class I, class O>
  static constexpr DType same_dtype() noexcept {
    static_assert(dtype_of<I>() == dtype_of<O>(), "both ranges must have the same element type");
    return dtype_of<I>();
  }

  std::shared_ptr<CommunicatorState> state_;
  int planned_rank_ = -1, planned_size_ = 0;  // if there is no state: of a communicator that is only planned
};

}  // namespace sinew

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
#include <sinew/core/work.hpp>

namespace sinew {

struct CommunicatorState;

/// A group of ranks that communicate. Move-only; made by World and by split.
/// Order:    all its ranks call the same collectives in the same order; across communicators any order.
/// Thread:   as its World; with Threads::Multiple any thread, one at a time for each communicator.
/// Lifetime: ends before its World. The destructor drains what is in flight.
/// Errors:   bad arguments throw Error{InvalidArgument} on the spot; what goes wrong in flight comes through the Work:
///           Mismatch, PeerLost, Timeout, Aborted.
/// Shape:    counts are elements; a buffer's bytes must be a multiple of the element size. In place means the same
///           pointer for both buffers, or, for all_gather and gather, `in` lying at its place in `out`, and for
///           reduce_scatter and scatter, `out` lying at its place in `in`. Otherwise the buffers must be disjoint.
///           A buffer that a rank does not have (the `out` of reduce and gather, the `in` of scatter away from the
///           root) is not looked at. v-forms take a buffer with one part per rank, of any lengths, 0 included; it may
///           be longer than they need, and received parts must not overlap, nor those that a reduce_scatter_v reads.
/// Cost:     plan(desc).explain().
class SINEW_API Communicator {
 public:
  Communicator() noexcept;
  explicit Communicator(std::shared_ptr<CommunicatorState> state) noexcept;
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

  /// Sums (or combines by `op`) `in` over all ranks into `out` on every rank. in.bytes == out.bytes, equal on all
  /// ranks.
  Work all_reduce(ConstBuffer in, Buffer out, DType dtype, ReduceOp op = ReduceOp::Sum, const CallOptions& = {});
  /// Every rank's `in`, in rank order, in every rank's `out`. out.bytes == size() * in.bytes.
  Work all_gather(ConstBuffer in, Buffer out, DType dtype, const CallOptions& = {});
  /// Block r of the combination of all `in` on rank r. in.bytes == size() * out.bytes.
  Work reduce_scatter(ConstBuffer in, Buffer out, DType dtype, ReduceOp op = ReduceOp::Sum, const CallOptions& = {});
  /// Block j of `in` goes to rank j; block i of `out` came from rank i. in.bytes == out.bytes, a multiple of size().
  Work all_to_all(ConstBuffer in, Buffer out, DType dtype, const CallOptions& = {});
  /// `data` of the root replaces `data` of all others.
  Work broadcast(Buffer data, DType dtype, int root, const CallOptions& = {});
  /// As all_reduce, but only the root has `out`, of in.bytes. In place at the root: the same pointer.
  Work reduce(ConstBuffer in, Buffer out, DType dtype, int root, ReduceOp op = ReduceOp::Sum, const CallOptions& = {});
  /// Every rank's `in`, in rank order, in `out` of the root: size() * in.bytes.
  Work gather(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& = {});
  /// Block r of the root's `in`, of size() * out.bytes, in `out` of rank r.
  Work scatter(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& = {});
  /// Returns (is done) on no rank before all ranks have called it.
  Work barrier(const CallOptions& = {});

  /// all_gather of parts that differ in length. `out_parts`: all ranks' counts, equal on all of them; displacements are
  /// this rank's own. in.bytes is that of this rank's part.
  Work all_gather_v(ConstBuffer in, Buffer out, DType dtype, const Parts& out_parts, const CallOptions& = {});
  /// reduce_scatter into parts that differ in length. `in_parts`: as out_parts of all_gather_v. out.bytes is that of
  /// this rank's part.
  Work reduce_scatter_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, ReduceOp op = ReduceOp::Sum,
                        const CallOptions& = {});
  /// Part j of `in` goes to rank j; part i of `out` came from rank i. Counts are this rank's own: what it sends to j,
  /// and what it expects of i. In place: the same pointer, and in_parts equal to out_parts.
  /// Errors: Mismatch naming both ranks and counts if a rank sends another count than its peer expects; over NCCL,
  ///         which compares none, the call does not end before its deadline or gives wrong data.
  /// Cost:   chosen without knowing the counts; CallOptions::largest_bytes, equal on all ranks, makes it know better.
  Work all_to_all_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, const Parts& out_parts,
                    const CallOptions& = {});
  /// gather of parts that differ in length; only the root gives `out_parts`. Errors and cost as all_to_all_v.
  Work gather_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& out_parts, const CallOptions& = {});
  /// scatter of parts that differ in length; only the root gives `in_parts`. Errors and cost as all_to_all_v.
  Work scatter_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& in_parts, const CallOptions& = {});

  /// The next five functions take a separate buffer for each rank, in the order of the ranks, and make no copies. If
  /// one rank calls the form with lists, all ranks do.
  /// Shape:  buffers may differ in length. They are host memory, and their addresses differ by multiples of an
  ///         element. In place, the single buffer is this rank's own buffer of the list. all_to_all is in place with
  ///         two equal lists.
  ///         Otherwise a buffer that is written shares no byte with another buffer.
  /// all_gather: outs[r] takes what rank r gives. Lengths are equal on all ranks. outs[rank()].bytes == in.bytes.
  Work all_gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, const CallOptions& = {});
  /// The combination of all ranks' ins[r] on rank r. Lengths are equal on all ranks. ins[rank()].bytes == out.bytes.
  Work reduce_scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, ReduceOp op = ReduceOp::Sum,
                      const CallOptions& = {});
  /// ins[r] goes to rank r; outs[r] came from it. Lengths are this rank's own, as for all_to_all_v.
  Work all_to_all(std::span<const ConstBuffer> ins, std::span<const Buffer> outs, DType dtype, const CallOptions& = {});
  /// outs[r] of the root takes what rank r gives. Only the root has `outs`.
  Work gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, int root, const CallOptions& = {});
  /// ins[r] of the root goes to rank r. Only the root has `ins`.
  Work scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, int root, const CallOptions& = {});

  /// Point to point. Messages of a pair and tag arrive in the order of the sends; a longer message than the buffer
  /// ends the receive with Truncated. The send is done when the buffer may be reused. A rank may send to itself: the
  /// send of more than 64 KiB is then done when the receive is.
  Work send(ConstBuffer from, int to_rank, std::uint32_t tag = 0, const CallOptions& = {});
  Work recv(Buffer to, int from_rank, std::uint32_t tag = 0, const CallOptions& = {});
  /// Receives the next message with this tag from whichever rank sends one first; Work::source() names the rank.
  /// Order:  a recv() of the same tag that was posted earlier takes its rank's message first.
  /// Cost:   as recv(). While the call is pending, every rank's messages are looked at.
  Work recv_any(Buffer to, std::uint32_t tag = 0, const CallOptions& = {});
  /// A send and a receive that are in flight together, to and from the same rank or two. Does not wait for itself,
  /// whatever all ranks do at the same time.
  Work sendrecv(ConstBuffer from, int to_rank, Buffer to, int from_rank, std::uint32_t send_tag = 0,
                std::uint32_t recv_tag = 0, const CallOptions& = {});
  /// Any sends and receives that are in flight together and end as one Work: with the first failure, when all are over.
  /// What ncclGroupStart and ncclGroupEnd are for, without a state between them. Matches send and recv of others.
  Work group(std::span<const Message> messages, const CallOptions& = {});
  Work group(std::initializer_list<Message> messages, const CallOptions& options = {}) {
    return group(std::span(messages.begin(), messages.size()), options);
  }

  /// Makes the call that `plan`, of this communicator, describes, without looking for its plan: for calls that repeat.
  /// Buffers as the call of that name takes them; `out` alone for a broadcast. Several may be in flight. What the plan
  /// says (operator, dtype, determinism) holds, whatever the options.
  /// Errors: InvalidArgument where the plan is another communicator's, or of one that has gone, or of messages or
  ///         local counts, which belong to each call; or of another dtype than a range's elements (std::byte: any).
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

  /// What would run for a call, without running it; and what run() takes. Communicates nothing; equal on all ranks.
  Plan plan(const CollectiveDesc& desc) const;

  /// New communicators of the ranks with equal color, ordered by key, then by rank. color < 0: none (an empty
  /// communicator of size 0). Collective over this communicator.
  /// name: the new communicator's name in errors. It has at most 47 characters and must be equal on all ranks of the
  /// new communicator. If it is empty, the name is made of the color and the caller's line: "split 1 at train.cpp:30".
  /// Errors: what ended this one. With NCCL a rank that fails to split ends this communicator and the new ones.
  Communicator split(int color, int key = 0, const CallOptions& = {}, std::string_view name = {});

  /// Device memory of `bytes` bytes on every rank that calls of this communicator take without copies where something
  /// below can: with NCCL a symmetric window (2.27 and later) or a registration (2.19 and later), else plain memory;
  /// Memory::known_as() says which, and why. For other communicators it is memory like any other.
  /// Shape:    a call is given such memory on all its ranks or on none, and at the same offset on all.
  /// Lifetime: may outlive the communicator, not the World. Goes when the Memory does, or in the next call or wait.
  /// Errors:   InvalidArgument where the ranks ask for different sizes; Unavailable on all ranks where one has no
  ///           device or too little memory, naming it; what ended the communicator where that did.
  /// Cost:     collective over this communicator; two rounds on the host, and what NCCL takes to map the memory.
  Memory allocate(std::size_t bytes, const CallOptions& = {});

  /// Ends all pending and later calls of this communicator, on all its ranks, with Aborted, this rank's number and
  /// `reason`. Does nothing if the communicator has already ended. To forward another abort, give its text as `reason`:
  /// the text and the rank that first aborted then stay the same.
  void abort(const std::string& reason);

  /// Ends all pending and later calls of this rank alone, with Aborted and `reason`. Never waits. A call of another
  /// rank that needs this rank ends up to a second later, with Aborted and this rank's number. A call to which this
  /// rank has already contributed ends as usual. Where no rank can use the communicator any more, abort() tells the
  /// others sooner.
  void abort_here(const std::string& reason);

  /// Ends the World of this communicator on all its ranks because a user's callback threw. Call it in the handler of
  /// that exception. Without it, the other ranks would wait for a rank that no longer makes the expected calls.
  /// The calls of all ranks end with this rank's number, `doing` (which may be empty) and the text of the exception. If
  /// the exception forwards another abort, they end with that abort's text, as in abort().
  /// The code is PeerLost if the exception is an Error with that code, so that survivors can shrink; otherwise it is
  /// Aborted. Does nothing if the World has already ended or if this communicator is empty.
  void abort_world_by_exception(std::string_view doing) const noexcept;

  /// What keeps the oldest call that waits from its end, in words: which rank is late, where it is, since when. Empty
  /// where nothing waits.
  std::string verdict() const;

  /// What the calls so far have taken, waited for whom, against what was predicted: of Config::time_calls
  /// (SINEW_STATS=1) or SINEW_TRACE. Sums are of all calls of this rank; the rest is of the latest 2,048 calls, as far
  /// as all ranks keep them. Its own calls are not counted.
  /// Errors: Unavailable, on all ranks, where one does not time its calls, naming it; what ended the communicator.
  /// Cost:   collective over this communicator: up to 48 KiB of every rank to every rank.
  CommunicatorStats stats(const CallOptions& = {});

  /// Bytes of buffers held for this communicator on this rank, with the scratch that the calls of its World share.
  std::size_t memory_bytes() const;

 private:
  /// Errors: InvalidArgument where this one is empty, or the process a fork of the one that made it.
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
};

}  // namespace sinew

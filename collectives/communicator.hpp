#pragma once

#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>

#include <sinew/collectives/plan.hpp>
#include <sinew/core/call_options.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

struct CommunicatorState;

/// A contiguous range of elements of a known dtype.
template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       requires { DTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>::value; };

/// A group of ranks that communicate. Move-only; made by World and by split.
/// Order:    all its ranks call the same collectives in the same order; across communicators any order.
/// Thread:   the World's thread; with Drive::Thread any one thread at a time.
/// Lifetime: ends before its World. The destructor drains what is in flight.
/// Errors:   bad arguments throw Error{InvalidArgument} on the spot; what goes wrong in flight comes through the Work:
///           Mismatch, PeerLost, Timeout, Aborted.
/// Shape:    counts are elements; a buffer's bytes must be a multiple of the element size. In place means the same
///           pointer for both buffers, or, for all_gather, `in` lying at its place in `out`, and for reduce_scatter,
///           `out` lying at its place in `in`. Otherwise the buffers must be disjoint.
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
  /// Returns (is done) on no rank before all ranks have called it.
  Work barrier(const CallOptions& = {});

  /// Point to point. Messages of a pair and tag arrive in the order of the sends; a longer message than the buffer
  /// ends the receive with Truncated. The send is done when the buffer may be reused.
  Work send(ConstBuffer from, int to_rank, std::uint32_t tag = 0, const CallOptions& = {});
  Work recv(Buffer to, int from_rank, std::uint32_t tag = 0, const CallOptions& = {});

  template <ElementRange R>
  Work all_reduce(R&& data, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    const Buffer b = buffer_of(data);
    return all_reduce(b, b, dtype_of<R>(), op, options);
  }
  template <ElementRange I, ElementRange O>
  Work all_reduce(const I& in, O&& out, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    return all_reduce(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), op, options);
  }
  template <ElementRange I, ElementRange O>
  Work all_gather(const I& in, O&& out, const CallOptions& options = {}) {
    return all_gather(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), options);
  }
  template <ElementRange I, ElementRange O>
  Work reduce_scatter(const I& in, O&& out, ReduceOp op = ReduceOp::Sum, const CallOptions& options = {}) {
    return reduce_scatter(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), op, options);
  }
  template <ElementRange I, ElementRange O>
  Work all_to_all(const I& in, O&& out, const CallOptions& options = {}) {
    return all_to_all(const_buffer_of(in), buffer_of(out), same_dtype<I, O>(), options);
  }
  template <ElementRange R>
  Work broadcast(R&& data, int root, const CallOptions& options = {}) {
    return broadcast(buffer_of(data), dtype_of<R>(), root, options);
  }
  template <ElementRange R>
  Work send(const R& from, int to_rank, std::uint32_t tag = 0, const CallOptions& options = {}) {
    return send(const_buffer_of(from), to_rank, tag, options);
  }
  template <ElementRange R>
  Work recv(R&& to, int from_rank, std::uint32_t tag = 0, const CallOptions& options = {}) {
    return recv(buffer_of(to), from_rank, tag, options);
  }

  /// What would run for a call, without running it. Communicates nothing; equal on all ranks.
  Plan plan(const CollectiveDesc& desc) const;

  /// New communicators of the ranks with equal color, ordered by key, then by rank. color < 0: none (an empty
  /// communicator of size 0). Collective over this communicator.
  Communicator split(int color, int key = 0, const CallOptions& = {});

  /// Ends all pending and later calls of this communicator, on all its ranks, with Aborted and this reason, unless it
  /// has ended for another before.
  void abort(const std::string& reason);

  /// What keeps the oldest call that waits from its end, in words: which rank is late, where it is, since when. Empty
  /// where nothing waits.
  std::string verdict() const;

  /// Bytes of buffers held for this communicator on this rank.
  std::size_t memory_bytes() const;

 private:
  /// Errors: InvalidArgument where this one is empty, or the process a fork of the one that made it.
  CommunicatorState& state() const;
  template <class R>
  static constexpr DType dtype_of() noexcept {
    return kDTypeOf<std::ranges::range_value_t<R>>;
  }
  template <class I, class O>
  static constexpr DType same_dtype() noexcept {
    static_assert(dtype_of<I>() == dtype_of<O>(), "both ranges must have the same element type");
    return dtype_of<I>();
  }
  template <class R>
  static Buffer buffer_of(R&& r) noexcept {
    return {reinterpret_cast<std::byte*>(std::ranges::data(r)), std::ranges::size(r) * size_of(dtype_of<R>())};
  }
  template <class R>
  static ConstBuffer const_buffer_of(const R& r) noexcept {
    return {reinterpret_cast<const std::byte*>(std::ranges::data(r)), std::ranges::size(r) * size_of(dtype_of<R>())};
  }

  std::shared_ptr<CommunicatorState> state_;
};

}  // namespace sinew

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/call/collective.hpp>

// What a communicator asks of its caller's arguments, and the description it makes of them. A bad one throws
// Error{InvalidArgument} that names the call, the argument, what was found and what was expected. What throws stands
// apart from the checks, which every call pays for.
namespace sinew::arguments {

[[noreturn]] SINEW_API void reject_multiple(std::string_view call, std::string_view name, std::size_t bytes, DType);
[[noreturn]] SINEW_API void reject_bytes(std::string_view call, std::string_view name, std::size_t found,
                                         std::size_t expected);
[[noreturn]] SINEW_API void reject_buffer(std::string_view call, std::string_view name, ConstBuffer found);
[[noreturn]] SINEW_API void reject_places(std::string_view call, Place in, Place out);
[[noreturn]] SINEW_API void reject_dtype(std::string_view call, DType dtype);
[[noreturn]] SINEW_API void reject_overlap(std::string_view call, std::string_view how);
[[noreturn]] SINEW_API void reject_operator(std::string_view call, ReduceOp op, DType dtype);
[[noreturn]] SINEW_API void reject_user(std::string_view call, const Reducer* found, DType dtype);
[[noreturn]] SINEW_API void reject_rank(std::string_view call, std::string_view what, int rank, int size);
[[noreturn]] SINEW_API void reject_small(std::string_view call, std::string_view name, std::size_t found,
                                         std::size_t expected);
[[noreturn]] SINEW_API void reject_overflow(std::string_view call, std::uint64_t count, std::uint64_t blocks, DType);
[[noreturn]] SINEW_API void reject_entries(std::string_view call, std::string_view name, std::string_view what,
                                           std::size_t found, int ranks);
[[noreturn]] SINEW_API void reject_part(std::string_view call, std::string_view name, std::size_t part,
                                        std::uint64_t first, std::uint64_t count, std::uint64_t most);
[[noreturn]] SINEW_API void reject_parts_overlap(std::string_view call, std::string_view name, std::size_t a,
                                                 std::size_t b, const Parts& parts);
[[noreturn]] SINEW_API void reject_unequal_parts(std::string_view call, std::size_t part, std::uint64_t in,
                                                 std::uint64_t out, std::string_view what);
/// A rank's own part on its two sides.
[[noreturn]] SINEW_API void reject_own_part(std::string_view call, std::string_view name, std::uint64_t elements,
                                            std::string_view other, std::uint64_t count);
[[noreturn]] SINEW_API void reject_plan(std::string_view why);
[[noreturn]] SINEW_API void reject_determinism(std::string_view call, Determinism level);
[[noreturn]] SINEW_API void reject_coded(std::string_view call, Codec codec, std::string_view why);
/// Errors: what its codec asks of a call is not so.
SINEW_API void check_codec(const CollectiveDesc& desc);
[[noreturn]] SINEW_API void reject_division(std::string_view call, std::uint64_t total, std::uint64_t ranks);

/// Parts have an entry for each rank.
void require_one_per_rank(std::string_view call, std::string_view name, const Parts& parts, int ranks);
/// Where this rank's own part begins.
std::uint64_t own_place(const Parts& parts, int rank);
/// Of a call in place: both sides have the same parts.
void require_equal_parts(std::string_view call, const Parts& in, const Parts& out);

/// Memory that can be there.
inline void require_memory(std::string_view call, std::string_view name, ConstBuffer b) {
  const bool fine = (b.data != nullptr || b.bytes == 0) && b.bytes <= PTRDIFF_MAX;
  if (!fine) reject_buffer(call, name, b);
}

/// Elements in a buffer.
inline std::uint64_t elements(std::string_view call, std::string_view name, ConstBuffer b, DType dtype) {
  require_memory(call, name, b);
  if (static_cast<std::size_t>(dtype) >= kDTypeCount) reject_dtype(call, dtype);
  const std::size_t each = size_of(dtype);  // a power of two
  if ((b.bytes & (each - 1)) != 0) reject_multiple(call, name, b.bytes, dtype);
  return b.bytes >> std::countr_zero(each);
}

inline void require_bytes(std::string_view call, std::string_view name, ConstBuffer b, std::size_t expected) {
  require_memory(call, name, b);
  if (b.bytes != expected) reject_bytes(call, name, b.bytes, expected);
}

/// Where the call's buffers lie: both on the host, or both on a device.
inline Place common_place(std::string_view call, ConstBuffer in, ConstBuffer out) {
  const bool device = in.place.kind == MemoryKind::Device;
  if (device != (out.place.kind == MemoryKind::Device)) reject_places(call, in.place, out.place);
  return device ? in.place : Place{};
}

inline void require_disjoint(std::string_view call, ConstBuffer a, ConstBuffer b,
                             std::string_view how = "in and out overlap without being in place") {
  const bool apart = a.bytes == 0 || b.bytes == 0 || a.data + a.bytes <= b.data || b.data + b.bytes <= a.data;
  if (!apart) reject_overlap(call, how);
}

/// Inlined always: all_reduce of a few bytes is that short.
[[gnu::always_inline]] inline void require_defined(std::string_view call, ReduceOp op, DType dtype,
                                                   const CallOptions& options) {
  if (op == ReduceOp::User) {
    const Reducer* user = options.user;
    if (user == nullptr || user->fn == nullptr || user->element_bytes != size_of(dtype)) reject_user(call, user, dtype);
  } else if (static_cast<std::size_t>(op) >= kReduceOpCount || !is_defined(op, dtype)) {
    reject_operator(call, op, dtype);
  }
}

inline void require_rank(std::string_view call, std::string_view what, int rank, int size) {
  if (rank < 0 || rank >= size) reject_rank(call, what, rank, size);
}

inline void require_codec(const CollectiveDesc& desc) {
  if (desc.determinism > Determinism::LayoutInvariant) [[unlikely]]
    reject_determinism(name_of(desc.collective), desc.determinism);
  if (desc.codec != Codec::None) [[unlikely]]
    check_codec(desc);
}

inline CollectiveDesc describe(Collective c, DType dtype, Place place, std::uint64_t count,
                               const CallOptions& options) {
  CollectiveDesc d;
  d.collective = c;
  d.place = place;
  d.dtype = dtype;
  d.count = count;
  d.determinism = options.determinism;
  d.codec = options.codec;
  return d;
}

inline CollectiveDesc describe(Collective c, DType dtype, Place place, std::uint64_t count, ReduceOp op,
                               const CallOptions& options) {
  CollectiveDesc d = describe(c, dtype, place, count, options);
  d.op = op;
  if (op == ReduceOp::PreMulSum) d.pre_multiply = options.pre_multiply;
  if (op == ReduceOp::User) d.user = options.user;
  return d;
}

inline CollectiveDesc all_reduce(ConstBuffer in, Buffer out, DType dtype, ReduceOp op, const CallOptions& options) {
  const std::uint64_t count = elements("all_reduce", "in", in, dtype);
  require_bytes("all_reduce", "out", out, in.bytes);
  require_defined("all_reduce", op, dtype, options);
  if (in.data != out.data) require_disjoint("all_reduce", in, out);
  return describe(Collective::AllReduce, dtype, common_place("all_reduce", in, out), count, op, options);
}

}  // namespace sinew::arguments

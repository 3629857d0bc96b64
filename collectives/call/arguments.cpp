#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/core/error.hpp>

namespace sinew::arguments {
namespace {

[[noreturn]] void reject(std::string_view call, const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", call, why));
}

}  // namespace

void reject_multiple(std::string_view call, std::string_view name, std::size_t bytes, DType dtype) {
  reject(call, fmt::format("{} has {} bytes, not a multiple of {}'s {}", name, bytes, name_of(dtype), size_of(dtype)));
}

void reject_bytes(std::string_view call, std::string_view name, std::size_t found, std::size_t expected) {
  reject(call, fmt::format("{} has {} bytes, expected {}", name, found, expected));
}

void reject_buffer(std::string_view call, std::string_view name, ConstBuffer found) {
  if (found.data == nullptr) reject(call, fmt::format("{} is null, expected {} bytes", name, found.bytes));
  reject(call, fmt::format("{} has {} bytes, expected at most {}", name, found.bytes, PTRDIFF_MAX));
}

void reject_places(std::string_view call, Place in, Place out) {
  const auto where = [](Place p) {
    return p.kind == MemoryKind::Device ? fmt::format("on device {}", p.device) : std::string("on the host");
  };
  reject(call,
         fmt::format("in lies {}, out {}; expected both on the host or both on the device", where(in), where(out)));
}

void reject_dtype(std::string_view call, DType dtype) {
  reject(call, fmt::format("dtype is {}, expected one of the {} of DType", static_cast<int>(dtype), kDTypeCount));
}

void reject_overlap(std::string_view call, std::string_view how) { reject(call, std::string(how)); }

void reject_operator(std::string_view call, ReduceOp op, DType dtype) {
  if (static_cast<std::size_t>(op) >= kReduceOpCount)
    reject(call,
           fmt::format("operator is {}, expected one of the {} of ReduceOp", static_cast<int>(op), kReduceOpCount));
  reject(call, fmt::format("operator {} is not defined for {}", name_of(op), name_of(dtype)));
}

void reject_user(std::string_view call, const Reducer* found, DType dtype) {
  if (found == nullptr)
    reject(call, "operator user has no function: expected CallOptions::user, in C the member reduce");
  if (found->fn == nullptr) reject(call, "CallOptions::user has no function");
  reject(call, fmt::format("CallOptions::user is for elements of {} bytes, but those of {} have {}",
                           found->element_bytes, name_of(dtype), size_of(dtype)));
}

void reject_rank(std::string_view call, std::string_view what, int rank, int size) {
  reject(call, fmt::format("{} is {}, expected 0 to {}", what, rank, size - 1));
}

void reject_small(std::string_view call, std::string_view name, std::size_t found, std::size_t expected) {
  reject(call, fmt::format("{} has {} bytes, expected at least {}: where its last part ends", name, found, expected));
}

void reject_overflow(std::string_view call, std::uint64_t count, std::uint64_t blocks, DType dtype) {
  reject(call, fmt::format("{} blocks of {} elements of {} are more than the {} bytes of an address space", blocks,
                           count, name_of(dtype), PTRDIFF_MAX));
}

void reject_entries(std::string_view call, std::string_view name, std::string_view what, std::size_t found, int ranks) {
  reject(call, fmt::format("the parts of {} have {} {}, expected {}: one per rank", name, found, what, ranks));
}

void reject_part(std::string_view call, std::string_view name, std::size_t part, std::uint64_t first,
                 std::uint64_t count, std::uint64_t most) {
  reject(call, fmt::format("part {} of {} begins at element {} and has {}; expected an end of at most {}", part, name,
                           first, count, most));
}

void reject_parts_overlap(std::string_view call, std::string_view name, std::size_t a, std::size_t b,
                          const Parts& parts) {
  const auto range = [&](std::size_t i) {
    return fmt::format("[{}, {})", parts.displacements[i], parts.displacements[i] + parts.counts[i]);
  };
  reject(call, fmt::format("parts {} and {} of {} overlap: elements {} and {}", a, b, name, range(a), range(b)));
}

void reject_unequal_parts(std::string_view call, std::size_t part, std::uint64_t in, std::uint64_t out,
                          std::string_view what) {
  reject(call, fmt::format("in place, but part {} has {} {} in in_parts and {} in out_parts; expected equal ones", part,
                           what, in, out));
}

void reject_own_part(std::string_view call, std::string_view name, std::uint64_t elements, std::string_view other,
                     std::uint64_t count) {
  reject(call,
         fmt::format("this rank's part of {} has {} elements, expected {}, as in {}", name, elements, count, other));
}

void reject_plan(std::string_view why) { reject("run", fmt::format("the plan {}", why)); }

void reject_determinism(std::string_view call, Determinism level) {
  reject(call, fmt::format("determinism is {}, expected one of the 3 of Determinism", static_cast<int>(level)));
}

void reject_coded(std::string_view call, Codec codec, std::string_view why) {
  reject(call, fmt::format("codec {}: {}", name_of(codec), why));
}

void check_codec(const CollectiveDesc& d) {
  const auto call = name_of(d.collective);
  if (static_cast<std::size_t>(d.codec) >= kCodecCount)
    reject(call, fmt::format("codec is {}, expected one of the {} of Codec", static_cast<int>(d.codec), kCodecCount));
  if (!may_be_coded(d.collective))
    reject_coded(call, d.codec, "expected all_reduce, reduce_scatter or all_gather, or a v-form of these");
  if (d.dtype != DType::F32) reject_coded(call, d.codec, fmt::format("dtype is {}, expected f32", name_of(d.dtype)));
  const bool adds = d.op == ReduceOp::Sum || d.op == ReduceOp::Average || d.op == ReduceOp::PreMulSum;
  if (reduces(d.collective) && !adds)
    reject_coded(call, d.codec, fmt::format("operator is {}, expected a sum: sum, avg or premulsum", name_of(d.op)));
  if (d.determinism != Determinism::Fast)
    reject_coded(call, d.codec, "expected determinism fast: what is rounded on the way depends on the way");
}

void reject_division(std::string_view call, std::uint64_t total, std::uint64_t ranks) {
  reject(call, fmt::format("{} elements do not divide by {} ranks", total, ranks));
}

void require_one_per_rank(std::string_view call, std::string_view name, const Parts& parts, int ranks) {
  const auto expected = static_cast<std::size_t>(ranks);
  if (parts.counts.size() != expected) reject_entries(call, name, "counts", parts.counts.size(), ranks);
  if (!parts.displacements.empty() && parts.displacements.size() != expected)
    reject_entries(call, name, "displacements", parts.displacements.size(), ranks);
}

std::uint64_t own_place(const Parts& parts, int rank) {
  const auto me = static_cast<std::size_t>(rank);
  if (!parts.displacements.empty()) return me < parts.displacements.size() ? parts.displacements[me] : 0;
  std::uint64_t before = 0;
  for (const std::uint64_t c : parts.counts.first(me)) before += c;
  return before;
}

void require_equal_parts(std::string_view call, const Parts& in, const Parts& out) {
  std::uint64_t in_next = 0;
  std::uint64_t out_next = 0;
  for (std::size_t i = 0; i < in.counts.size(); ++i) {
    if (in.counts[i] != out.counts[i]) reject_unequal_parts(call, i, in.counts[i], out.counts[i], "count");
    const std::uint64_t in_first = in.displacements.empty() ? in_next : in.displacements[i];
    const std::uint64_t out_first = out.displacements.empty() ? out_next : out.displacements[i];
    if (in_first != out_first && in.counts[i] > 0) reject_unequal_parts(call, i, in_first, out_first, "displacement");
    in_next = in_first + in.counts[i];
    out_next = out_first + out.counts[i];
  }
}

}  // namespace sinew::arguments

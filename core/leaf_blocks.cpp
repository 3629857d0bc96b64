#include <array>
#include <bit>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/leaf_blocks.hpp>
#include <sinew/core/numeric/canonical_tree.hpp>

namespace sinew {
namespace {

[[noreturn]] void reject(const std::string& why) { throw Error(Code::InvalidArgument, "sum_leaf_blocks: " + why); }

void check(ConstBuffer in, Buffer out, DType dtype, int blocks, ReduceOp op) {
  if (blocks < 1 || blocks > kLeafBlocks || !std::has_single_bit(static_cast<unsigned>(blocks)))
    reject(fmt::format("{} blocks, expected a power of two, {} at most", blocks, kLeafBlocks));
  if (in.place.kind == MemoryKind::Device || out.place.kind == MemoryKind::Device)
    reject("a buffer lies on a device, expected host memory");
  if (out.bytes % size_of(dtype) != 0)
    reject(fmt::format("out has {} bytes, not a multiple of {}'s {}", out.bytes, name_of(dtype), size_of(dtype)));
  if (in.bytes != out.bytes * static_cast<std::size_t>(blocks))
    reject(fmt::format("in has {} bytes, expected {}: {} blocks of {}, as out has", in.bytes,
                       out.bytes * static_cast<std::size_t>(blocks), blocks, out.bytes));
  if (op == ReduceOp::Average || op == ReduceOp::PreMulSum || op == ReduceOp::User)
    reject(fmt::format("operator {} is not one that leaves combine by; expected a sum, scaled before or after",
                       name_of(op)));
}

}  // namespace

void sum_leaf_blocks(ConstBuffer in, Buffer out, DType dtype, int blocks, ReduceOp op) {
  check(in, out, dtype, blocks, op);
  const Reducer reduce = reducer_for(op, dtype);
  std::array<const void*, kLeafBlocks> leaves{};
  for (int b = 0; b < blocks; ++b)
    leaves[static_cast<std::size_t>(b)] = in.data + static_cast<std::size_t>(b) * out.bytes;
  reduce_by_tree(reduce, out.data, std::span(leaves).first(static_cast<std::size_t>(blocks)), out.bytes);
}

}  // namespace sinew

#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// The operation of a step. A Recv with a.count > 0 reduces: dst = a (op) message.
enum class Op : std::uint8_t { Send, Recv, Copy, Reduce };

/// The function that a step applies to each element before it writes it to dst. Scale multiplies for Average or
/// PreMulSum.
/// Encode writes a coded chunk. Decode reads a coded chunk; in a Reduce it applies to b alone.
enum class ElementMap : std::uint8_t { None, Scale, Encode, Decode };

/// The memory of chunks: the user's input, the user's output, and scratch that lives as long as an instance of the
/// program.
enum class Space : std::uint8_t { In, Out, Scratch };

/// A run of chunks of one space. A step without this slice has count 0.
struct Slice {
  Space space = Space::In;
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  /// The run of `chunks` chunks that begins with number `from` of this slice.
  constexpr Slice part(int from, int chunks = 1) const noexcept {
    return {space, first + static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(chunks)};
  }
};

/// The predecessors of a step. They are the entries [first, first + count) of Program::dependencies.
struct DepRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One step of a program:
/// - Send: sends a to peer.
/// - Recv: dst = message, or dst = map(a (op) message). `dst` may be `a`.
/// - Copy: dst = map(a).
/// - Reduce: dst = map(a (op) b), or dst = a (op) decoded b. `dst` may be `a` or `b`.
/// All slices of a step have the same chunk classes, except for kCoded if the step encodes or decodes. A step starts
/// when all its predecessors are done. These come before it in Program::steps.
/// `match` is the number of the message among those from one rank to another, from 0. The k-th Send of rank p to rank q
/// matches the k-th Recv of rank q from rank p.
struct Step {
  Op op = Op::Copy;
  ElementMap map = ElementMap::None;
  Slice a{};
  Slice b{};
  Slice dst{};
  std::int32_t peer = -1;
  std::uint32_t match = 0;
  DepRange deps{};
};

/// The class of the block that one rank sends to another in an all_to_all. With more than 46,340 ranks, different
/// blocks may have equal classes. The verifier is never used on so many ranks.
constexpr std::uint32_t block_class(std::int64_t giver, int taker, int ranks) noexcept {
  return static_cast<std::uint32_t>(giver * ranks + taker) & 0x7fffffff;
}

/// A bit of a Scratch chunk's class. It says that the chunk holds the coded form of a chunk of that class
/// (core/numeric/codec.hpp). Such a chunk may only be sent, received, copied, encoded into and decoded from.
inline constexpr std::uint32_t kCoded = std::uint32_t{1} << 31;

/// The steps of one rank, on chunks, for calls of any size. The call determines the bytes of a chunk. Chunks of equal
/// class have equal bytes on all ranks.
/// Classes: - all_reduce, broadcast, reduce: chunk i has class i.
///          - all_gather, gather: the rank that sends the chunk.
///          - reduce_scatter, scatter: the rank that receives the chunk.
///          - all_to_all: sender * ranks + receiver, see block_class().
///          - barrier: class 0, with zero bytes. There is one In chunk, and there are `ranks` Out chunks.
/// Roots:   a rank has only the chunks that the collective uses. In broadcast and scatter only the root has In chunks.
///          In reduce and gather only the root has Out chunks. `in_place` has no effect on the program of a rank with
///          one buffer. Data that such a rank only passes on are kept in Scratch.
struct Program {
  int rank = 0;
  int ranks = 1;
  bool in_place = false;
  bool whole = false;  ///< true if a rank moves runs of chunks, so calls have a single segment; equal on all ranks
  /// True if each message has the sizes of its chunks in front, because counts are local and ranks pass on blocks of
  /// other ranks. Then each message is a run of Scratch chunks, and each Scratch chunk belongs to one run. Equal on all
  /// ranks. See schedule/sized_messages.hpp.
  bool sized = false;
  std::vector<std::uint32_t> in_class;       ///< the class of each In chunk
  std::vector<std::uint32_t> out_class;      ///< the class of each Out chunk
  std::vector<std::uint32_t> scratch_class;  ///< the class of each Scratch chunk
  std::vector<Step> steps;
  std::vector<std::uint32_t> dependencies;
};

/// The programs of all ranks for one call. The verifier and the simulator read it.
struct Schedule {
  CollectiveDesc desc;
  std::vector<Program> programs;
};

}  // namespace sinew

#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// What one step of a program does. Recv with a.count > 0 reduces: dst = a (op) message.
enum class Op : std::uint8_t { Send, Recv, Copy, Reduce };

/// Applied to each element on its way into dst. Scale: the one multiplication of Average or PreMulSum. Encode, Decode:
/// to and from a coded chunk; Decode of a Reduce is applied to b alone.
enum class ElementMap : std::uint8_t { None, Scale, Encode, Decode };

/// The user's input, the user's output, and memory that lives as long as one instance of the program.
enum class Space : std::uint8_t { In, Out, Scratch };

/// A run of chunks of one space. count == 0: absent.
struct Slice {
  Space space = Space::In;
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  /// `chunks` of them, from the one numbered `from` on.
  constexpr Slice part(int from, int chunks = 1) const noexcept {
    return {space, first + static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(chunks)};
  }
};

/// Predecessors of a step: entries [first, first + count) of Program::dependencies.
struct DepRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Send: a goes to peer.        Recv: dst = message, or map(a (op) message); dst may be a.
/// Copy: dst = map(a).          Reduce: dst = map(a (op) b), or a (op) decoded b; dst may be a or b.
/// Slices of one step have the same chunk classes, up to kCoded where the step encodes or decodes. A step starts when
/// all its predecessors are done; these come before it in Program::steps. `match` numbers the messages of an ordered
/// pair of ranks, from 0, in program order on both sides: the k-th Send to q meets the k-th Recv from p.
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

/// The class of the block that a rank gives another in an all_to_all. Above 46,340 ranks classes come again, which no
/// verifier sees: none looks at so many.
constexpr std::uint32_t block_class(std::int64_t giver, int taker, int ranks) noexcept {
  return static_cast<std::uint32_t>(giver * ranks + taker) & 0x7fffffff;
}

/// Added to the class of a Scratch chunk: the chunk holds the coded form of a chunk of that class
/// (core/numeric/codec.hpp). It may only be sent, received, copied, encoded into and decoded from.
inline constexpr std::uint32_t kCoded = std::uint32_t{1} << 31;

/// One rank's part of an algorithm: data over chunks, independent of sizes. What bytes a chunk has comes from the
/// call: chunks of equal class have equal size on every rank.
/// Classes: all_reduce, broadcast, reduce: chunk i has class i. all_gather, gather: class of the rank that gives.
///          reduce_scatter, scatter: class of the rank that receives. all_to_all: sender * ranks + receiver.
///          barrier: all are class 0, of zero bytes: one In chunk, the token of this rank, and `ranks` Out chunks.
/// Roots:   what the collective does not ask of a rank is not there: in broadcast and scatter only the root has In
///          chunks, in reduce and gather only the root has Out chunks; all have the other side. A rank with one side
///          only is neither apart nor in place: its program does not depend on it, and what it passes on but may not
///          keep waits in Scratch.
struct Program {
  int rank = 0;
  int ranks = 1;
  bool in_place = false;
  bool whole = false;  ///< chunks are never cut into segments: some rank moves a run of them; equal on all ranks
  std::vector<std::uint32_t> in_class;       ///< one per In chunk; where a rank has no input: empty
  std::vector<std::uint32_t> out_class;      ///< one per Out chunk; where a rank has no output: empty
  std::vector<std::uint32_t> scratch_class;  ///< one per Scratch chunk
  std::vector<Step> steps;
  std::vector<std::uint32_t> dependencies;
};

/// All ranks' programs of one algorithm: what the verifier and the simulator read.
struct Schedule {
  CollectiveDesc desc;
  std::vector<Program> programs;
};

}  // namespace sinew

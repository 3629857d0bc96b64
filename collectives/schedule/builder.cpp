#include <algorithm>
#include <cassert>
#include <utility>

#include <sinew/collectives/schedule/builder.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>
#include <sinew/collectives/schedule/frame.hpp>

namespace sinew {

ProgramBuilder::ProgramBuilder(const CollectiveDesc& desc, int rank, int ranks, bool in_place, int chunks)
    : collective_(desc.collective),
      average_(reduces(desc.collective) && desc.op == ReduceOp::Average),
      program_(frame(desc, rank, ranks, in_place, chunks)),
      cells_(desc.collective, program_),
      sent_(ranks),
      received_(ranks) {}

std::uint32_t& ProgramBuilder::MessageCounts::with(int peer) {
  if (all_.empty()) {
    const auto known = std::ranges::find(few_, peer, &Count::peer);
    if (known != few_.end()) return known->messages;
    if (few_.size() < kFew) return few_.emplace_back(Count{.peer = peer}).messages;
    all_.resize(static_cast<std::size_t>(ranks_));
    for (const Count& c : few_) all_[static_cast<std::size_t>(c.peer)] = c.messages;
  }
  return all_[static_cast<std::size_t>(peer)];
}

Slice ProgramBuilder::scratch(std::uint32_t chunk_class) {
  program_.scratch_class.push_back(chunk_class);
  return slice(Space::Scratch, static_cast<int>(program_.scratch_class.size()) - 1, 1);
}

Slice ProgramBuilder::scratch_like(Slice chunks) {
  Slice run = slice(Space::Scratch, static_cast<int>(program_.scratch_class.size()), 0);
  for (; run.count < chunks.count; ++run.count) scratch(class_of(chunks.part(static_cast<int>(run.count))));
  return run;
}

std::uint32_t ProgramBuilder::class_of(Slice chunk) const {
  if (chunk.space == Space::In) return program_.in_class[chunk.first];
  return chunk.space == Space::Out ? program_.out_class[chunk.first] : program_.scratch_class[chunk.first];
}

ElementMap ProgramBuilder::map_of(Sum sum) const noexcept {
  return average_ && sum == Sum::Complete ? ElementMap::Scale : ElementMap::None;
}

Slice ProgramBuilder::packed(const std::vector<Slice>& chunks) {
  Slice run = chunks.front().part(0, static_cast<int>(chunks.size()));
  const auto in_place = [&](const Slice& c) {
    return c.space == run.space && c.first == run.first + static_cast<std::uint32_t>(&c - chunks.data());
  };
  if (!program_.sized && std::ranges::all_of(chunks, in_place)) return run;
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    const Slice to = scratch_like(chunks[k]);
    if (k == 0) run.space = to.space, run.first = to.first;
    copy(to, chunks[k]);
  }
  return run;
}

void ProgramBuilder::send(int peer, Slice a) { message(Op::Send, ElementMap::None, a, {}, peer, sent_); }

void ProgramBuilder::recv(int peer, Slice dst) { message(Op::Recv, ElementMap::None, {}, dst, peer, received_); }

void ProgramBuilder::recv_reduce(int peer, Slice dst, Slice a, Sum sum) {
  message(Op::Recv, map_of(sum), a, dst, peer, received_);
}

void ProgramBuilder::copy(Slice dst, Slice a, Sum sum) {
  if (map_of(sum) == ElementMap::None && same(dst, a)) return;
  program_.steps.push_back({.op = Op::Copy, .map = map_of(sum), .a = a, .dst = dst});
}

void ProgramBuilder::reduce(Slice dst, Slice a, Slice b, Sum sum) {
  program_.steps.push_back({.op = Op::Reduce, .map = map_of(sum), .a = a, .b = b, .dst = dst});
}

void ProgramBuilder::turn() { last_turn_ = std::exchange(this_turn_, {}); }

void ProgramBuilder::message(Op op, ElementMap map, Slice a, Slice dst, int peer, MessageCounts& numbers) {
  assert(peer >= 0 && peer < program_.ranks && peer != program_.rank);
  this_turn_.push_back(static_cast<std::uint32_t>(program_.steps.size()));
  const DepRange after{static_cast<std::uint32_t>(program_.dependencies.size()),
                       static_cast<std::uint32_t>(last_turn_.size())};
  program_.dependencies.insert(program_.dependencies.end(), last_turn_.begin(), last_turn_.end());
  program_.steps.push_back(
      {.op = op, .map = map, .a = a, .dst = dst, .peer = peer, .match = numbers.with(peer)++, .deps = after});
}

Program ProgramBuilder::build() {
  derive_dependencies(collective_, program_);
  return std::move(program_);
}

}  // namespace sinew

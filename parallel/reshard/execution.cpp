#include <algorithm>
#include <cstring>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/reshard/execution.hpp>

namespace sinew::parallel {

ReshardExecution::ReshardExecution(CallGroup all, ReshardPlan plan, std::span<const CheckpointPart> held,
                                   std::span<const CheckpointPart> wanted, const ReshardExecutionOptions& options)
    : all_(all), options_(options), plan_(std::move(plan)), wanted_(wanted.begin(), wanted.end()) {
  std::vector<std::byte*> from, to;
  for (const CheckpointPart& part : held) from.push_back(part.buffer.data);
  for (const CheckpointPart& part : wanted_)
    to.push_back(options_.keep_old ? staged_.emplace_back(part.buffer.bytes).data() : part.buffer.data);
  sources_ = PartMemory(plan_.items, held, from);
  targets_ = PartMemory(plan_.items, wanted_, to);
  rounds_.resize(at(plan_.rounds));
  for (ReshardMessage& message : plan_.messages) {
    if (message.from == all_->rank() || message.to == all_->rank()) {
      rounds_[at(message.round)].push_back(&message);
    } else {
      message.segments = {};
    }
  }
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    std::size_t bytes = 0;
    for (const ReshardMessage* message : rounds_[round]) bytes += memory_of(*message) == nullptr ? message->bytes : 0;
    std::vector<std::byte>& packed = packed_[round % 2];
    packed.resize(std::max(packed.size(), bytes));
  }
}

const PartMemory& ReshardExecution::parts_of(const ReshardMessage& message) const {
  return message.from == all_->rank() && !message.passed_on ? sources_ : targets_;
}

Work ReshardExecution::start(std::size_t round) {
  std::vector<Message> group;
  std::byte* packed = packed_[round % 2].data();
  for (const ReshardMessage* message : rounds_[round]) {
    std::byte* memory = memory_of(*message);
    const bool sends = message->from == all_->rank();
    if (memory == nullptr) {
      memory = packed;
      if (sends) {
        for (const ReshardSegment& s : message->segments) packed = pack(parts_of(*message), s, packed);
      } else {
        packed += message->bytes;
      }
    }
    const Buffer buffer{memory, message->bytes};
    group.push_back(sends ? Message::send(buffer, message->to, options_.tag)
                          : Message::recv(buffer, message->from, options_.tag));
  }
  if (group.empty()) return {};
  return all_->group(group, all_.options(options_.label));
}

void ReshardExecution::unpack_round(std::size_t round) {
  const std::byte* packed = packed_[round % 2].data();
  for (const ReshardMessage* message : rounds_[round]) {
    if (memory_of(*message) != nullptr) continue;
    if (message->from == all_->rank()) {
      packed += message->bytes;
    } else {
      for (const ReshardSegment& s : message->segments) packed = unpack(packed, targets_, s);
    }
  }
}

void ReshardExecution::run() {
  std::array<Work, 2> works;
  if (!rounds_.empty()) works[0] = start(0);
  for (const ReshardSegment& s : plan_.copies[at(all_->rank())]) copy_segment(sources_, targets_, s);
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    // A message of the next round passes on only what has come in the round before this one, or earlier.
    if (round + 1 < rounds_.size()) works[(round + 1) % 2] = start(round + 1);
    std::exchange(works[round % 2], Work{}).get();
    unpack_round(round);
  }
  if (!options_.keep_old) return;
  all_->barrier(all_.options(options_.label)).get();
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (!staged_[i].empty()) std::memcpy(wanted_[i].buffer.data, staged_[i].data(), staged_[i].size());
  }
}

std::size_t ReshardExecution::memory_bytes() const noexcept {
  std::size_t bytes = packed_[0].size() + packed_[1].size();
  for (const std::vector<std::byte>& staged : staged_) bytes += staged.size();
  return bytes;
}

}  // namespace sinew::parallel

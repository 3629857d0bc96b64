#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/reshard/part_memory.hpp>
#include <sinew/parallel/reshard/reshard.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kReshardLabel = "reshard";

std::string parts_text(std::span<const CheckpointPart> parts) {
  std::vector<PartDescription> all;
  for (const CheckpointPart& part : parts) all.push_back({part.item, part.extent});
  return to_text(all);
}

void require_options(const ReshardOptions& options, int ranks) {
  if (!options.hosts.empty() && std::ssize(options.hosts) != ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("the hosts of {} ranks, expected those of {}", options.hosts.size(), ranks));
}

/// Numbers the host names in the order of their first ranks.
std::vector<int> numbers_of(const std::vector<std::string>& host_names) {
  std::map<std::string_view, int> numbers;
  std::vector<int> of_ranks;
  for (const std::string& name : host_names)
    of_ranks.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return of_ranks;
}

std::vector<ReshardFacts> gather_facts(CallGroup all, std::span<const CheckpointPart> held,
                                       std::span<const CheckpointPart> wanted, const ReshardOptions& options) {
  const CallOptions call = all.options(kReshardLabel);
  std::vector<ReshardFacts> facts;
  for (const std::string& text : texts_of_all(all, parts_text(held), call))
    facts.push_back({0, descriptions_from_text(text), {}});
  const std::vector<std::string> wanted_texts = texts_of_all(all, parts_text(wanted), call);
  const std::vector<int> hosts =
      options.hosts.empty() ? numbers_of(texts_of_all(all, host_name(), call)) : options.hosts;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    facts[r].wanted = descriptions_from_text(wanted_texts[r]);
    facts[r].host = hosts[r];
  }
  return facts;
}

}  // namespace

struct Resharder::State {
  State(CallGroup group, std::span<const CheckpointPart> held_parts, std::span<const CheckpointPart> wanted_parts,
        const ReshardOptions& given)
      : all(group), options(given), wanted(wanted_parts.begin(), wanted_parts.end()) {
    on_all_or_none(all, kReshardLabel, [&] {
      for (const CheckpointPart& part : held_parts) require_valid(part);
      for (const CheckpointPart& part : wanted) require_valid(part);
      require_options(options, all->size());
    });
    require_equal_on_all(all, "the options of reshard",
                         fmt::format("{} bytes in flight, keep_old {}, tag {}, hosts [{}]", options.bytes_in_flight,
                                     options.keep_old, options.tag, fmt::join(options.hosts, ", ")),
                         all.options(nullptr));
    plan = plan_reshard(gather_facts(all, held_parts, wanted, options), options.bytes_in_flight);
    on_all_or_none(all, kReshardLabel, [&] { allocate(held_parts); });
  }

  void allocate(std::span<const CheckpointPart> held_parts) {
    std::vector<std::byte*> from, to;
    for (const CheckpointPart& part : held_parts) from.push_back(part.buffer.data);
    for (const CheckpointPart& part : wanted)
      to.push_back(options.keep_old ? staged.emplace_back(part.buffer.bytes).data() : part.buffer.data);
    sources = PartMemory(plan.items, held_parts, from);
    targets = PartMemory(plan.items, wanted, to);
    of_round.resize(at(plan.rounds));
    for (const ReshardMessage& message : plan.messages) {
      if (message.from == all->rank() || message.to == all->rank()) of_round[at(message.round)].push_back(&message);
    }
    std::array<std::size_t, 2> bytes{};
    for (std::size_t round = 0; round < of_round.size(); ++round) {
      std::size_t packed = 0;
      for (const ReshardMessage* message : of_round[round]) packed += memory_of(*message) == nullptr ? message->bytes : 0;
      bytes[round % 2] = std::max(bytes[round % 2], packed);
    }
    for (std::size_t i = 0; i < 2; ++i) buffers[i].resize(bytes[i]);
  }

  /// The parts from which a message is sent, or into which it is received.
  const PartMemory& parts_of(const ReshardMessage& message) const {
    return message.from == all->rank() && !message.passed_on ? sources : targets;
  }
  /// The memory of the parts from which the message is sent, or into which it is received; null: it is packed.
  std::byte* memory_of(const ReshardMessage& message) const { return parts_of(message).whole(message.segments); }

  /// Starts the messages of a round.
  Work start(std::size_t round) {
    std::vector<Message> group;
    std::byte* packed = buffers[round % 2].data();
    for (const ReshardMessage* message : of_round[round]) {
      std::byte* memory = memory_of(*message);
      const bool sends = message->from == all->rank();
      if (memory == nullptr) {
        memory = packed;
        if (sends) {
          for (const ReshardSegment& s : message->segments) packed = pack(parts_of(*message), s, packed);
        } else {
          packed += message->bytes;
        }
      }
      const Buffer buffer{memory, message->bytes};
      group.push_back(sends ? Message::send(buffer, message->to, options.tag)
                            : Message::recv(buffer, message->from, options.tag));
    }
    if (group.empty()) return {};
    return all->group(group, all.options(kReshardLabel));
  }

  /// Puts the messages of a round, which have come, into their places.
  void unpack_round(std::size_t round) {
    const std::byte* packed = buffers[round % 2].data();
    for (const ReshardMessage* message : of_round[round]) {
      if (memory_of(*message) != nullptr) continue;
      if (message->from == all->rank()) {
        packed += message->bytes;
      } else {
        for (const ReshardSegment& s : message->segments) packed = unpack(packed, targets, s);
      }
    }
  }

  void run() {
    std::array<Work, 2> works;
    if (!of_round.empty()) works[0] = start(0);
    for (const ReshardSegment& s : plan.copies[at(all->rank())]) copy_segment(sources, targets, s);
    for (std::size_t round = 0; round < of_round.size(); ++round) {
      if (round + 1 < of_round.size()) works[(round + 1) % 2] = start(round + 1);
      std::exchange(works[round % 2], Work{}).get();
      unpack_round(round);
    }
    if (!options.keep_old) return;
    all->barrier(all.options(kReshardLabel)).get();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!staged[i].empty()) std::memcpy(wanted[i].buffer.data, staged[i].data(), staged[i].size());
    }
  }

  CallGroup all;
  ReshardOptions options;
  std::vector<CheckpointPart> wanted;
  ReshardPlan plan;
  std::vector<std::vector<std::byte>> staged;  // by wanted part, with keep_old
  PartMemory sources, targets;
  std::vector<std::vector<const ReshardMessage*>> of_round;  // this rank's messages
  std::array<std::vector<std::byte>, 2> buffers;             // of even and odd rounds
};

Resharder::Resharder(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
                     const ReshardOptions& options)
    : state_(std::make_unique<State>(all, held, wanted, options)) {}
Resharder::Resharder(Resharder&&) noexcept = default;
Resharder& Resharder::operator=(Resharder&&) noexcept = default;
Resharder::~Resharder() = default;

void Resharder::run() { state_->run(); }

const ReshardPlan& Resharder::plan() const noexcept { return state_->plan; }

std::size_t Resharder::memory_bytes() const noexcept {
  std::size_t bytes = state_->buffers[0].size() + state_->buffers[1].size();
  for (const auto& staged : state_->staged) bytes += staged.size();
  return bytes;
}

void reshard(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
             const ReshardOptions& options) {
  Resharder(all, held, wanted, options).run();
}

}  // namespace sinew::parallel

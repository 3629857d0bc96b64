#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <sinew/collectives/arguments.hpp>
#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/communicator_state.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

using namespace arguments;

namespace {

void require_peer(std::string_view call, std::string_view what, int rank, const Group& group) {
  require_rank(call, what, rank, group.size());
  if (rank == group.rank) reject_self(call, what, rank);
}

}  // namespace

Communicator::Communicator() noexcept = default;
Communicator::Communicator(std::shared_ptr<CommunicatorState> state) noexcept : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

CommunicatorState& Communicator::state() const {
  if (!state_)
    throw Error(Code::InvalidArgument,
                "this communicator is empty: moved from, or what split gives for a color below 0");
  state_->world->require_own_process();
  return *state_;
}

int Communicator::rank() const noexcept { return state_ ? state_->group.rank : -1; }
int Communicator::size() const noexcept { return state_ ? state_->group.size() : 0; }

Work Communicator::all_reduce(ConstBuffer in, Buffer out, DType dtype, ReduceOp op, const CallOptions& options) {
  return state().start(arguments::all_reduce(in, out, dtype, op, options), in, out, in.data == out.data, options);
}

Work Communicator::all_gather(ConstBuffer in, Buffer out, DType dtype, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("all_gather", "in", in, dtype);
  require_bytes("all_gather", "out", out, in.bytes, size());
  const bool in_place = in.data == out.data + in.bytes * static_cast<std::size_t>(rank());
  if (!in_place) require_disjoint("all_gather", in, out);
  return s.start(describe(Collective::AllGather, dtype, common_place("all_gather", in, out), count, options), in, out,
                 in_place, options);
}

Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, DType dtype, ReduceOp op, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("reduce_scatter", "out", out, dtype);
  require_bytes("reduce_scatter", "in", in, out.bytes, size());
  require_defined("reduce_scatter", op, dtype, options);
  const bool in_place = out.data == in.data + out.bytes * static_cast<std::size_t>(rank());
  if (!in_place) require_disjoint("reduce_scatter", in, out);
  return s.start(
      describe(Collective::ReduceScatter, dtype, common_place("reduce_scatter", in, out), count, op, options), in, out,
      in_place, options);
}

Work Communicator::all_to_all(ConstBuffer in, Buffer out, DType dtype, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t total = elements("all_to_all", "in", in, dtype);
  require_bytes("all_to_all", "out", out, in.bytes);
  const auto ranks = static_cast<std::uint64_t>(size());
  if (total % ranks != 0) reject_division("all_to_all", total, ranks);
  const bool in_place = in.data == out.data;
  if (!in_place) require_disjoint("all_to_all", in, out);
  return s.start(describe(Collective::AllToAll, dtype, common_place("all_to_all", in, out), total / ranks, options), in,
                 out, in_place, options);
}

Work Communicator::broadcast(Buffer data, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("broadcast", "data", data, dtype);
  require_rank("broadcast", "root", root, size());
  CollectiveDesc desc = describe(Collective::Broadcast, dtype, common_place("broadcast", data, data), count, options);
  desc.root = root;
  return s.start(desc, data, data, true, options);
}

Work Communicator::barrier(const CallOptions& options) {
  return state().start(describe(Collective::Barrier, DType::U8, Place{}, 0, options), {}, {}, true, options);
}

Work Communicator::send(ConstBuffer from, int to_rank, std::uint32_t tag, const CallOptions& options) {
  CommunicatorState& s = state();
  require_peer("send", "to_rank", to_rank, s.group);
  require_memory("send", "from", from);
  const Buffer memory{const_cast<std::byte*>(from.data), from.bytes, from.place};
  return s.start_message(true, memory, to_rank, tag, options);
}

Work Communicator::recv(Buffer to, int from_rank, std::uint32_t tag, const CallOptions& options) {
  CommunicatorState& s = state();
  require_peer("recv", "from_rank", from_rank, s.group);
  require_memory("recv", "to", to);
  return s.start_message(false, to, from_rank, tag, options);
}

Plan Communicator::plan(const CollectiveDesc& desc) const { return state().selector->select(desc).plan; }

Communicator Communicator::split(int color, int key, const CallOptions& options) {
  state();
  // Free ids common to all: one word each is enough, for a communicator has few others beside it.
  auto& free = state_->world->free_ids;
  std::vector<std::uint64_t> ids = free;
  all_reduce(std::span(ids), ReduceOp::BitAnd, options).get();
  const std::vector<std::int64_t> mine{color, key};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size()));
  all_gather(std::span(mine), std::span(all), options).get();

  // From a place that moves with every split: a message that nobody received before its communicator ended shall not
  // meet the next one.
  const auto first = static_cast<std::ptrdiff_t>(state_->identity_of_child(0) % ids.size());
  const auto is_free = [](std::uint64_t w) { return w != 0; };
  auto word = std::find_if(ids.begin() + first, ids.end(), is_free);
  if (word == ids.end()) word = std::find_if(ids.begin(), ids.begin() + first, is_free);
  if (*word == 0) throw Error(Code::Unavailable, "split: all 32768 communicator ids are in use");
  const auto id = static_cast<std::uint16_t>(2 * (64 * (word - ids.begin()) + std::countr_zero(*word)));
  std::vector<std::pair<std::int64_t, int>> members;
  for (int r = 0; r < size(); ++r) {
    if (all[2 * static_cast<std::size_t>(r)] == color)
      members.emplace_back(all[2 * static_cast<std::size_t>(r) + 1], r);
  }
  std::ranges::sort(members);
  Group group{0, {}, state_->group.generation, id, state_->identity_of_child(color)};
  std::vector<int> places;
  for (const auto& [k, r] : members) {
    if (r == rank()) group.rank = group.size();
    group.world_ranks.push_back(state_->group.world_ranks[static_cast<std::size_t>(r)]);
    places.push_back(r);
  }
  if (color < 0) {
    const Exchange alone = exchange_among(state_->exchange(options), {rank()});
    const auto rounds = state_->world->facts.with_offload().size() * kOffloadRounds;
    for (std::size_t round = 0; round < rounds; ++round) alone.all_gather({});
    return {};
  }
  const Exchange among = exchange_among(state_->exchange(options), std::move(places));
  auto made = std::make_shared<CommunicatorState>(state_->world, std::move(group));
  made->make_offloads(among);
  return Communicator(std::move(made));
}

void Communicator::abort(const std::string& reason) {
  WorldState& world = *state().world;
  world.on_driver([&] {
    world.control->end(*state_, Status(Code::Aborted, fmt::format("rank {} aborted: {}", rank(), reason), rank()));
  });
}

std::string Communicator::verdict() const {
  std::string text;
  state().world->on_driver([&] { text = state_->world->control->verdict(*state_); });
  return text;
}

std::size_t Communicator::memory_bytes() const { return state_ ? state_->memory_bytes() : 0; }

}  // namespace sinew

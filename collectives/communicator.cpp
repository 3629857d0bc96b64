#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/buffer_list.hpp>
#include <sinew/collectives/call/call_shape.hpp>
#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/device_allocation.hpp>
#include <sinew/collectives/world/gathered_stats.hpp>
#include <sinew/collectives/world/part_calls.hpp>
#include <sinew/collectives/world/split.hpp>
#include <sinew/core/base/thrown.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>

namespace sinew {

using namespace arguments;

namespace {

void require_message(std::string_view call, const Message& message, const Group& group) {
  require_rank(call, message.sends ? "to_rank" : "from_rank", message.peer, group.size());
  require_memory(call, message.sends ? "from" : "to", message.memory);
}

}  // namespace

Communicator::Communicator() noexcept = default;
Communicator::Communicator(std::shared_ptr<CommunicatorState> state) noexcept : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::planned(int rank, int size) {
  if (rank < 0 || rank >= size)
    throw Error(
        Code::InvalidArgument,
        fmt::format("a planned communicator: rank {} of {}, expected a rank from 0 to below the size", rank, size));
  Communicator planned;
  planned.planned_rank_ = rank;
  planned.planned_size_ = size;
  return planned;
}

CommunicatorState& Communicator::state() const {
  if (planned_size_ > 0)
    throw Error(Code::InvalidArgument,
                fmt::format("a call of a communicator of {} ranks that is only planned: expected one that World or "
                            "split() has made",
                            planned_size_));
  if (!state_)
    throw Error(Code::InvalidArgument,
                "this communicator is empty: moved from, or what split gives for a color below 0");
  state_->world->require_own_process();
  return *state_;
}

int Communicator::rank() const noexcept { return state_ ? state_->group.rank : planned_rank_; }
int Communicator::size() const noexcept { return state_ ? state_->group.size() : planned_size_; }

int Communicator::world_rank(int rank) const { return state_ ? state_->group.world_rank(rank) : rank; }
std::string Communicator::name() const { return state_ ? state_->group.text() : "no communicator"; }
std::string Communicator::rank_text(int rank) const {
  return state_ ? state_->group.rank_text(rank) : Group().rank_text(rank);
}

Work Communicator::all_reduce(ConstBuffer in, Buffer out, DType dtype, ReduceOp op, const CallOptions& options) {
  return state().start(arguments::all_reduce(in, out, dtype, op, options), in, out, in.data == out.data, options);
}

Work Communicator::all_gather(ConstBuffer in, Buffer out, DType dtype, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("all_gather", "in", in, dtype);
  return s.start_shaped(describe(Collective::AllGather, dtype, {}, count, options), in, out, options);
}

Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, DType dtype, ReduceOp op, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("reduce_scatter", "out", out, dtype);
  require_defined("reduce_scatter", op, dtype, options);
  return s.start_shaped(describe(Collective::ReduceScatter, dtype, {}, count, op, options), in, out, options);
}

Work Communicator::all_to_all(ConstBuffer in, Buffer out, DType dtype, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t total = elements("all_to_all", "in", in, dtype);
  const auto ranks = static_cast<std::uint64_t>(size());
  if (total % ranks != 0) reject_division("all_to_all", total, ranks);
  return s.start_shaped(describe(Collective::AllToAll, dtype, {}, total / ranks, options), in, out, options);
}

Work Communicator::broadcast(Buffer data, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("broadcast", "data", data, dtype);
  require_rank("broadcast", "root", root, size());
  CollectiveDesc desc = describe(Collective::Broadcast, dtype, common_place("broadcast", data, data), count, options);
  desc.root = root;
  return s.start(desc, data, data, true, options);
}

Work Communicator::reduce(ConstBuffer in, Buffer out, DType dtype, int root, ReduceOp op, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("reduce", "in", in, dtype);
  require_defined("reduce", op, dtype, options);
  CollectiveDesc desc = describe(Collective::Reduce, dtype, {}, count, op, options);
  desc.root = root;
  return s.start_shaped(desc, in, out, options);
}

Work Communicator::gather(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("gather", "in", in, dtype);
  CollectiveDesc desc = describe(Collective::Gather, dtype, {}, count, options);
  desc.root = root;
  return s.start_shaped(desc, in, out, options);
}

Work Communicator::scatter(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("scatter", "out", out, dtype);
  CollectiveDesc desc = describe(Collective::Scatter, dtype, {}, count, options);
  desc.root = root;
  return s.start_shaped(desc, in, out, options);
}

// The forms that take a separate buffer for each rank.

Work Communicator::all_gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, const CallOptions& options) {
  CommunicatorState& s = state();
  const BufferList list = list_of("all_gather", "outs", outs, dtype, size());
  require_own("all_gather", "in", in, "outs", list, dtype, rank());
  const bool in_place = is_in_place(in, outs, rank());
  const std::array given{readable(in)};
  require_apart("all_gather", in_place ? std::span<const Buffer>() : given, outs);
  return start_list(s, describe(Collective::AllGatherV, dtype, {}, 0, options), nullptr, &list, in, {}, in_place,
                    options);
}

Work Communicator::reduce_scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, ReduceOp op,
                                  const CallOptions& options) {
  CommunicatorState& s = state();
  const std::vector<Buffer> given = readable(ins);
  const BufferList list = list_of("reduce_scatter", "ins", given, dtype, size());
  require_own("reduce_scatter", "out", out, "ins", list, dtype, rank());
  require_defined("reduce_scatter", op, dtype, options);
  const bool in_place = is_in_place(out, given, rank());
  // Parts must be apart in place, as they are combined where they lie.
  const std::array taken{out};
  if (in_place) {
    require_apart("reduce_scatter", {}, given);
  } else {
    require_apart("reduce_scatter", given, taken);
  }
  return start_list(s, describe(Collective::ReduceScatterV, dtype, {}, 0, op, options), &list, nullptr, {}, out,
                    in_place, options);
}

Work Communicator::all_to_all(std::span<const ConstBuffer> ins, std::span<const Buffer> outs, DType dtype,
                              const CallOptions& options) {
  CommunicatorState& s = state();
  const std::vector<Buffer> given = readable(ins);
  const BufferList in = list_of("all_to_all", "ins", given, dtype, size());
  const BufferList out = list_of("all_to_all", "outs", outs, dtype, size());
  const auto me = static_cast<std::size_t>(rank());
  if (in.counts[me] != out.counts[me]) reject_own_part("all_to_all", "ins", in.counts[me], "outs", out.counts[me]);
  const auto same = [](const Buffer& a, const Buffer& b) { return a.bytes == b.bytes && a.data == b.data; };
  const bool in_place = in.whole.bytes > 0 && std::ranges::equal(given, outs, same);
  require_apart("all_to_all", in_place ? std::span<const Buffer>() : std::span<const Buffer>(given), outs);
  return start_list(s, describe(Collective::AllToAllV, dtype, {}, 0, options), &in, &out, {}, {}, in_place, options);
}

Work Communicator::gather(ConstBuffer in, std::span<const Buffer> outs, DType dtype, int root,
                          const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("gather", "root", root, size());
  static_cast<void>(elements("gather", "in", in, dtype));
  CollectiveDesc desc = describe(Collective::GatherV, dtype, {}, 0, options);
  desc.root = root;
  if (rank() != root) return start_list(s, desc, nullptr, nullptr, in, {}, false, options);
  const BufferList list = list_of("gather", "outs", outs, dtype, size());
  require_own("gather", "in", in, "outs", list, dtype, root);
  const bool in_place = is_in_place(in, outs, root);
  const std::array given{readable(in)};
  require_apart("gather", in_place ? std::span<const Buffer>() : given, outs);
  return start_list(s, desc, nullptr, &list, in, {}, in_place, options);
}

Work Communicator::scatter(std::span<const ConstBuffer> ins, Buffer out, DType dtype, int root,
                           const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("scatter", "root", root, size());
  static_cast<void>(elements("scatter", "out", out, dtype));
  CollectiveDesc desc = describe(Collective::ScatterV, dtype, {}, 0, options);
  desc.root = root;
  if (rank() != root) return start_list(s, desc, nullptr, nullptr, {}, out, true, options);
  const std::vector<Buffer> given = readable(ins);
  const BufferList list = list_of("scatter", "ins", given, dtype, size());
  require_own("scatter", "out", out, "ins", list, dtype, root);
  const bool in_place = is_in_place(out, given, root);
  const std::array taken{out};
  require_apart("scatter", given, in_place ? std::span<const Buffer>() : taken);
  return start_list(s, desc, &list, nullptr, {}, out, in_place, options);
}

// The v-forms.

Work Communicator::all_gather_v(ConstBuffer in, Buffer out, DType dtype, const Parts& out_parts,
                                const CallOptions& options) {
  return start_shared(state(), describe(Collective::AllGatherV, dtype, {}, 0, options), out_parts, in, out, options);
}

Work Communicator::reduce_scatter_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, ReduceOp op,
                                    const CallOptions& options) {
  CommunicatorState& s = state();
  require_defined("reduce_scatter_v", op, dtype, options);
  return start_shared(s, describe(Collective::ReduceScatterV, dtype, {}, 0, op, options), in_parts, in, out, options);
}

Work Communicator::all_to_all_v(ConstBuffer in, Buffer out, DType dtype, const Parts& in_parts, const Parts& out_parts,
                                const CallOptions& options) {
  CommunicatorState& s = state();
  require_one_per_rank("all_to_all_v", "in", in_parts, size());
  require_one_per_rank("all_to_all_v", "out", out_parts, size());
  const auto me = static_cast<std::size_t>(rank());
  if (in_parts.counts[me] != out_parts.counts[me])
    reject_own_part("all_to_all_v", "in", in_parts.counts[me], "out", out_parts.counts[me]);
  if (in.data == out.data && in.bytes > 0 && out.bytes > 0) require_equal_parts("all_to_all_v", in_parts, out_parts);
  return start_local(s, describe(Collective::AllToAllV, dtype, {}, 0, options), {in_parts, out_parts}, in, out,
                     options);
}

Work Communicator::gather_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& out_parts,
                            const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("gather_v", "root", root, size());
  const std::uint64_t count = elements("gather_v", "in", in, dtype);
  LocalCall local{.in = Parts{{&count, 1}}};
  if (root == rank()) {
    require_one_per_rank("gather_v", "out", out_parts, size());
    const std::uint64_t own = out_parts.counts[static_cast<std::size_t>(root)];
    if (own != count) reject_own_part("gather_v", "in", count, "out", own);
    local.out = out_parts;
    local.in_at = own_place(out_parts, root);
  }
  CollectiveDesc desc = describe(Collective::GatherV, dtype, {}, 0, options);
  desc.root = root;
  return start_local(s, desc, local, in, out, options);
}

Work Communicator::scatter_v(ConstBuffer in, Buffer out, DType dtype, int root, const Parts& in_parts,
                             const CallOptions& options) {
  CommunicatorState& s = state();
  require_rank("scatter_v", "root", root, size());
  const std::uint64_t count = elements("scatter_v", "out", out, dtype);
  LocalCall local{.out = Parts{{&count, 1}}};
  if (root == rank()) {
    require_one_per_rank("scatter_v", "in", in_parts, size());
    const std::uint64_t own = in_parts.counts[static_cast<std::size_t>(root)];
    if (own != count) reject_own_part("scatter_v", "out", count, "in", own);
    local.in = in_parts;
    local.out_at = own_place(in_parts, root);
  }
  CollectiveDesc desc = describe(Collective::ScatterV, dtype, {}, 0, options);
  desc.root = root;
  return start_local(s, desc, local, in, out, options);
}

Work Communicator::barrier(const CallOptions& options) {
  return state().start(describe(Collective::Barrier, DType::U8, Place{}, 0, options), {}, {}, true, options);
}

Work Communicator::send(ConstBuffer from, int to_rank, std::uint32_t tag, const CallOptions& options) {
  const Message message = Message::send(from, to_rank, tag);
  require_message("send", message, state().group);
  return state_->messages.start(message, options);
}

Work Communicator::recv(Buffer to, int from_rank, std::uint32_t tag, const CallOptions& options) {
  const Message message = Message::recv(to, from_rank, tag);
  require_message("recv", message, state().group);
  return state_->messages.start(message, options);
}

Work Communicator::recv_any(Buffer to, std::uint32_t tag, const CallOptions& options) {
  require_memory("recv_any", "to", to);
  return state().messages.start_any(Message::recv(to, -1, tag), options);
}

Work Communicator::sendrecv(ConstBuffer from, int to_rank, Buffer to, int from_rank, std::uint32_t send_tag,
                            std::uint32_t recv_tag, const CallOptions& options) {
  const std::array both{Message::recv(to, from_rank, recv_tag), Message::send(from, to_rank, send_tag)};
  for (const Message& m : both) require_message("sendrecv", m, state().group);
  require_disjoint("sendrecv", from, to, "from and to overlap");
  return state_->messages.start_group(both, options);
}

Work Communicator::group(std::span<const Message> messages, const CallOptions& options) {
  for (const Message& m : messages) require_message("group", m, state().group);
  return messages.empty() ? Work() : state().messages.start_group(messages, options);
}

Communicator Communicator::split(int color, int key, const CallOptions& options, std::string_view name) {
  return Communicator(sinew::split(*this, state(), color, key, options, name));
}

Memory Communicator::allocate(std::size_t bytes, const CallOptions& options) {
  return allocate_on_device(state(), bytes, options);
}

void Communicator::set_stream_priority(StreamPriority priority) { state().set_stream_priority(priority); }

CommunicatorStats Communicator::stats(const CallOptions& options) { return gather_stats(state(), options); }

Plan Communicator::plan(const CollectiveDesc& desc) const {
  CommunicatorState& s = state();
  if (is_message(desc.collective)) {
    const auto held = s.world->hold();
    return s.selector->select(desc).plan;
  }
  CollectiveDesc call = desc;
  if (has_local_counts(desc.collective)) call.counts = call.displacements = {};
  if (is_v_form(desc.collective)) call.count = 0;
  static_cast<void>(call_shape(call, rank(), size()));
  require_codec(call);
  if (reduces(desc.collective)) require_defined(name_of(desc.collective), desc.op, desc.dtype, {.user = desc.user});
  std::shared_ptr<ReadyPlan> ready = s.ready_plan(call);
  Plan plan = ready->selection.plan;
  plan.ready_ = std::move(ready);
  return plan;
}

void Communicator::require_dtype(const Plan& plan, const char* which, DType given) {
  const ReadyPlan* ready = plan.ready_.get();
  if (ready == nullptr || ready->desc.collective == Collective::Barrier || ready->desc.dtype == given) return;
  reject_plan(fmt::format("is for {} and {} is a range of {}", name_of(ready->desc.dtype), which, name_of(given)));
}

Work Communicator::run(const Plan& plan, ConstBuffer in, Buffer out, const CallOptions& options) {
  CommunicatorState& s = state();
  const auto held = s.world->hold();
  ReadyPlan* ready = plan.ready_.get();
  if (ready == nullptr) reject_plan("is of no communicator: expected one from Communicator::plan, not of messages");
  if (ready->owner == nullptr) reject_plan("is of a communicator that has gone");
  if (ready->owner != &s) reject_plan("is of another communicator");
  const CollectiveDesc& desc = ready->desc;
  if (has_local_counts(desc.collective))
    reject_plan("has no counts: they belong to each call of all_to_all_v and such");
  const Placing placing = require_shape(name_of(desc.collective), call_shape(desc, rank(), size()), in, out);
  const bool moves = desc.collective != Collective::Barrier && out.bytes + in.bytes > 0;
  if (moves && (placing.place.kind == MemoryKind::Device) != (desc.place.kind == MemoryKind::Device))
    reject_plan("is for the other kind of memory, host or device");
  const bool one_buffer = desc.collective == Collective::Broadcast;
  return s.start_held(desc, one_buffer ? ConstBuffer(out) : in, out, placing.in_place, options, {{}, ready});
}

void Communicator::abort(const std::string& reason) {
  WorldState& world = *state().world;
  world.locked([&] {
    const Group& group = state_->group;
    const std::string beginning = fmt::format("{} aborted {}", group.rank_text(rank()), group.text());
    const Status end = world.abort_status(beginning, reason);
    world.control->end(*state_, Status(end.code(), std::string(end.message()), group.place_of(end.rank())));
  });
}

void Communicator::abort_here(const std::string& reason) {
  WorldState& world = *state().world;
  world.locked([&] {
    const Group& group = state_->group;
    world.control->end_here(
        *state_,
        Status(Code::Aborted,
               fmt::format("{} ended its own calls on {}: {}", group.rank_text(rank()), group.text(), reason), rank()));
  });
}

void Communicator::abort_world_by_exception(std::string_view doing) const noexcept {
  if (!state_ || state_->world->is_forked()) return;
  try {
    const Status thrown = status_of_current_exception();
    std::string beginning = rank_text(rank()) + " aborted the world";
    if (!doing.empty()) beginning += fmt::format(": {}", doing);
    state_->world->abort(beginning, std::string(thrown.message()),
                         thrown.code() == Code::PeerLost ? Code::PeerLost : Code::Aborted);
  } catch (const std::exception& e) {  // no memory for the text; the caller still throws its own exception
    log::warning("the World is not ended on all ranks: {}", e.what());
  }
}

std::string Communicator::verdict() const {
  const auto held = state().world->hold();
  return state_->world->control->verdict(*state_);
}

std::size_t Communicator::memory_bytes() const { return state_ ? state().memory_bytes() : 0; }

}  // namespace sinew

#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/call_shape.hpp>
#include <sinew/collectives/selection/prove.hpp>
#include <sinew/collectives/staging/alone.hpp>
#include <sinew/collectives/world/child_communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/operation.hpp>

namespace sinew {
namespace {

/// Plans of a communicator that nobody keeps, before they are dropped: programs whose sizes never repeat must not grow.
constexpr std::size_t kMostPlans = 512;

void add_parts(const CallPartsRef& parts, Call& call) {
  if (!parts || !has_local_counts(call.desc.collective)) return;
  call.in_parts = parts->chunks.in;
  call.out_parts = parts->chunks.out;
}

}  // namespace

CommunicatorState::CommunicatorState(std::shared_ptr<WorldState> of, Group members)
    : world(of.get()), keeps_world(std::move(of)), group(std::move(members)), messages(*this) {
  selector =
      std::make_unique<Selector>(world->facts, group.world_ranks, offloads, world->numa_nodes_of(group.world_ranks));
  world->locked([this] {
    world->free_ids[group.communicator / 128] &= ~(std::uint64_t{1} << (group.communicator / 2 % 64));
    if (world->timer) {
      logged = world->timer->define(group);
      times = std::make_unique<CallHistory>(group.size());
    }
    world->control->add(*this);
  });
}

CommunicatorState::~CommunicatorState() = default;

std::shared_ptr<CommunicatorState> CommunicatorState::make(std::shared_ptr<WorldState> world, Group group) {
  return {new CommunicatorState(std::move(world), std::move(group)), Close()};
}

void CommunicatorState::Close::operator()(CommunicatorState* state) const {
  if (state->world->is_forked()) return;  // as ~World
  const std::shared_ptr<WorldState> keeps = std::move(state->keeps_world);
  const auto children_of_it = state->children;
  std::unique_ptr<CommunicatorState> owned(state);
  keeps->locked([&] {
    if (!owned->close()) keeps->left_behind.push_back(std::move(owned));
  });
  for (const auto& child : children_of_it) child->close();  // not under the lock, which it takes
}

std::uint64_t CommunicatorState::identity_of_child(int color) const noexcept {
  return mix(mix(group.identity + 1, last_sequence()), static_cast<std::uint64_t>(color) + 1);
}

void CommunicatorState::adopt(std::vector<NamedOffload> made) {
  world->locked([&] {
    plans_.drop_all([this](ReadyPlan& plan) { retire(plan); });
    offloads = std::move(made);
    if (group.size() == 1 && world->device_runtime != nullptr) {
      offloads.push_back(
          {AloneOnDevice::kTransport, std::make_unique<AloneOnDevice>(*world->device_runtime, world->device)});
    }
    for (NamedOffload& o : offloads) world->engine->add(*o.offload);
    selector =
        std::make_unique<Selector>(world->facts, group.world_ranks, offloads, world->numa_nodes_of(group.world_ranks));
  });
}

void CommunicatorState::use_offload(const std::string& transport, std::unique_ptr<CollectiveOffload> offload) {
  world->locked([&] {
    plans_.drop_all([this](ReadyPlan& plan) { retire(plan); });
    std::erase_if(offloads, [&](const NamedOffload& o) {
      if (o.offload->name() != offload->name()) return false;
      world->engine->remove(*o.offload);
      return true;
    });
    world->engine->add(*offload);
    offloads.push_back({transport, std::move(offload)});
    selector =
        std::make_unique<Selector>(world->facts, group.world_ranks, offloads, world->numa_nodes_of(group.world_ranks));
  });
}

bool CommunicatorState::choose_stream_priority(StreamPriority priority) {
  bool is_early = staged_calls_ == nullptr;
  for (const NamedOffload& o : offloads) is_early = o.offload->set_stream_priority(priority) && is_early;
  if (is_early) stream_priority_ = priority;
  return is_early;
}

void CommunicatorState::set_stream_priority(StreamPriority priority) {
  world->locked([&] {
    if (!choose_stream_priority(priority))
      throw Error(Code::InvalidArgument,
                  fmt::format("set_stream_priority: {} has made calls on device memory; expected before the first",
                              group.text()));
  });
}

bool CommunicatorState::close() {
  const auto drained = [this] { return world->calls->pending_of(this) == 0; };
  bool over = world->calls->wait_until(drained, {});
  if (!over) {
    world->control->end(
        *this, Status(Code::Aborted,
                      fmt::format("{} destroyed {} with calls pending", group.rank_text(group.rank), group.text()),
                      group.rank));
    over = world->calls->wait_until(drained, Deadline::after(std::chrono::seconds(1)));
  }
  world->control->remove(*this);
  const bool has_cards = messages.has_cards();
  if (over) release();
  // Messages of calls that failed or were cancelled may still lie somewhere. No other communicator must take them.
  if (ended.ok() && !has_cards)
    world->free_ids[group.communicator / 128] |= std::uint64_t{1} << (group.communicator / 2 % 64);
  return over;
}

void CommunicatorState::release() noexcept {
  for (NamedOffload& o : offloads) world->engine->remove(*o.offload);
  for (NamedOffload& o : offloads) o.offload.reset();  // under the lock: it may share things with others
  if (staged_calls_) world->engine->remove(*staged_calls_);
  staged_calls_.reset();
  messages.release();
  plans_.drop_all([this](ReadyPlan& plan) { retire(plan); });
}

PendingCall& CommunicatorState::begin(Fingerprint fingerprint, int peer, std::uint64_t extent,
                                      const CallOptions& options) {
  return world->calls->open([&](PendingCall& op) {
    op.owner = this;
    op.sequence = last_sequence();
    op.peer = peer;
    op.fingerprint = fingerprint;
    op.deadline = options.deadline;
    op.where = options.where;
    op.label = options.label;
    if (is_message(op))
      op.make<Operation>().stage = Stage::Finished;  // until a transport has it there is nothing to cancel
    op.record = world->control->enter({.communicator = group.identity,
                                       .fingerprint = fingerprint,
                                       .history = history,
                                       .sequence = op.sequence,
                                       .peer = peer < 0 ? -1 : group.world_rank(peer),
                                       .id = group.communicator,
                                       .label = options.label},
                                      options.where);
    if (world->timer) [[unlikely]] {
      const bool is_timed = times_wanted && !is_captured(fingerprint);  // a captured call ends before it runs
      world->timer->entered(op, logged, is_timed ? times.get() : nullptr, extent);
    }
  });
}

PendingCall& CommunicatorState::begin_next(Fingerprint fingerprint, std::uint64_t extent, const CallOptions& options) {
  ++sequence;
  history = mix(history, fingerprint);
  if (extent >> 31 != 0) [[unlikely]]
    history = mix(history, extent);  // of which the fingerprint shows not all
  return begin(fingerprint, -1, extent, options);
}

PendingCall& CommunicatorState::start_call(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place,
                                           const CallOptions& options, const CallExtras& extras) {
  arguments::require_codec(desc);
  if (desc.place.kind == MemoryKind::Device) [[unlikely]] {
    require_own_device(name_of(desc.collective), desc.place);
    if (!desc.captured && capture_of(options.after) != 0) {
      CollectiveDesc captured = desc;  // a plan that the caller has is one for calls that run at once
      captured.captured = true;
      return start_call(captured, in, out, in_place, options, {.parts = extras.parts});
    }
  }
  const std::uint64_t extent = extent_of(desc);
  const Fingerprint fingerprint = extras.plan == nullptr ? fingerprint_of(desc, extent) : extras.plan->fingerprint;
  PendingCall& op = begin_next(fingerprint, extent, options);
  try {
    launch(op, desc, in, out, in_place, options, extras);
    if (desc.captured) [[unlikely]]
      finish_capture(op, options);
  } catch (...) {
    give_up(op);
    throw;
  }
  if (world->calls->shared() != nullptr && !extras.is_within_progress) [[unlikely]]
    world->posted(options.waits_at_once);
  return op;
}

std::uint64_t CommunicatorState::capture_of(StreamRef stream) const {
  return stream.device < 0 || world->device_runtime == nullptr ? 0 : world->device_runtime->capture_of(stream);
}

/// The caller may end its capture as soon as the call returns. So the call must be in the capture by then, although
/// the offload may need several turns of progress until NCCL has met all ranks and has taken the calls before.
void CommunicatorState::finish_capture(PendingCall& op, const CallOptions& options) {
  const auto is_over = [&op] { return op.done.load(std::memory_order_acquire); };
  if (world->calls->wait_until(is_over, options.deadline, &op)) return;
  world->control->end(*this, Status(Code::Timeout, fmt::format("call {} on {} could not be captured in time",
                                                               op.sequence, group.text())));
  static_cast<void>(world->calls->wait_until(is_over, Deadline::after(std::chrono::seconds(1)), &op));
}

void CommunicatorState::require_own_device(std::string_view call, Place place) const {
  if (world->device_runtime == nullptr) return;  // what the ranks agreed on names the one that has none
  if (place.device != world->device) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: memory of device {}, expected device {}, which is this rank's: WorldOptions::device",
                            call, place.device, world->device));
  }
}

void CommunicatorState::require_own_device(std::string_view call, Place place, StreamRef after) const {
  require_own_device(call, place);
  if (capture_of(after) != 0) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: CallOptions::after is a stream that is being captured into a graph, and no message can "
                    "be part of one: send it before or after the capture",
                    call));
  }
}

Work CommunicatorState::start_shaped(CollectiveDesc desc, ConstBuffer in, Buffer out, const CallOptions& options) {
  const Placing placing = require_shape(name_of(desc.collective), call_shape(desc, group.rank, group.size()), in, out);
  desc.place = placing.place;
  return start(desc, in, out, placing.in_place, options);
}

Work CommunicatorState::start_on_offload(std::uint64_t bytes, const std::function<void(Completion&)>& start_it,
                                         const CallOptions& options) {
  // In the records it is what it does to the ranks.
  const CollectiveDesc desc{
      .collective = Collective::Barrier, .place = {MemoryKind::Device, world->device}, .count = bytes};
  const auto held = world->hold();
  PendingCall& op = begin_next(fingerprint_of(desc), bytes, options);
  try {
    ended.ok() ? start_it(op) : op.finish(ended);
  } catch (...) {
    give_up(op);
    throw;
  }
  world->posted(options.waits_at_once);
  return Work(op);
}

void CommunicatorState::launch(PendingCall& op, const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place,
                               const CallOptions& options, const CallExtras& extras) {
  if (!ended.ok()) {
    op.finish(ended);
    return;
  }
  ReadyPlan& plan =
      extras.plan != nullptr ? *extras.plan : plans_.find(desc, op.fingerprint, [&] { return make_plan(desc); });
  op.notes.plan = &plan;
  op.notes.in_place = in_place;
  plan.counters->count(plan.counted_bytes);
  if (plan.timed < ReadyPlan::kMostTimed && world->watches) [[unlikely]]
    world->watches->launching(op, plan, group.world_ranks, options.after, *world->calls);
  if (plan.selection.offload != nullptr && desc.place.kind == MemoryKind::Device) {
    Call call{.desc = desc,
              .in = in,
              .out = out,
              .after = options.after,
              .capture = desc.captured ? capture_of(options.after) : 0,
              .fingerprint = op.fingerprint,
              .history = history,
              .reducer = plan.reducer,
              .many = plan.many,
              .scaler = plan.scaler,
              .mark = &op.mark};
    add_parts(extras.parts, call);
    plan.selection.offload->offload->launch(call, op);
  } else if (plan.selection.staged) {
    staged_calls().start(desc, extras.parts, in, out, options.after, history, op);
  } else if (staged_calls_ && staged_calls_->busy()) {
    staged_calls_->queue([this, &plan, in, out, in_place, parts = extras.parts, &op, of_call = history] {
      try {
        ended.ok() ? launch_on_host(plan, in, out, in_place, parts, op, of_call, op) : op.finish(ended);
      } catch (const std::exception& e) {  // its caller has a Work already
        op.finish(status_of(e));
      }
    });
  } else {
    launch_on_host(plan, in, out, in_place, extras.parts, op, history, op);
  }
}

void CommunicatorState::launch_on_host(ReadyPlan& plan, ConstBuffer in, Buffer out, bool in_place,
                                       const CallPartsRef& parts, PendingCall& origin, std::uint64_t history_of_call,
                                       Completion& done) {
  if (plan.selection.offload != nullptr) {
    Call call{.desc = plan.desc,
              .in = in,
              .out = out,
              .fingerprint = origin.fingerprint,
              .history = history_of_call,
              .reducer = plan.reducer,
              .many = plan.many,
              .scaler = plan.scaler};
    add_parts(parts, call);
    plan.selection.offload->offload->launch(call, done);
  } else {
    world->executor.start({&executable(plan, in_place), in, out, history_of_call, group.generation, group.communicator,
                           static_cast<std::uint16_t>(origin.sequence), parts},
                          done);
  }
}

std::unique_ptr<ReadyPlan> CommunicatorState::make_plan(const CollectiveDesc& desc) {
  if (plans_.idle() >= kMostPlans) drop_idle_plans();
  auto plan = std::make_unique<ReadyPlan>();
  plan->owner = this;
  plan->desc = desc;
  plan->counts.assign(desc.counts.begin(), desc.counts.end());
  plan->displacements.assign(desc.displacements.begin(), desc.displacements.end());
  plan->desc.counts = plan->counts;
  plan->desc.displacements = plan->displacements;
  plan->selection = selector->select(desc);
  plan->counters = &world->control->counters_of(group, desc.collective, plan->selection.plan.chosen().transport);
  plan->counted_bytes = desc.bytes(group.size());
  if (world->options.config.verify_plans && plan->selection.recipe && group.rank == 0) {
    if (Status proof = prove(*plan->selection.recipe, desc, group.size()); !proof.ok()) {
      world->control->end(*this, proof);
      throw Error(proof.code(), std::string(proof.message()));
    }
  }
  if (reduces(desc.collective)) {
    plan->reducer = desc.op == ReduceOp::User ? *desc.user : reducer_for(desc.op, desc.dtype);
    if (desc.op == ReduceOp::User) {
      plan->desc.user = &plan->reducer;
    } else {
      plan->many = many_reducer_for(desc.op, desc.dtype);
    }
    if (desc.op == ReduceOp::Average) plan->scaler = scaler_for(desc.dtype, 1.0 / group.size());
    if (desc.op == ReduceOp::PreMulSum) plan->scaler = scaler_for(desc.dtype, desc.pre_multiply);
  }
  return plan;
}

Executable& CommunicatorState::executable(ReadyPlan& plan, bool in_place) {
  auto& made = plan.executable[in_place ? 1 : 0];
  if (!made) {
    Program program = plan.selection.recipe->build(plan.desc, group.rank, group.size(), in_place);
    made = Executable::make(plan.desc, std::move(program), plan.selection.segmentation, [&](int peer) {
      const auto& name = selector->transport_between(plan.selection.transports, group.rank, peer);
      return &world->endpoint(group.world_ranks[static_cast<std::size_t>(peer)], name);
    });
    made->group = &group;
  }
  return *made;
}

std::shared_ptr<ReadyPlan> CommunicatorState::ready_plan(const CollectiveDesc& desc) {
  const auto held = world->hold();
  return plans_.share(desc, fingerprint_of(desc), [&] { return make_plan(desc); });
}

void CommunicatorState::retire(ReadyPlan& plan) noexcept {
  plan.owner = nullptr;
  for (auto& e : plan.executable) {
    if (e) world->executor.forget(*e);
    e.reset();
  }
}

void CommunicatorState::drop_idle_plans() {
  std::vector<const ReadyPlan*> in_use{staged_plan_};
  world->calls->for_each_pending([&](const PendingCall& op) {
    if (op.owner == this && !is_message(op)) in_use.push_back(op.notes.plan);
  });
  plans_.drop_idle(in_use, [this](ReadyPlan& plan) { retire(plan); });
}

StagedCalls& CommunicatorState::staged_calls() {
  if (!staged_calls_) {
    staged_calls_ = std::make_unique<StagedCalls>(
        *world->device_runtime, world->device, stream_priority_, group.rank, group.size(),
        [this](const CollectiveDesc& segment, ConstBuffer in, Buffer out, const StagedCalls::SegmentOf& of,
               Completion& done) {
          ReadyPlan& plan = plans_.find(segment, fingerprint_of(segment), [&] { return make_plan(segment); });
          staged_plan_ = &plan;
          launch_on_host(plan, in, out, of.in_place, of.parts, static_cast<PendingCall&>(of.origin), of.history, done);
        });
    world->engine->add(*staged_calls_);
  }
  return *staged_calls_;
}

void CommunicatorState::give_up(PendingCall& op) noexcept {
  op.record.complete(Code::InvalidArgument);
  op.status = Status(Code::InvalidArgument, "it could not be launched");
  world->calls->tell_end(op);
  world->calls->release(op);
}

void CommunicatorState::end(const Status& reason) noexcept {
  if (!ended.ok()) return;
  ended = reason;
  for (NamedOffload& o : offloads) o.offload->abort(reason);
  world->executor.abort(group.communicator, reason);
  if (staged_calls_) staged_calls_->abort(reason);
  messages.end(reason);
}

Exchange CommunicatorState::exchange(const CallOptions& options) {
  const auto gather = [this, options](const std::vector<std::uint64_t>& words, std::vector<std::uint64_t>& all) {
    all.resize(words.size() * static_cast<std::size_t>(group.size()));
    const auto* in = reinterpret_cast<const std::byte*>(words.data());
    auto* out = reinterpret_cast<std::byte*>(all.data());
    const CollectiveDesc desc{.collective = Collective::AllGather, .dtype = DType::U64, .count = words.size()};
    start(desc, {in, words.size() * 8}, {out, all.size() * 8}, false, options).get();
  };
  return {group.rank, group.size(), [gather](const Bytes& mine) {
            std::vector<std::uint64_t> lengths;
            gather({mine.size()}, lengths);
            const std::size_t words = (*std::ranges::max_element(lengths) + 7) / 8;
            std::vector<std::uint64_t> padded(words);
            std::vector<std::uint64_t> all;
            std::ranges::copy(mine, reinterpret_cast<std::byte*>(padded.data()));
            gather(padded, all);
            std::vector<Bytes> everybody;
            for (std::size_t r = 0; r < lengths.size(); ++r) {
              const auto* first = reinterpret_cast<const std::byte*>(all.data() + r * words);
              everybody.emplace_back(first, first + lengths[r]);
            }
            return everybody;
          }};
}

std::size_t CommunicatorState::memory_bytes() const {
  std::size_t bytes = own_memory_bytes();
  for (const auto& child : children) bytes += child->memory_bytes();  // not under the lock, which it takes
  if (group.size() == 1) return bytes;
  const auto held = world->hold();
  return bytes + world->executor.kept_bytes();
}

std::size_t CommunicatorState::own_memory_bytes() const {
  std::size_t bytes = 0;
  const auto held = world->hold();
  for (const NamedOffload& o : offloads) bytes += o.offload->memory_bytes();
  plans_.for_each([&](const ReadyPlan& plan) {
    for (const auto& e : plan.executable) {
      if (e) bytes += world->executor.memory_bytes(*e);
    }
  });
  return bytes;
}

}  // namespace sinew

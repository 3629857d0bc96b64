#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/parts_collectives.hpp>
#include <sinew/parallel/placement/redistribution/neutral.hpp>
#include <sinew/parallel/placement/redistribution/run_steps.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>

namespace sinew::parallel {
namespace {

/// Bytes that are written before they are read.
struct Scratch {
  std::unique_ptr<std::byte[]> bytes;
  Buffer buffer;

  explicit Scratch(std::size_t size)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(size)), buffer{bytes.get(), size, {}} {}
};

/// One step on this rank: what it has before and after.
struct Step {
  const Transition& transition;
  const TensorSpec& before;
  const TensorSpec& after;
  Mesh& mesh;
  const CallOptions& options;
  Box had = box_of(before, mesh.shape(), mesh.rank());
  Box gets = box_of(after, mesh.shape(), mesh.rank());

  DType dtype() const noexcept { return before.dtype; }
  std::size_t each() const noexcept { return size_of(before.dtype); }

  void go(ConstBuffer in, Buffer out) const;
  void copy(ConstBuffer in, Buffer out) const;
  void all_to_all(ConstBuffer in, Buffer out) const;
};

/// Do the parts of a box, cut along a dimension, lie one behind the other?
bool leads(const Box& box, const Placement& cut) {
  const int dim = std::get<Shard>(cut).dim;
  for (int d = 0; d < dim; ++d) {
    if (box.extent(static_cast<std::size_t>(d)) > 1) return false;
  }
  return true;
}

/// Calls with a buffer in which the parts of `whole` lie one behind the other, made of `data`.
void with_packed(ConstBuffer data, const Box& whole, const std::vector<Box>& parts, bool packed, std::size_t each,
                 const std::function<void(ConstBuffer)>& call) {
  if (packed) return call(data);
  const Scratch scratch(data.bytes);
  std::byte* next = scratch.buffer.data;
  for (const Box& part : parts) {
    copy_box(data.data, whole, next, part, part, each);
    next += static_cast<std::size_t>(part.elements()) * each;
  }
  call(scratch.buffer);
}

/// The same for what is received.
void with_unpacked(Buffer data, const Box& whole, const std::vector<Box>& parts, bool packed, std::size_t each,
                   const std::function<void(Buffer)>& call) {
  if (packed) return call(data);
  const Scratch scratch(data.bytes);
  call(scratch.buffer);
  const std::byte* next = scratch.buffer.data;
  for (const Box& part : parts) {
    copy_box(next, part, data.data, whole, part, each);
    next += static_cast<std::size_t>(part.elements()) * each;
  }
}

void Step::copy(ConstBuffer in, Buffer out) const {
  const auto* partial = std::get_if<Partial>(&transition.to);
  if (partial != nullptr && has_neutral(partial->op)) {
    const bool keeps = std::holds_alternative<Shard>(transition.from) || mesh.index(transition.axis) == 0;
    if (!keeps || had != gets) fill_neutral(out, dtype(), partial->op);
    if (!keeps) return;
  }
  copy_box(in.data, had, out.data, gets, intersection(had, gets), each());
}

void Step::all_to_all(ConstBuffer in, Buffer out) const {
  std::vector<Box> given = boxes_along(after, transition.axis, mesh.shape(), mesh.rank());
  std::vector<Box> taken = boxes_along(before, transition.axis, mesh.shape(), mesh.rank());
  for (Box& box : given) box = intersection(box, had);
  for (Box& box : taken) box = intersection(box, gets);
  const Counts sends = counts_of(given);
  const Counts receives = counts_of(taken);
  with_packed(in, had, given, leads(had, transition.to), each(), [&](ConstBuffer from) {
    with_unpacked(out, gets, taken, leads(gets, transition.from), each(), [&](Buffer to) {
      Communicator& group = mesh.along(transition.axis);
      if (transition.collective == Collective::AllToAll) return group.all_to_all(from, to, dtype(), options).get();
      CallOptions bounded = options;
      bounded.largest_bytes = std::max(most_elements(local_extents(before, mesh.shape())),
                                       most_elements(local_extents(after, mesh.shape()))) *
                              each();
      group.all_to_all_v(from, to, dtype(), {sends}, {receives}, bounded).get();
    });
  });
}

void Step::go(ConstBuffer in, Buffer out) const {
  const Collective collective = transition.collective;
  if (collective == Collective::Barrier) return copy(in, out);
  if (collective == Collective::AllToAll || collective == Collective::AllToAllV) return all_to_all(in, out);
  Communicator& group = mesh.along(transition.axis);
  if (collective == Collective::AllGather || collective == Collective::AllGatherV) {
    const std::vector<Box> taken = boxes_along(before, transition.axis, mesh.shape(), mesh.rank());
    with_unpacked(out, gets, taken, leads(gets, transition.from), each(), [&](Buffer to) {
      gather_parts(group, in, to, dtype(), counts_of(taken), collective == Collective::AllGather, options).get();
    });
    return;
  }
  const ReduceOp op = std::get<Partial>(transition.from).op;
  if (collective == Collective::AllReduce) return group.all_reduce(in, out, dtype(), op, options).get();
  const std::vector<Box> given = boxes_along(after, transition.axis, mesh.shape(), mesh.rank());
  with_packed(in, had, given, leads(had, transition.to), each(), [&](ConstBuffer from) {
    reduce_parts(group, from, out, dtype(), counts_of(given), op, collective == Collective::ReduceScatter, options)
        .get();
  });
}

}  // namespace

void run_steps(const Redistribution& plan, ConstBuffer from, Buffer to, Mesh& mesh, const CallOptions& options) {
  TensorSpec before = plan.from;
  before.placements = normal_form(plan.from, mesh.shape());
  Scratch held(0);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Transition& transition = plan.steps[i];
    TensorSpec after = before;
    after.placements = before.placements.with(transition.axis, transition.to);
    after.placements = normal_form(after, mesh.shape());
    const bool last = i + 1 == plan.steps.size();
    Scratch made(last ? 0 : local_bytes(after, mesh.shape(), mesh.rank()));
    const Step step{transition, before, after, mesh, options};
    step.go(from, last ? to : made.buffer);
    from = made.buffer;
    held = std::move(made);
    before = std::move(after);
  }
  if (plan.steps.empty() && to.bytes > 0) std::memcpy(to.data, from.data, to.bytes);
}

}  // namespace sinew::parallel

#include <memory>
#include <span>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/call_settings.hpp>
#include <sinew/c/border/last_error.hpp>
#include <sinew/c/communicator.h>
#include <sinew/c/handles/use.hpp>
#include <sinew/collectives/call/call_shape.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

constexpr std::size_t kCollectiveCount = static_cast<std::size_t>(Collective::SendRecv) + 1;

CollectiveDesc description_of(const char* function, const sinew_call_description& given, int ranks) {
  require_struct_size(function, "sinew_call_description", given);
  require_unused(function, "unused of sinew_call_description", given.unused);
  CollectiveDesc desc;
  desc.collective = enum_of<Collective>(function, "collective", static_cast<int>(given.collective), kCollectiveCount);
  desc.dtype = dtype_of(function, static_cast<int>(given.dtype));
  desc.op = enum_of<ReduceOp>(function, "op", static_cast<int>(given.op), kReduceOpCount);
  desc.determinism = determinism_of(function, given.determinism);
  desc.codec = codec_of(function, given.codec);
  desc.place = place_of(function, given.memory_kind, given.memory_device);
  desc.root = given.root;
  desc.count = given.count;
  desc.separate = given.separate != 0;
  desc.largest_bytes = given.largest_bytes;
  desc.pre_multiply = given.pre_multiply;
  if (has_shared_counts(desc.collective)) {
    desc.counts = {&require_pointer(function, "counts", given.counts), static_cast<std::size_t>(ranks)};
    if (given.displacements != nullptr) desc.displacements = {given.displacements, static_cast<std::size_t>(ranks)};
  }
  return desc;
}

template <class Read>
sinew_status read_plan(const char* function, sinew_plan plan, Read&& read) noexcept {
  return guarded([&] {
    const Use<PlanEntry> use(function, plan.id);
    read(*use->plan);
  });
}

}  // namespace

extern "C" {

sinew_status sinew_communicator_plan(sinew_communicator communicator, const sinew_call_description* description,
                                     sinew_plan* plan) {
  const char* const function = "sinew_communicator_plan";
  return guarded([&] {
    require_pointer(function, "plan", plan).id = 0;
    const Use<CommunicatorEntry> use(function, communicator.id);
    const Communicator& c = *use->communicator;
    CollectiveDesc desc = description_of(function, require_pointer(function, "description", description), c.size());
    const Reducer user =
        reducer_of(description->reduce, description->reduce_context, static_cast<std::uint32_t>(size_of(desc.dtype)));
    if (description->reduce != nullptr) desc.user = &user;
    NewPlace<PlanEntry> place;
    place->plan = std::make_unique<Plan>(c.plan(desc));
    place->in_bytes = place->out_bytes = 0;
    if (!is_message(desc.collective) && !has_local_counts(desc.collective)) {
      const CallShape shape = call_shape(desc, c.rank(), c.size());
      place->in_bytes = shape.in.value_or(0);
      place->out_bytes = shape.out.value_or(0);
    }
    plan->id = place.open(use->of);
  });
}

sinew_status sinew_plan_explain(sinew_plan plan, char* text, size_t bytes, size_t* needed) {
  return read_plan("sinew_plan_explain", plan,
                   [&](const Plan& p) { copy_text("sinew_plan_explain", p.explain(), text, bytes, needed); });
}

sinew_status sinew_plan_json(sinew_plan plan, char* text, size_t bytes, size_t* needed) {
  return read_plan("sinew_plan_json", plan,
                   [&](const Plan& p) { copy_text("sinew_plan_json", p.to_json(), text, bytes, needed); });
}

sinew_status sinew_plan_free(sinew_plan* plan) {
  return guarded([&] {
    Taken<PlanEntry> taken("sinew_plan_free", require_pointer("sinew_plan_free", "plan", plan).id);
    taken.free();
    plan->id = 0;
  });
}

}  // extern "C"

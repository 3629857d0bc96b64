#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include <sinew/collectives/device_hierarchy/offload.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using Among = HierarchyStep::Among;

bool has_ended(const PendingCall& call) noexcept { return call.done.load(std::memory_order_acquire); }

}  // namespace

DeviceHierarchy::DeviceHierarchy(std::unique_ptr<HierarchyProspects> prospects, DeviceRuntime& runtime, int device,
                                 int rank, PartOfGroup& on_host, PartOfGroup& on_rail)
    : prospects_(std::move(prospects)),
      runtime_(runtime),
      device_(device),
      rank_(rank),
      on_host_(on_host),
      on_rail_(on_rail) {}

DeviceHierarchy::~DeviceHierarchy() {
  for (const Running& r : calls_) {
    for (const Step& s : r.steps) {
      if (s.call != nullptr) s.call->abandoned = true;  // whoever ends it gives it back
    }
  }
  runtime_.release(scratch_);
  if (stream_.device >= 0) runtime_.release(stream_);
}

PartOfGroup& DeviceHierarchy::part(Among among) noexcept { return among == Among::Host ? on_host_ : on_rail_; }

void DeviceHierarchy::launch(const Call& call, Completion& done) {
  Running& r = calls_.emplace_back();
  r.in = call.in;
  r.out = call.out;
  r.done = &done;
  r.history = call.history;
  r.status = ended_;
  try {
    r.program = hierarchy_program(call.desc, prospects_->hosts(), rank_);
    r.steps.resize(r.program.steps.size());
    r.next_on_host = next_of(r, Among::Host, 0);
    r.next_on_rail = next_of(r, Among::Rail, 0);
    if (call.after.device < 0) return;
    r.after = runtime_.record(call.after);
    r.waits = true;
  } catch (const std::exception& e) {  // the call ends in its turn, on all ranks
    abort(status_of(e));
  }
}

std::size_t DeviceHierarchy::next_of(const Running& r, Among among, std::size_t from) noexcept {
  while (from < r.steps.size() && r.program.steps[from].among != among) ++from;
  return from;
}

ConstBuffer DeviceHierarchy::memory_of(const Running& r, const HierarchyMemory& m) const noexcept {
  switch (m.of) {
    case HierarchyMemory::Of::In: return r.in.part(m.first, m.bytes);
    case HierarchyMemory::Of::Out: return ConstBuffer(r.out).part(m.first, m.bytes);
    case HierarchyMemory::Of::Scratch: return ConstBuffer(scratch_).part(m.first, m.bytes);
  }
  return {};
}

/// Called before the first step. The calls before this one have ended, so nobody uses the scratch memory.
void DeviceHierarchy::prepare(Running& r) {
  if (r.program.scratch_bytes > scratch_.bytes) {
    runtime_.release(std::exchange(scratch_, {}));
    scratch_ = runtime_.allocate(std::bit_ceil(r.program.scratch_bytes), {MemoryKind::Device, device_});
  }
  if (!r.waits) return;
  if (stream_.device < 0) stream_ = runtime_.make_stream(device_);
  runtime_.wait(stream_, r.after);
  runtime_.release(r.after);
  r.waits = false;
}

void DeviceHierarchy::start(Running& r, std::size_t step) {
  const HierarchyStep& s = r.program.steps[step];
  const ConstBuffer in = memory_of(r, s.in);
  const ConstBuffer out = memory_of(r, s.out);
  const Buffer to{const_cast<std::byte*>(out.data), out.bytes, out.place};
  const bool in_place = in.data < to.data + to.bytes && to.data < in.data + in.bytes;  // they share memory
  r.steps[step].call =
      &part(s.among).start(s.desc, in, to, in_place, s.needs.empty() ? stream_ : StreamRef{}, r.history);
}

int DeviceHierarchy::start_ready(Running& r, Among among, std::size_t& next) {
  int started = 0;
  const auto is_ready = [&](const HierarchyStep& s) {
    return std::ranges::all_of(s.needs, [&](std::size_t n) { return r.steps[n].has_ended; });
  };
  for (; next < r.steps.size() && is_ready(r.program.steps[next]); next = next_of(r, among, next + 1)) {
    start(r, next);
    ++started;
  }
  return started;
}

/// The status of a call of a part, with its rank as a number of the group.
Status DeviceHierarchy::in_group(const Status& status, Among among) const {
  if (status.rank() < 0) return status;
  const HostsOfGroup& hosts = prospects_->hosts();
  const auto self = static_cast<std::size_t>(rank_);
  const auto place = static_cast<std::size_t>(status.rank());
  const std::vector<int> ranks = among == Among::Host ? hosts.ranks_on[static_cast<std::size_t>(hosts.host_of[self])]
                                                      : hosts.ranks_at(hosts.place_of[self]);
  return {status.code(), std::string(status.message()), place < ranks.size() ? ranks[place] : -1};
}

int DeviceHierarchy::take_ended(Running& r) noexcept {
  int ended = 0;
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    PendingCall* call = r.steps[i].call;
    if (call == nullptr || !has_ended(*call)) continue;
    const Status status = call->status;
    r.steps[i] = {nullptr, true};
    call->slab->free(*call);
    ++ended;
    // Calls that end because of the first failure have its status, whose rank is one of the group already.
    if (!status.ok() && r.status.ok()) abort(in_group(status, r.program.steps[i].among));
  }
  return ended;
}

/// If a call of one part has failed, the other part may wait for ranks that will not come any more.
void DeviceHierarchy::abort(const Status& reason) noexcept {
  ended_ = reason;
  for (Running& r : calls_) {
    if (r.status.ok()) r.status = reason;
  }
  on_host_.end(reason);
  on_rail_.end(reason);
}

bool DeviceHierarchy::set_stream_priority(StreamPriority priority) {
  const bool host = on_host_.set_stream_priority(priority);
  const bool rail = on_rail_.set_stream_priority(priority);
  return host && rail;
}

int DeviceHierarchy::progress() noexcept {
  if (calls_.empty()) return 0;
  Running& r = calls_.front();
  int steps = take_ended(r);
  try {
    if (r.status.ok() && !r.is_prepared) {
      prepare(r);
      r.is_prepared = true;
    }
    if (r.status.ok()) steps += start_ready(r, Among::Host, r.next_on_host);
    if (r.status.ok()) steps += start_ready(r, Among::Rail, r.next_on_rail);
  } catch (const std::exception& e) {
    abort(status_of(e));
  }
  const auto in_flight = [](const Step& s) { return s.call != nullptr; };
  const auto is_over = [](const Step& s) { return s.has_ended; };
  if (std::ranges::any_of(r.steps, in_flight)) return steps;
  if (r.status.ok() && !std::ranges::all_of(r.steps, is_over)) return steps;
  if (r.waits) runtime_.release(r.after);
  Completion& done = *r.done;
  Status status = std::move(r.status);
  calls_.pop_front();
  done.finish(std::move(status));
  return steps + 1;
}

}  // namespace sinew

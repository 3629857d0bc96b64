#include <cstring>
#include <span>
#include <type_traits>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/trace/call_timer.hpp>
#include <sinew/core/runtime/call_record.hpp>

namespace sinew {
namespace {

template <class T>
void append(Bytes& to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), first, first + sizeof value);
}

void append_text(Bytes& to, const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  to.insert(to.end(), first, first + text.size());
}

}  // namespace

CallTimer::CallTimer(std::unique_ptr<CallLog> log, const RecordPage* page, ClockDifference clock)
    : log_(std::move(log)), page_(page), clock_(clock), sites_(RecordPage::kSites) {}

std::uint32_t CallTimer::define(const Group& group) {
  if (!log_) return 0;
  Bytes meaning;
  append(meaning, CommunicatorCell{group.identity, group.communicator, static_cast<std::uint32_t>(group.rank)});
  for (const int r : group.world_ranks) append(meaning, static_cast<std::int32_t>(r));
  return log_->define(CellKind::Communicator, meaning);
}

void CallTimer::entered(PendingCall& call, std::uint32_t communicator, CallHistory* history,
                        std::uint64_t extent) noexcept {
  call.notes = {.history = history, .extent = extent, .entered = monotonic_now()};
  if (!log_) return;
  const std::uint32_t site = site_of(call);
  const LogEntry place = log_->enter([&](CallCell& cell) {
    cell.communicator = communicator;
    cell.fingerprint = call.fingerprint;
    cell.extent = extent;
    cell.entered = call.notes.entered;
    cell.sequence = call.sequence;
    cell.peer = call.peer;
    cell.site = site;
  });
  call.notes.cell = place.cell;
  call.notes.block = place.block;
}

void CallTimer::ended(PendingCall& call) noexcept {
  const std::int64_t now = monotonic_now();
  const CallNotes& notes = call.notes;
  if (notes.cell != nullptr) {
    if (notes.plan != nullptr) notes.cell->plan = number_of(*notes.plan);
    notes.cell->outcome = static_cast<std::uint32_t>(call.status.code());
    notes.cell->in_place = notes.in_place ? 1 : 0;
    log_->complete({notes.cell, notes.block}, now);
  }
  if (notes.history != nullptr) keep(call, now);
}

std::uint32_t CallTimer::site_of(const PendingCall& call) {
  const std::uint16_t index = call.record.record->site.load(std::memory_order_relaxed);
  if (index == 0) return 0;
  std::uint32_t& number = sites_[index];
  if (number == 0) {
    const std::string text = RecordReader(page_).site(index);
    number = log_->define(CellKind::Site, std::as_bytes(std::span(text)));
  }
  return number;
}

std::uint32_t CallTimer::number_of(ReadyPlan& plan) {
  if (plan.logged != 0) return plan.logged;
  const Candidate& chosen = plan.selection.plan.chosen();
  Bytes meaning;
  append(meaning, PlanCell{plan.desc.bytes(plan.selection.plan.ranks()), chosen.predicted});
  append_text(meaning, chosen.algorithm);
  meaning.push_back(std::byte(0));
  append_text(meaning, chosen.transport);
  return plan.logged = log_->define(CellKind::Plan, meaning);
}

void CallTimer::keep(const PendingCall& call, std::int64_t now) {
  CallHistory& history = *call.notes.history;
  EndedCall ended{key_of(call.fingerprint, call.notes.extent, history.ranks()), call.sequence, call.notes.entered, now,
                  call.status.code()};
  const ReadyPlan* plan = call.notes.plan;
  if (plan != nullptr) ended.key.bytes = plan->desc.bytes(history.ranks());
  history.add(ended, plan != nullptr ? &plan->selection.plan.chosen() : nullptr);
}

}  // namespace sinew

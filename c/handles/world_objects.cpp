#include <algorithm>

#include <sinew/c/handles/world_objects.hpp>

namespace sinew::c {
namespace {

template <class Entry>
bool ends_with_world(const Entry&) noexcept {
  return true;
}
bool ends_with_world(const MemoryEntry& memory) noexcept { return !memory.outlives_world; }

}  // namespace

/// Returns true if there were any.
template <class Entry>
bool WorldObjects::close_some(const char* function) {
  auto& closed = std::get<Closed<Entry>>(closed_);
  bool found = false;
  handles<Entry>.for_each([&](TablePlace<Entry>& place, std::uint64_t generation) {
    if (!place.entry.of.is_of(&world_, generation_) || !ends_with_world(place.entry)) return;
    const std::pair at{&place, generation};
    if (in_child_ && std::ranges::find(closed, at) != closed.end()) return;
    closed.reserve(closed.size() + 1);
    const UseWord::Entry entry = in_child_ ? UseWord::Entry::Entered : place.word.close(generation);
    if (entry == UseWord::Entry::Busy) reject_user(function, Entry::kKind);
    if (entry == UseWord::Entry::Stale) return;  // freed meanwhile
    closed.push_back(at);
    found = true;
  });
  return found;
}

WorldObjects::WorldObjects(const char* function, Taken<WorldEntry>& world)
    : world_(world.place()), generation_(world.generation()), in_child_(world.in_child()) {
  try {
    // A thread that was inside a communicator may have made another object before the communicator was closed. So only
    // a round that finds nothing is the last one.
    bool found = true;
    while (found) {
      found = close_some<CommunicatorEntry>(function);
      found = close_some<WorkEntry>(function) || found;
      found = close_some<PlanEntry>(function) || found;
      found = close_some<MemoryEntry>(function) || found;
    }
  } catch (...) {
    reopen();
    throw;
  }
}

WorldObjects::~WorldObjects() { reopen(); }

void WorldObjects::reopen() noexcept {
  const auto all = [this](auto& closed) {
    for (auto& [place, generation] : closed) {
      if (!in_child_) place->word.reopen(generation);
    }
    closed.clear();
  };
  std::apply([&](auto&... closed) { (all(closed), ...); }, closed_);
}

void WorldObjects::free() noexcept {
  // Communicators come first, because they wait for the calls whose works come next.
  const auto all = [this](auto& closed) {
    for (auto& [place, generation] : closed) empty_place(*place, in_child_);
    closed.clear();
  };
  std::apply([&](auto&... closed) { (all(closed), ...); }, closed_);
}

}  // namespace sinew::c

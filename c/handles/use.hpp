#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <sinew/c/handles/entries.hpp>

namespace sinew::c {

[[noreturn]] void reject_handle(const char* function, Kind expected, std::uint64_t id);
[[noreturn]] void reject_second_thread(const char* function);
[[noreturn]] void reject_user(const char* function, Kind kind);
[[noreturn]] void reject_world(const char* function, Kind kind);
[[noreturn]] void reject_child(const char* function);

/// The place of a handle.
/// Errors: InvalidArgument if the handle is null, of another kind, or of an object that was freed.
template <class Entry>
[[gnu::always_inline]] inline TablePlace<Entry>& place_of_handle(const char* function, std::uint64_t id) {
  TablePlace<Entry>* place = handles<Entry>.find(id);
  if (place == nullptr || !place->word.holds(HandleId::generation(id))) [[unlikely]] {
    // An object that is being freed is closed, and is as good as gone.
    reject_handle(function, Entry::kKind, id);
  }
  return *place;
}

/// The only thread inside a World of Threads::Single, for as long as it lives. Nothing for other Worlds.
class WorldAlone {
 public:
  /// Errors: InvalidArgument if another thread is inside the World.
  WorldAlone(const char* function, const Belonging& of) {
    WorldPlace* world = of.world();
    if (!world->entry.is_single.load(std::memory_order_relaxed)) return;
    generation_ = of.generation();
    const UseWord::Entry entry = world->word.enter_alone(generation_);
    if (entry == UseWord::Entry::Busy) [[unlikely]]
      reject_second_thread(function);
    if (entry == UseWord::Entry::Entered) world_ = world;
  }
  ~WorldAlone() {
    if (world_ != nullptr) world_->word.leave_alone(generation_);
  }
  WorldAlone(const WorldAlone&) = delete;
  WorldAlone& operator=(const WorldAlone&) = delete;

  explicit operator bool() const noexcept { return world_ != nullptr; }

 private:
  WorldPlace* world_ = nullptr;
  std::uint64_t generation_ = 0;
};

/// An object that a function of the C API uses, from the handle that the caller gave. As long as it lives, no other
/// thread frees the object. With Threads::Single no other thread is inside the World. A work has one user at a time.
/// Cost: with Threads::Single one locked instruction, with Threads::Multiple two.
template <class Entry>
class Use {
 public:
  /// Errors: InvalidArgument if the handle is null, of another kind or out of date. Also if another thread is inside a
  ///         World of Threads::Single, and in a child of fork.
  Use(const char* function, std::uint64_t id)
      : place_(place_of_handle<Entry>(function, id)),
        generation_(HandleId::generation(id)),
        alone_(function, checked(function)) {
    if (alone_) {
      // The handle was looked at before this thread was alone.
      if (std::is_same_v<Entry, WorldEntry> || place_.word.holds(generation_)) return;
      reject_handle(function, Entry::kKind, id);
    }
    const UseWord::Entry entry = kOneUser ? place_.word.enter_alone(generation_) : place_.word.enter(generation_);
    if (entry == UseWord::Entry::Stale) reject_handle(function, Entry::kKind, id);
    if (entry == UseWord::Entry::Busy) reject_user(function, Entry::kKind);
  }
  ~Use() {
    if (alone_) return;
    if constexpr (kOneUser) {
      place_.word.leave_alone(generation_);
    } else {
      place_.word.leave();
    }
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  Entry& entry() const noexcept { return place_.entry; }
  Entry* operator->() const noexcept { return &place_.entry; }

 private:
  static constexpr bool kOneUser = std::is_same_v<Entry, WorkEntry>;

  const Belonging& checked(const char* function) const {
    const Belonging& of = place_.entry.of;
    if (of.in_child()) [[unlikely]]
      reject_child(function);
    return of;
  }

  TablePlace<Entry>& place_;
  std::uint64_t generation_;
  WorldAlone alone_;
};

/// A second object that a function uses, of the World that the thread is inside of already.
template <class Entry>
class UseBeside {
 public:
  /// `inside`: the World of the first object.
  /// Errors: those of Use. InvalidArgument for an object of another World.
  UseBeside(const char* function, std::uint64_t id, const Belonging& inside)
      : place_(place_of_handle<Entry>(function, id)) {
    const UseWord::Entry entry = place_.word.enter(HandleId::generation(id));
    if (entry == UseWord::Entry::Stale) reject_handle(function, Entry::kKind, id);
    if (entry == UseWord::Entry::Busy) reject_user(function, Entry::kKind);
    if (place_.entry.of.is_of(inside.world(), inside.generation())) return;
    place_.word.leave();
    reject_world(function, Entry::kKind);
  }
  ~UseBeside() { place_.word.leave(); }
  UseBeside(const UseBeside&) = delete;
  UseBeside& operator=(const UseBeside&) = delete;

  const Entry* operator->() const noexcept { return &place_.entry; }

 private:
  TablePlace<Entry>& place_;
};

/// Destroys the object of a closed place, and gives the place back. In a child of fork it leaves the object alone.
template <class Entry>
void empty_place(TablePlace<Entry>& place, bool in_child) noexcept {
  in_child ? place.entry.forget() : place.entry.drop();
  place.word.retire();
  handles<Entry>.give_back(place);
}

/// A place for a new object. The handle comes with open(). Without open() the place is given back.
template <class Entry>
class NewPlace {
 public:
  /// Errors: std::bad_alloc.
  NewPlace() : place_(&handles<Entry>.take()) {}
  ~NewPlace() {
    if (place_ == nullptr) return;
    place_->entry.drop();
    handles<Entry>.give_back(*place_);
  }
  NewPlace(const NewPlace&) = delete;
  NewPlace& operator=(const NewPlace&) = delete;

  TablePlace<Entry>& place() noexcept { return *place_; }
  Entry* operator->() noexcept { return &place_->entry; }
  /// From now on the object belongs to its handle, which is returned.
  std::uint64_t open(const Belonging& of) noexcept {
    place_->entry.of.set(of);
    const std::uint64_t id = place_->id(place_->word.open());
    place_ = nullptr;
    return id;
  }

 private:
  TablePlace<Entry>* place_;
};

/// An object that is closed, so that nobody else uses it. It is given back to its handle at the end, or freed by
/// free().
/// With Threads::Single no other thread is inside the World meanwhile.
template <class Entry>
class Taken {
 public:
  /// Errors: those of Use, but for a child of fork. InvalidArgument if another thread uses the object.
  Taken(const char* function, std::uint64_t id)
      : place_(&place_of_handle<Entry>(function, id)),
        generation_(HandleId::generation(id)),
        in_child_(place_->entry.of.in_child()) {
    if (in_child_) return;  // a thread of the parent may have been inside, and will never leave
    if constexpr (!std::is_same_v<Entry, WorldEntry>) alone_.emplace(function, place_->entry.of);
    const UseWord::Entry entry = place_->word.close(generation_);
    if (entry == UseWord::Entry::Stale) reject_handle(function, Entry::kKind, id);
    if (entry == UseWord::Entry::Busy) reject_user(function, Entry::kKind);
  }
  ~Taken() {
    if (place_ != nullptr && !in_child_) place_->word.reopen(generation_);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  bool in_child() const noexcept { return in_child_; }
  Entry* operator->() noexcept { return &place_->entry; }
  TablePlace<Entry>& place() noexcept { return *place_; }
  std::uint64_t generation() const noexcept { return generation_; }
  /// Destroys the object. In a child of fork it leaves the object alone.
  void free() noexcept { empty_place(*std::exchange(place_, nullptr), in_child_); }

 private:
  TablePlace<Entry>* place_;
  std::uint64_t generation_;
  bool in_child_;
  std::optional<WorldAlone> alone_;
};

}  // namespace sinew::c

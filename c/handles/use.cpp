#include <string>

#include <fmt/format.h>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/handles/use.hpp>

namespace sinew::c {

std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::World: return "World";
    case Kind::Communicator: return "communicator";
    case Kind::Plan: return "plan";
    case Kind::Memory: return "memory";
    case Kind::Work: return "work";
  }
  return "?";
}

void reject_handle(const char* function, Kind expected, std::uint64_t id) {
  const std::string_view name = name_of(expected);
  if (id == 0) {
    const std::string_view why = expected == Kind::Work ? ": no call was started, or it was waited for already" : "";
    reject(function, fmt::format("the {} is the null handle{}", name, why));
  }
  const unsigned kind = HandleId::kind(id);
  if (kind != static_cast<unsigned>(expected) && kind >= 1 && kind <= kKinds)
    reject(function, fmt::format("expected the handle of a {}, found that of a {}", name,
                                 name_of(Kind{static_cast<std::uint8_t>(kind)})));
  reject(function, fmt::format("the {} handle {:#x} is not valid: its {} was {}, or never made", name, id, name,
                               expected == Kind::Work ? "waited for or freed" : "freed"));
}

void reject_second_thread(const char* function) {
  reject(function,
         "another thread is inside the World, or a function that a call runs has called this one. The World is of "
         "SINEW_THREADS_SINGLE: let one thread at a time use it, or make it with SINEW_THREADS_MULTIPLE");
}

void reject_user(const char* function, Kind kind) {
  reject(function, fmt::format("another thread uses the {}, expected that no thread does", name_of(kind)));
}

void reject_world(const char* function, Kind kind) {
  reject(function, fmt::format("the {} is of another World than the communicator", name_of(kind)));
}

void reject_child(const char* function) {
  reject(function, "this process was forked since the World was made: only the process that made it can use it");
}

}  // namespace sinew::c

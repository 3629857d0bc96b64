#include <memory>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/call_settings.hpp>
#include <sinew/c/border/last_error.hpp>
#include <sinew/c/communicator.h>
#include <sinew/c/handles/use.hpp>
#include <sinew/c/world.h>

using namespace sinew;
using namespace sinew::c;

extern "C" {

sinew_status sinew_world_allocate(sinew_world world, size_t bytes, int huge_pages, sinew_memory* memory) {
  return guarded([&] {
    const char* const function = "sinew_world_allocate";
    require_pointer(function, "memory", memory).id = 0;
    const Use<WorldEntry> use(function, world.id);
    NewPlace<MemoryEntry> place;
    place->memory = std::make_unique<Memory>(use->world->allocate(bytes, huge_pages != 0));
    place->outlives_world = true;
    memory->id = place.open(use->of);
  });
}

sinew_status sinew_communicator_allocate(sinew_communicator communicator, size_t bytes,
                                         const sinew_call_options* options, sinew_memory* memory) {
  return guarded([&] {
    const char* const function = "sinew_communicator_allocate";
    require_pointer(function, "memory", memory).id = 0;
    const Use<CommunicatorEntry> use(function, communicator.id);
    const CallSettings settings(function, options, true, 0);
    NewPlace<MemoryEntry> place;
    place->memory = std::make_unique<Memory>(use->communicator->allocate(bytes, settings.options()));
    place->outlives_world = false;
    memory->id = place.open(use->of);
  });
}

sinew_status sinew_memory_get(sinew_memory memory, void** data, size_t* bytes) {
  return guarded([&] {
    const Use<MemoryEntry> use("sinew_memory_get", memory.id);
    const Buffer buffer = use->memory->buffer();
    if (data != nullptr) *data = buffer.data;
    if (bytes != nullptr) *bytes = buffer.bytes;
  });
}

sinew_status sinew_memory_known_as(sinew_memory memory, char* text, size_t bytes, size_t* needed) {
  return guarded([&] {
    const Use<MemoryEntry> use("sinew_memory_known_as", memory.id);
    copy_text("sinew_memory_known_as", use->memory->known_as(), text, bytes, needed);
  });
}

sinew_status sinew_memory_free(sinew_memory* memory) {
  return guarded([&] {
    Taken<MemoryEntry> taken("sinew_memory_free", require_pointer("sinew_memory_free", "memory", memory).id);
    taken.free();
    memory->id = 0;
  });
}

}  // extern "C"

#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/call_settings.hpp>
#include <sinew/c/border/last_error.hpp>
#include <sinew/c/communicator.h>
#include <sinew/c/handles/use.hpp>
#include <sinew/core/call/group.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

template <class Read>
sinew_status read(const char* function, sinew_communicator communicator, Read&& read) noexcept {
  return guarded([&] {
    const Use<CommunicatorEntry> use(function, communicator.id);
    read(*use.operator->(), *use->communicator);
  });
}

void require_rank_of(const char* function, int rank, const Communicator& communicator) {
  if (rank < 0 || rank >= communicator.size())
    reject_number(function, "rank", rank, static_cast<std::size_t>(communicator.size()));
}

/// The name that a split without one gets: the color and, if it is short enough, the caller's line.
std::string name_of_split(int color, const CallOptions& options) {
  const std::string name = fmt::format("split {}", color);
  if (options.label == nullptr) return name;
  const std::string_view site(options.label);
  const std::string with_site = fmt::format("{} at {}", name, site.substr(site.rfind('/') + 1));
  return with_site.size() <= kLongestGroupName ? with_site : name;
}

std::string json_of(const CommunicatorStats& stats) {
  nlohmann::json calls = nlohmann::json::array();
  for (const CallStats& c : stats.calls) {
    calls.push_back({{"collective", name_of(c.collective)},
                     {"dtype", name_of(c.dtype)},
                     {"bytes", c.bytes},
                     {"algorithm", c.algorithm},
                     {"transport", c.transport},
                     {"calls", c.calls},
                     {"failed", c.failed},
                     {"judged", c.judged},
                     {"total_s", c.total},
                     {"time_median_s", c.time_median},
                     {"busbw", c.busbw},
                     {"skew_median_s", c.skew_median},
                     {"skew_worst_s", c.skew_worst},
                     {"last_rank", c.last_rank},
                     {"last_calls", c.last_calls},
                     {"predicted_s", c.predicted}});
  }
  return nlohmann::json{{"clock_error_s", stats.clock_error}, {"calls", calls}}.dump();
}

}  // namespace

extern "C" {

sinew_status sinew_communicator_rank(sinew_communicator communicator, int* rank) {
  const char* const function = "sinew_communicator_rank";
  return read(function, communicator,
              [&](CommunicatorEntry&, Communicator& c) { require_pointer(function, "rank", rank) = c.rank(); });
}

sinew_status sinew_communicator_size(sinew_communicator communicator, int* size) {
  const char* const function = "sinew_communicator_size";
  return read(function, communicator,
              [&](CommunicatorEntry&, Communicator& c) { require_pointer(function, "size", size) = c.size(); });
}

sinew_status sinew_communicator_world_rank(sinew_communicator communicator, int rank, int* world_rank) {
  const char* const function = "sinew_communicator_world_rank";
  return read(function, communicator, [&](CommunicatorEntry&, Communicator& c) {
    require_rank_of(function, rank, c);
    require_pointer(function, "world_rank", world_rank) = c.world_rank(rank);
  });
}

sinew_status sinew_communicator_name(sinew_communicator communicator, char* text, size_t bytes, size_t* needed) {
  const char* const function = "sinew_communicator_name";
  return read(function, communicator,
              [&](CommunicatorEntry&, Communicator& c) { copy_text(function, c.name(), text, bytes, needed); });
}

sinew_status sinew_communicator_rank_text(sinew_communicator communicator, int rank, char* text, size_t bytes,
                                          size_t* needed) {
  const char* const function = "sinew_communicator_rank_text";
  return read(function, communicator, [&](CommunicatorEntry&, Communicator& c) {
    require_rank_of(function, rank, c);
    copy_text(function, c.rank_text(rank), text, bytes, needed);
  });
}

sinew_status sinew_communicator_split(sinew_communicator communicator, int color, int key, const char* name,
                                      const sinew_call_options* options, sinew_communicator* part) {
  const char* const function = "sinew_communicator_split";
  return read(function, communicator, [&](CommunicatorEntry& entry, Communicator& c) {
    require_pointer(function, "part", part).id = 0;
    const CallSettings settings(function, options, true, 0);
    NewPlace<CommunicatorEntry> place;
    const std::string shown = name == nullptr || *name == '\0' ? name_of_split(color, settings.options()) : name;
    place->owned = std::make_unique<Communicator>(c.split(color, key, settings.options(), shown));
    if (place->owned->size() == 0) return;
    place->communicator = place->owned.get();
    part->id = place.open(entry.of);
  });
}

sinew_status sinew_communicator_free(sinew_communicator* communicator) {
  const char* const function = "sinew_communicator_free";
  return guarded([&] {
    Taken<CommunicatorEntry> taken(function, require_pointer(function, "communicator", communicator).id);
    if (!taken->owned) reject(function, "this is the communicator of all ranks, which sinew_world_free frees");
    taken.free();
    communicator->id = 0;
  });
}

sinew_status sinew_communicator_set_stream_priority(sinew_communicator communicator, sinew_stream_priority priority) {
  const char* const function = "sinew_communicator_set_stream_priority";
  return read(function, communicator, [&](CommunicatorEntry&, Communicator& c) {
    c.set_stream_priority(enum_of<StreamPriority>(function, "priority", static_cast<int>(priority), 2));
  });
}

sinew_status sinew_communicator_abort(sinew_communicator communicator, const char* reason) {
  const char* const function = "sinew_communicator_abort";
  return read(function, communicator, [&](CommunicatorEntry&, Communicator& c) {
    require_pointer(function, "reason", reason);
    c.abort(reason);
  });
}

sinew_status sinew_communicator_abort_here(sinew_communicator communicator, const char* reason) {
  const char* const function = "sinew_communicator_abort_here";
  return read(function, communicator, [&](CommunicatorEntry&, Communicator& c) {
    require_pointer(function, "reason", reason);
    c.abort_here(reason);
  });
}

sinew_status sinew_communicator_verdict(sinew_communicator communicator, char* text, size_t bytes, size_t* needed) {
  const char* const function = "sinew_communicator_verdict";
  return read(function, communicator,
              [&](CommunicatorEntry&, Communicator& c) { copy_text(function, c.verdict(), text, bytes, needed); });
}

sinew_status sinew_communicator_memory_bytes(sinew_communicator communicator, size_t* bytes) {
  const char* const function = "sinew_communicator_memory_bytes";
  return read(function, communicator, [&](CommunicatorEntry&, Communicator& c) {
    require_pointer(function, "bytes", bytes) = c.memory_bytes();
  });
}

sinew_status sinew_communicator_gather_stats(sinew_communicator communicator, const sinew_call_options* options) {
  const char* const function = "sinew_communicator_gather_stats";
  return read(function, communicator, [&](CommunicatorEntry& entry, Communicator& c) {
    const CallSettings settings(function, options, true, 0);
    entry.stats = json_of(c.stats(settings.options()));
  });
}

sinew_status sinew_communicator_stats(sinew_communicator communicator, char* text, size_t bytes, size_t* needed) {
  const char* const function = "sinew_communicator_stats";
  return read(function, communicator, [&](CommunicatorEntry& entry, Communicator&) {
    if (entry.stats.empty()) reject(function, "nothing was gathered: call sinew_communicator_gather_stats first");
    copy_text(function, entry.stats, text, bytes, needed);
  });
}

}  // extern "C"

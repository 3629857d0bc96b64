#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/last_error.hpp>
#include <sinew/c/handles/use.hpp>
#include <sinew/c/handles/world_objects.hpp>
#include <sinew/c/world.h>
#include <sinew/collectives/world.hpp>

using namespace sinew;
using namespace sinew::c;

/// The bytes of all ranks that one round of an exchange has gathered so far.
struct sinew_gathered {
  std::vector<std::optional<Bytes>> of_ranks;
};

namespace {

/// The longest secret that is accepted. A larger number is taken for a mistake, such as an uninitialized variable.
constexpr std::size_t kLongestSecret = std::size_t{1} << 20;

WorldOptions options_of(const char* function, const sinew_world_options* given) {
  WorldOptions options;
  if (given == nullptr) return options;
  require_struct_size(function, "sinew_world_options", *given);
  require_unused(function, "unused of sinew_world_options", given->unused);
  options.threads = enum_of<Threads>(function, "threads", static_cast<int>(given->threads), 2);
  options.device = given->device;
  options.count_sent = given->count_sent != 0;
  if (given->secret_bytes != 0) {
    const auto* first = static_cast<const std::byte*>(given->secret);
    require_pointer(function, "secret", first);
    if (given->secret_bytes > kLongestSecret)
      reject(function, fmt::format("secret_bytes is {}, expected at most {}", given->secret_bytes, kLongestSecret));
    options.secret.assign(first, first + given->secret_bytes);
  }
  if (given->config_count != 0) require_pointer(function, "config", given->config);
  for (std::size_t i = 0; i < given->config_count; ++i) {
    require_pointer(function, "an entry of config", given->config[i]);
    options.config.set(given->config[i]);
  }
  return options;
}

/// Gives a World that was made its handle.
std::uint64_t open(World made, bool is_single) {
  NewPlace<WorldEntry> world;
  NewPlace<CommunicatorEntry> everybody;
  world->transports = made.transports();
  world->world = std::make_unique<World>(std::move(made));
  world->is_single = is_single;
  everybody->communicator = &world->world->communicator();
  Belonging of;
  of.set(&world.place(), world.place().word.next_generation());
  world->communicator = everybody.open(of);
  return world.open(of);
}

Exchange exchange_of(const sinew_exchange& given) {
  const auto all_gather = [given](const Bytes& mine) {
    sinew_gathered all{std::vector<std::optional<Bytes>>(static_cast<std::size_t>(given.size))};
    const sinew_status status = given.all_gather(given.context, mine.data(), mine.size(), &all);
    if (status != SINEW_OK) {
      const bool is_failure = status > SINEW_PENDING && status <= SINEW_SYSTEM;
      throw Error(is_failure ? static_cast<Code>(status) : Code::System,
                  fmt::format("the exchange's all_gather returned {} ({})", static_cast<int>(status),
                              sinew_status_name(status)));
    }
    std::vector<Bytes> gathered;
    for (std::optional<Bytes>& bytes : all.of_ranks) {
      if (!bytes)
        throw Error(Code::InvalidArgument,
                    fmt::format("the exchange's all_gather returned without the bytes of rank {}", gathered.size()));
      gathered.push_back(std::move(*bytes));
    }
    return gathered;
  };
  return {given.rank, given.size, all_gather};
}

template <class Read>
sinew_status read_world(const char* function, sinew_world world, Read&& read) noexcept {
  return guarded([&] {
    const Use<WorldEntry> use(function, world.id);
    return read(*use.operator->());
  });
}

}  // namespace

extern "C" {

sinew_status sinew_gathered_put(sinew_gathered* all, int rank, const void* bytes, size_t count) {
  return guarded([&] {
    auto& of_ranks = require_pointer("sinew_gathered_put", "all", all).of_ranks;
    if (rank < 0 || static_cast<std::size_t>(rank) >= of_ranks.size())
      reject_number("sinew_gathered_put", "rank", rank, of_ranks.size());
    const auto* first = static_cast<const std::byte*>(bytes);
    if (count != 0) require_pointer("sinew_gathered_put", "bytes", first);
    of_ranks[static_cast<std::size_t>(rank)] = Bytes(first, first + count);
  });
}

sinew_status sinew_world_from_environment(const sinew_world_options* options, sinew_world* world) {
  return guarded([&] {
    const char* const function = "sinew_world_from_environment";
    require_pointer(function, "world", world).id = 0;
    WorldOptions wanted = options_of(function, options);
    const bool is_single = wanted.threads == Threads::Single;
    world->id = open(World::from_environment(std::move(wanted)), is_single);
  });
}

sinew_status sinew_world_create(const sinew_exchange* exchange, const sinew_world_options* options,
                                sinew_world* world) {
  return guarded([&] {
    const char* const function = "sinew_world_create";
    require_pointer(function, "world", world).id = 0;
    require_struct_size(function, "sinew_exchange", require_pointer(function, "exchange", exchange));
    if (exchange->all_gather == nullptr) reject_pointer(function, "all_gather");
    WorldOptions wanted = options_of(function, options);
    const bool is_single = wanted.threads == Threads::Single;
    world->id = open(World::create(exchange_of(*exchange), std::move(wanted)), is_single);
  });
}

sinew_status sinew_world_free(sinew_world* world) {
  return guarded([&] {
    const char* const function = "sinew_world_free";
    Taken<WorldEntry> taken(function, require_pointer(function, "world", world).id);
    WorldObjects objects(function, taken);
    objects.free();
    taken.free();
    world->id = 0;
  });
}

sinew_status sinew_world_rank(sinew_world world, int* rank) {
  return read_world("sinew_world_rank", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_rank", "rank", rank) = entry.world->rank();
  });
}

sinew_status sinew_world_size(sinew_world world, int* size) {
  return read_world("sinew_world_size", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_size", "size", size) = entry.world->size();
  });
}

sinew_status sinew_world_communicator(sinew_world world, sinew_communicator* communicator) {
  return read_world("sinew_world_communicator", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_communicator", "communicator", communicator).id = entry.communicator;
  });
}

sinew_status sinew_world_transport_count(sinew_world world, size_t* count) {
  return read_world("sinew_world_transport_count", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_transport_count", "count", count) = entry.transports.size();
  });
}

sinew_status sinew_world_transport(sinew_world world, size_t index, sinew_transport* transport) {
  const char* const function = "sinew_world_transport";
  return read_world(function, world, [&](WorldEntry& entry) {
    require_struct_size(function, "sinew_transport", require_pointer(function, "transport", transport));
    if (index >= entry.transports.size())
      reject(function, fmt::format("index is {}, expected 0 to {}", index, entry.transports.size() - 1));
    const TransportStatus& status = entry.transports[index];
    *transport = {sizeof *transport,        status.name.c_str(),    status.ok ? 1 : 0,        status.reason.c_str(),
                  status.no_device.c_str(), status.offload.c_str(), status.left_alone.c_str()};
  });
}

sinew_status sinew_world_facts(sinew_world world, char* text, size_t bytes, size_t* needed) {
  return read_world("sinew_world_facts", world, [&](WorldEntry& entry) {
    copy_text("sinew_world_facts", entry.world->facts(), text, bytes, needed);
  });
}

sinew_status sinew_world_sent_bytes(sinew_world world, uint64_t* bytes, size_t count) {
  const char* const function = "sinew_world_sent_bytes";
  return read_world(function, world, [&](WorldEntry& entry) {
    const std::vector<std::uint64_t> sent = entry.world->sent_bytes();
    if (sent.empty())
      throw Error(Code::Unavailable, fmt::format("{}: the World was made without count_sent", function));
    if (count != sent.size())
      reject(function, fmt::format("count is {}, expected {}: one per rank", count, sent.size()));
    require_pointer(function, "bytes", bytes);
    std::ranges::copy(sent, bytes);
  });
}

sinew_status sinew_world_status(sinew_world world) {
  return read_world("sinew_world_status", world, [](WorldEntry& entry) { return report(entry.world->status()); });
}

sinew_status sinew_world_abort(sinew_world world, const char* reason) {
  return read_world("sinew_world_abort", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_abort", "reason", reason);
    entry.world->abort(reason);
  });
}

sinew_status sinew_world_shrink(sinew_world world, sinew_world* next) {
  return read_world("sinew_world_shrink", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_shrink", "next", next).id = 0;
    next->id = open(entry.world->shrink(), entry.is_single);
  });
}

sinew_status sinew_world_descriptor(sinew_world world, int* descriptor) {
  return read_world("sinew_world_descriptor", world, [&](WorldEntry& entry) {
    require_pointer("sinew_world_descriptor", "descriptor", descriptor) = entry.world->descriptor();
  });
}

sinew_status sinew_world_poll(sinew_world world, int* events) {
  return read_world("sinew_world_poll", world, [&](WorldEntry& entry) {
    const int handled = entry.world->poll();
    if (events != nullptr) *events = handled;
  });
}

sinew_status sinew_world_subgroup(sinew_world world, const int* ranks, size_t count, const char* name, double seconds,
                                  sinew_communicator* communicator) {
  const char* const function = "sinew_world_subgroup";
  return read_world(function, world, [&](WorldEntry& entry) {
    require_pointer(function, "communicator", communicator).id = 0;
    require_pointer(function, "ranks", ranks);
    require_pointer(function, "name", name);
    const auto size = static_cast<std::size_t>(entry.world->size());
    if (count < 1 || count > size) reject(function, fmt::format("count is {}, expected 1 to {}", count, size));
    NewPlace<CommunicatorEntry> place;
    place->owned = std::make_unique<Communicator>(
        entry.world->subgroup(std::span(ranks, count), name, deadline_of(function, "seconds", seconds)));
    place->communicator = place->owned.get();
    communicator->id = place.open(entry.of);
  });
}

}  // extern "C"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/control/survival/survivors.hpp>
#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/rendezvous.hpp>
#include <sinew/collectives/virtual_cluster/virtual_facts.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/collectives/world/child_communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/collectives/world/id_ballot.hpp>
#include <sinew/collectives/world/making_offloads.hpp>
#include <sinew/collectives/world/making_rounds.hpp>
#include <sinew/collectives/world/measure.hpp>
#include <sinew/collectives/world/member_exchange.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

/// Makes progress in a World of one thread while that thread does something else.
class ProgressMeanwhile {
 public:
  explicit ProgressMeanwhile(Engine& engine)
      : thread_(thread_without_signals([this, &engine] {
          engine.wait([this] { return over_.load(std::memory_order_acquire); }, Deadline::never(), {});
        })) {}
  ~ProgressMeanwhile() {
    over_.store(true, std::memory_order_release);
    thread_.join();
  }
  ProgressMeanwhile(const ProgressMeanwhile&) = delete;
  ProgressMeanwhile& operator=(const ProgressMeanwhile&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

Group everyone(int rank, int size, std::uint8_t generation, std::uint16_t id, std::string name) {
  Group group{rank, std::vector<int>(static_cast<std::size_t>(size)), generation, id, id, std::move(name)};
  std::iota(group.world_ranks.begin(), group.world_ranks.end(), 0);
  return group;
}

void require_members(std::span<const int> ranks, int self, int size) {
  const std::string asked = fmt::format("subgroup of ranks {}", fmt::join(ranks, ", "));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size)
      throw Error(Code::InvalidArgument, fmt::format("{}: expected ranks from 0 to {}", asked, size - 1));
    if (std::ranges::count(ranks, ranks[i]) > 1)
      throw Error(Code::InvalidArgument, fmt::format("{}: rank {} is there twice", asked, ranks[i]));
  }
  if (std::ranges::find(ranks, self) == ranks.end())
    throw Error(Code::InvalidArgument, fmt::format("{}: called by rank {}, which is not one of them", asked, self));
}

}  // namespace

struct World::Inside {
  std::shared_ptr<WorldState> state;
  Communicator everybody;
  std::mutex bootstrap_mutex{};
  std::shared_ptr<CommunicatorState> bootstrap{};  ///< of all ranks, from the first subgroup on
};

World::World(std::unique_ptr<Inside> inside) noexcept : inside_(std::move(inside)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&& other) noexcept {
  const World before(std::exchange(inside_, std::move(other.inside_)));
  return *this;
}
World::~World() {
  // A fork's child ends nothing that its parent still uses: not the sockets, and not the memory that others read.
  if (inside_ && inside_->state->is_forked()) static_cast<void>(inside_.release());
}

World World::from_environment(WorldOptions options) {
  if (Rendezvous::limits()) {
    return World(make_of_rounds(*Rendezvous::of_process(options.config), options));
  }
  const Launch launch = exchange_from_environment(options.config);
  if (options.secret.empty()) options.secret = launch.secret;
  return create(launch.exchange, std::move(options));
}

World World::create(Exchange exchange, WorldOptions options) {
  if (exchange.size < 1 || exchange.rank < 0 || exchange.rank >= exchange.size) {
    throw Error(Code::InvalidArgument,
                fmt::format("rank {} of {}: expected 0 <= rank < size", exchange.rank, exchange.size));
  }
  if (!exchange.all_gather) throw Error(Code::InvalidArgument, "exchange.all_gather is empty, expected a function");
  const auto size = static_cast<std::size_t>(exchange.size);
  exchange.all_gather = [size, gather = std::move(exchange.all_gather)](const Bytes& mine) {
    std::vector<Bytes> all = gather(mine);
    if (all.size() == size) return all;
    throw Error(Code::InvalidArgument,
                fmt::format("exchange.all_gather returned {} elements, expected {}, one per rank", all.size(), size));
  };
  return World(make(exchange, std::move(options)));
}

std::unique_ptr<World::Inside> World::make(const Exchange& base, WorldOptions options) {
  const MakingRounds making(base);
  const Exchange& exchange = making.exchange();
  auto state = std::make_shared<WorldState>(exchange, std::move(options));
  if (state->options.virtual_world) {
    set_virtual_rates(*state->options.virtual_world, state->facts);
  } else {
    const auto held = state->hold();
    settle_costs(*state, state->with_lock_free(exchange));
  }
  auto all = or_give_up(exchange, [&] {
    return CommunicatorState::make(state, everyone(exchange.rank, exchange.size, state->tag_generation(), 0, "world"));
  });
  all->adopt(make_offloads(*state, all->group, exchange));
  if (SharedProgress* shared = state->calls->shared()) shared->start_thread();
  add_device_hierarchy(*all, exchange);
  return std::unique_ptr<Inside>(new Inside{.state = std::move(state), .everybody = Communicator(std::move(all))});
}

World::Inside& World::inside() const {
  if (!inside_) throw Error(Code::InvalidArgument, "this World is empty: it was moved from");
  inside_->state->require_own_process();
  return *inside_;
}

int World::rank() const { return inside().state->rank; }
int World::size() const { return inside().state->size; }
Communicator& World::communicator() { return inside().everybody; }
std::vector<TransportStatus> World::transports() const { return inside().state->statuses; }
const Cluster& World::cluster() const {
  const WorldState& state = *inside().state;
  if (!state.no_cluster.empty()) throw Error(Code::Unavailable, "no cluster: " + state.no_cluster);
  return *state.cluster;
}
std::string World::devices() const {
  const WorldState& state = *inside().state;
  std::vector<int> all(static_cast<std::size_t>(state.size));
  std::iota(all.begin(), all.end(), 0);
  return device_kind(state.facts.devices_of(all));
}
std::string World::facts() const { return inside().state->facts.to_string(); }

std::string World::costs() const { return inside().state->facts.source; }

std::vector<std::uint64_t> World::sent_bytes() const {
  WorldState& state = *inside().state;
  const auto held = state.hold();
  return state.sent_bytes;
}

Memory World::allocate(std::size_t bytes, bool huge_pages) {
  if (bytes > PTRDIFF_MAX)
    throw Error(Code::InvalidArgument, fmt::format("allocate: {} bytes, expected at most {}", bytes, PTRDIFF_MAX));
  for (OpenFabric& f : inside().state->fabrics) {
    if (auto region = f.fabric->allocate(bytes, huge_pages)) return {std::move(*region), "shared memory of " + f.name};
  }
  auto* ordinary = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kFalseSharing}, std::nothrow));
  if (ordinary == nullptr) throw Error(Code::System, fmt::format("allocate: no memory for {} bytes", bytes));
  std::memset(ordinary, 0, bytes);
  const auto release = [](const void* p) { ::operator delete(const_cast<void*>(p), std::align_val_t{kFalseSharing}); };
  return {Region{{ordinary, bytes}, std::shared_ptr<const void>(ordinary, release)},
          "ordinary memory: no open transport has memory that peers read without copies; shm would"};
}

Communicator World::subgroup(std::span<const int> ranks, std::string_view name, Deadline deadline) {
  Inside& in = inside();
  WorldState& state = *in.state;
  require_members(ranks, state.rank, state.size);
  CommunicatorState* bootstrap = nullptr;
  {
    const std::scoped_lock lock(in.bootstrap_mutex);
    if (!in.bootstrap) {
      in.bootstrap = CommunicatorState::make(
          in.state, everyone(state.rank, state.size, state.tag_generation(), WorldState::kBootstrapId, "subgroups"));
    }
    bootstrap = in.bootstrap.get();
  }
  const Exchange members =
      member_exchange(*bootstrap, {ranks.begin(), ranks.end()}, name, deadline.or_after(state.options.config.timeout));
  const std::uint64_t seed = hash_of_group(ranks, name);
  const std::uint16_t id = choose_communicator_id(state, seed, and_over(members));
  // Another group of the same name and ranks may have had this id: the first member's random number tells them apart.
  Bytes nonce;
  try {
    nonce = members.all_gather(WireWriter().value(random_id()).take()).front();
  } catch (...) {
    state.give_id_back(id);
    throw;
  }
  Group group{members.rank,
              {ranks.begin(), ranks.end()},
              state.tag_generation(),
              id,
              mix(seed, WireReader(nonce).value<std::uint64_t>()),
              std::string(name.substr(0, kLongestGroupName))};
  auto made = CommunicatorState::make(in.state, std::move(group));
  made->adopt(make_offloads(state, made->group, members));
  add_device_hierarchy(*made, members);
  return Communicator(std::move(made));
}

Status World::status() const { return inside().state->control->world_end(); }

void World::abort(const std::string& reason) {
  WorldState& state = *inside().state;
  state.abort(fmt::format("rank {} aborted the world", state.rank), reason);
}

void World::end_generation() {
  WorldState& state = *inside().state;
  state.locked([&] {
    const Status lost = state.control->world_end();
    const std::string went_on = fmt::format("rank {} went on with the survivors", state.rank);
    // Whoever hears of the death by this alone is to go on, too.
    const Status reason = lost.code() == Code::PeerLost
                              ? Status(Code::PeerLost, fmt::format("{}; {}", lost.message(), went_on), -1)
                              : Status(Code::Aborted, went_on, -1);
    state.control->end_world(reason, WorldState::kAboutToBeKnownMs);
  });
}

World World::shrink() {
  WorldState& state = *inside().state;
  end_generation();
  // What UCX has under way with a rank that lives ends only when that one makes progress, too: nobody waits here
  // without, and whoever leaves here has met all others behind their calls.
  std::optional<ProgressMeanwhile> meanwhile;
  if (state.calls->shared() == nullptr) meanwhile.emplace(*state.engine);
  std::unique_ptr<Inside> next;
  Survivors survivors(state.control->service(), state.options.secret, state.options.config);
  survivors.agree([&](const Exchange& exchange) {
    next.reset();
    WorldOptions options = state.options;
    ++options.generation;
    next = make(exchange, std::move(options));
  });
  return World(std::move(next));
}

bool World::is_change_due() {
  const Config& config = inside().state->options.config;
  return Rendezvous::limits() && Rendezvous::of_process(config)->is_change_due();
}

World World::grow() {
  WorldState& state = *inside().state;
  if (!Rendezvous::limits())
    throw Error(Code::Unavailable,
                "grow: the launcher of this job lets no process join it; expected sinew-run with --nodes MIN:MAX or "
                "--spares N. shrink() goes on with the ranks that are left");
  const std::shared_ptr<Rendezvous> rendezvous = Rendezvous::of_process(state.options.config);
  end_generation();
  std::optional<ProgressMeanwhile> meanwhile;  // as in shrink()
  if (state.calls->shared() == nullptr) meanwhile.emplace(*state.engine);
  return World(make_of_rounds(*rendezvous, state.options));
}

/// The exchange at the end succeeds only if all ranks have made the World. If a rank could not make the World, it
/// leaves, and the exchange fails on the others. Otherwise they would wait in the World for a rank that asks for the
/// next round.
std::unique_ptr<World::Inside> World::make_of(const Round& round, const Exchange& exchange, WorldOptions options) {
  options.generation = static_cast<std::uint32_t>(round.number());
  if (options.secret.empty()) options.secret = Rendezvous::of_process(options.config)->secret();
  auto made = make(exchange, std::move(options));
  static_cast<void>(exchange.all_gather({}));
  return made;
}

World World::of_ranks(const Round& round, WorldOptions options) {
  return World(make_of(round, round.exchange_of_ranks(), std::move(options)));
}

World World::of_members(const Round& round, WorldOptions options) {
  return World(make_of(round, round.exchange_of_members(), std::move(options)));
}

/// A rank may die while the World of its round is made. Then all ask for the next round.
std::unique_ptr<World::Inside> World::make_of_rounds(Rendezvous& rendezvous, const WorldOptions& options) {
  for (;;) {
    const Round round = rendezvous.next(options.counts);
    if (!round.has_rank()) continue;
    try {
      return make_of(round, round.exchange_of_ranks(), options);
    } catch (const Error& e) {
      if (e.code() != Code::PeerLost && e.code() != Code::Aborted) throw;
      log::info("round {} of the job ends before it began: {}", round.number(), e.what());
    }
  }
}

int World::descriptor() const { return inside().state->engine->descriptor(); }

int World::poll() {
  if (inside().state->calls->shared() != nullptr) return 0;
  Engine& engine = *inside().state->engine;
  engine.after_sleep();
  engine.look(Clock::now());
  int events = engine.progress_all();
  if (events == 0 && !engine.prepare_sleep()) events = engine.progress_all() + 1;
  return events;
}

}  // namespace sinew

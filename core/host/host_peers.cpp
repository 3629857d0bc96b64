#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include <fmt/format.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/descriptor_exchange.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/host/wake_name.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

using SleepWord = std::atomic<std::uint32_t>;
static_assert(SleepWord::is_always_lock_free && sizeof(SleepWord) == 4);

using Token = std::array<std::uint64_t, 2>;

/// This rank's own half; ranks that are threads of the same process hold it together.
struct Local {
  std::shared_ptr<SharedSegment> segment;
  FileDescriptor event;  // an eventfd, or the socket of `name`
  std::optional<WakeName> name;
  FileDescriptor life;       // the pidfd; else an end of a socket, whose other end closes with this process
  FileDescriptor life_kept;  // that other end
  SleepWord* asleep = nullptr;

  void watch_own_life();
  explicit Local(int ranks)
      : segment(std::make_shared<SharedSegment>(SharedSegment::kDefaultAddressSpace, ranks)),
        event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event) throw_errno("eventfd for waking this rank");
    watch_own_life();
    asleep = new (segment->allocate(kFalseSharing, kFalseSharing)) SleepWord(0);
  }
};

void Local::watch_own_life() {
  life = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (life) return;
  log::info(
      "pidfd_open is refused ({}): the end of this process shows by a socket, which a child made by clone() itself "
      "may keep open",
      std::strerror(errno));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw_errno("a socket that shows this process's end");
  life = FileDescriptor(ends[0]);
  life_kept = FileDescriptor(ends[1]);
}

/// The ranks that live in this process, by the token each publishes: how threads find each other's Local without a
/// pointer on the wire. A forked child's copy is harmless: tokens are made new for every world.
class LocalRanks {
 public:
  static LocalRanks& of_process() {
    static LocalRanks ranks;
    return ranks;
  }
  void add(const Token& token, const std::shared_ptr<Local>& local) {
    const ProcessLock lock(OfProcess::LocalRanks);
    known_[token] = local;
  }
  void remove(const Token& token) {
    const ProcessLock lock(OfProcess::LocalRanks);
    known_.erase(token);
  }
  std::shared_ptr<Local> find(const Token& token) {
    const ProcessLock lock(OfProcess::LocalRanks);
    const auto at = known_.find(token);
    return at == known_.end() ? nullptr : at->second.lock();
  }

 private:
  std::map<Token, std::weak_ptr<Local>> known_;
};

/// Bit c % 8 of byte c / 8: CPU c is in the affinity mask.
Bytes affinity_mask() {
  Bytes mask;
  for (const int cpu : affinity_cpus()) {
    mask.resize(std::max(mask.size(), static_cast<std::size_t>(cpu) / 8 + 1));
    mask[static_cast<std::size_t>(cpu) / 8] |= std::byte{1} << cpu % 8;
  }
  return mask;
}

/// First round: plain data, then the affinity mask, then the host id, or the reason why this rank cannot take part.
struct Card {
  Token token{};
  std::uint64_t segment_bytes = 0;
  std::uint64_t sleep_offset = 0;
  std::int32_t pid = 0;
  std::uint32_t mask_bytes = 0;
  double quota_cores = 0;
  std::uint8_t usable = 0;
  std::uint8_t membarrier = 0;
  std::int32_t wake_name = 0;           ///< a WakeName's number; 0: this rank has none
  std::int32_t memory_descriptor = -1;  ///< of its segment, in its process
  std::uint64_t memory_device = 0;      ///< with the inode, what tells that segment from any other file
  std::uint64_t memory_inode = 0;
  std::uint64_t descriptor_limit = 0;  ///< RLIMIT_NOFILE
  std::array<char, 64> socket{};
};

struct Published {
  Card card;
  Bytes mask;
  std::string text;

  std::vector<int> cpus() const {
    std::vector<int> all;
    for (std::size_t c = 0; c < mask.size() * 8; ++c) {
      if ((mask[c / 8] >> c % 8 & std::byte{1}) != std::byte{}) all.push_back(static_cast<int>(c));
    }
    return all;
  }
};

Bytes encode(Published p) {
  p.card.mask_bytes = static_cast<std::uint32_t>(p.mask.size());
  const auto card = std::as_bytes(std::span(&p.card, 1));
  const auto text = std::as_bytes(std::span(p.text));
  Bytes bytes(card.begin(), card.end());
  bytes.insert(bytes.end(), p.mask.begin(), p.mask.end());
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

Published decode(const Bytes& bytes, int rank) {
  Published p;
  if (bytes.size() >= sizeof(Card)) std::memcpy(&p.card, bytes.data(), sizeof p.card);
  if (bytes.size() < sizeof(Card) || bytes.size() - sizeof(Card) < p.card.mask_bytes)
    throw Error(Code::System,
                fmt::format("rank {} published {} bytes about itself, expected at least {}: it runs "
                            "another version",
                            rank, bytes.size(), sizeof(Card)),
                rank);
  const auto mask = std::span(bytes).subspan(sizeof(Card), p.card.mask_bytes);
  const auto text = std::span(bytes).subspan(sizeof(Card) + mask.size());
  p.mask.assign(mask.begin(), mask.end());
  p.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return p;
}

/// Second round: how it went.
Bytes encode(Code code, std::string_view text) {
  Bytes bytes(1 + text.size());
  bytes[0] = static_cast<std::byte>(code);
  std::memcpy(bytes.data() + 1, text.data(), text.size());
  return bytes;
}

void require_all_well(const std::vector<Bytes>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    const Bytes& b = outcomes[r];
    if (b.empty() || static_cast<Code>(b[0]) == Code::Ok) continue;
    throw Error(static_cast<Code>(b[0]), std::string(reinterpret_cast<const char*>(b.data()) + 1, b.size() - 1),
                static_cast<int>(r));
  }
}

bool register_membarrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

std::uint64_t descriptor_limit() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// True if so many ranks of a host cannot pass descriptors to each other under this limit.
bool too_few(std::uint64_t limit, std::size_t ranks) noexcept {
  constexpr std::uint64_t kOwn = 64;  // of this process: event queues, sockets, files of the program
  return limit < kOwn + (kDescriptorsPerRank + 1) * ranks;
}

/// Wakes whoever `event` stands for: HostWaker::event_.
int wake_event(int event) noexcept {
  if (event < -1) return WakeName::wake(-event);
  const std::uint64_t one = 1;
  return ::write(event, &one, sizeof one) < 0 ? errno : 0;  // full means: awake soon anyway
}

struct Peer {
  int rank = -1;
  Card card;
  DescriptorSet descriptors;  // shared segment, eventfd, life_of(); empty for a rank of this process
  std::shared_ptr<Local> local;
  const std::byte* base = nullptr;
  bool mapped = false;  // base is a mapping of our own
};

}  // namespace

struct HostPeers::State {
  int rank = 0;
  Token token{};
  std::shared_ptr<Local> local;
  std::vector<int> ranks;
  std::vector<Peer> peers;             // parallel to ranks
  std::vector<std::int32_t> index_of;  // world rank -> peers, -1 elsewhere
  CoreCount cores;                     // of all these ranks
  bool fence = false;
  bool by_name = false;  // ranks are found by process id, and woken by WakeName
  std::mutex mapping;    // on first use, which the user's thread and the one that makes progress may come to together

  ~State() {
    LocalRanks::of_process().remove(token);
    for (const Peer& p : peers) {
      if (p.mapped) munmap(const_cast<std::byte*>(p.base), p.card.segment_bytes);
    }
  }

  const Peer* find(int world_rank) const noexcept {
    if (world_rank < 0 || static_cast<std::size_t>(world_rank) >= index_of.size()) return nullptr;
    const std::int32_t i = index_of[static_cast<std::size_t>(world_rank)];
    return i < 0 ? nullptr : &peers[static_cast<std::size_t>(i)];
  }

  Peer& require(int world_rank) {
    const Peer* p = find(world_rank);
    if (!p) throw Error(Code::InvalidArgument, fmt::format("rank {} is not on this host", world_rank), world_rank);
    return const_cast<Peer&>(*p);
  }

  const std::byte* map(Peer& p) {
    const std::scoped_lock lock(mapping);
    if (p.base) return p.base;
    void* memory =
        mmap(nullptr, p.card.segment_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, p.descriptors[0].get(), 0);
    if (memory == MAP_FAILED)
      throw_errno(
          fmt::format("mapping {} bytes of address space for the memory of rank {}", p.card.segment_bytes, p.rank));
    (void)madvise(memory, p.card.segment_bytes, MADV_DONTDUMP);  // only the owner's core file has it
    p.base = static_cast<const std::byte*>(memory);
    p.mapped = true;
    p.descriptors[0] = FileDescriptor();
    return p.base;
  }

  /// As HostWaker::event_: a descriptor, or a WakeName's number with a minus.
  int event_of(const Peer& p) const noexcept {
    if (by_name) return -p.card.wake_name;
    return p.local ? p.local->event.get() : p.descriptors[1].get();
  }

  Card make_card(const DescriptorExchange& socket, int world_size) {
    local = std::make_shared<Local>(world_size);
    fill_random(std::as_writable_bytes(std::span(token)));
    LocalRanks::of_process().add(token, local);
    Card card;
    card.token = token;
    card.segment_bytes = local->segment->address_space_bytes();
    card.sleep_offset = local->segment->offset_of(local->asleep);
    card.pid = getpid();
    card.quota_cores = quota_cores();
    card.usable = 1;
    card.membarrier = register_membarrier() ? 1 : 0;
    card.descriptor_limit = descriptor_limit();
    if (too_few(card.descriptor_limit, static_cast<std::size_t>(world_size)) && !local->life_kept) add_name(card);
    assert(socket.name().size() < card.socket.size());
    std::memcpy(card.socket.data(), socket.name().data(), socket.name().size());
    return card;
  }

  /// Gives this rank a name, by which others find it without descriptors of it.
  void add_name(Card& card) {
    WakeName::prepare();
    local->name.emplace();
    struct stat memory {};
    if (::fstat(local->segment->descriptor(), &memory) != 0) throw_errno("fstat of this rank's memory");
    card.wake_name = local->name->number();
    card.memory_descriptor = local->segment->descriptor();
    card.memory_device = memory.st_dev;
    card.memory_inode = memory.st_ino;
  }

  /// All ranks of the host decide alike.
  void choose_names() {
    const bool all_named = std::ranges::all_of(peers, [](const Peer& p) { return p.card.wake_name != 0; });
    const bool any_short =
        std::ranges::any_of(peers, [&](const Peer& p) { return too_few(p.card.descriptor_limit, peers.size()); });
    by_name = all_named && any_short;
    if (by_name) local->event = local->name->take_socket();
    local->name.reset();
  }

  /// Finds the ranks of other processes without any descriptor being passed: maps their memory, and has one descriptor
  /// of each, its life.
  void open_by_name() {
    for (Peer& p : peers) {
      if (p.local) continue;
      const auto refuse = [&p, this](std::string_view what, int error) {
        throw Error(Code::System,
                    fmt::format("meeting the ranks of this host: {} of rank {}, process {}: {}; with descriptors for "
                                "all {} ranks ({} in place of {}, see ulimit -n) this is not needed",
                                what, p.rank, p.card.pid, std::strerror(error), peers.size(),
                                (kDescriptorsPerRank + 1) * peers.size(), descriptor_limit()),
                    p.rank);
      };
      // The pidfd is opened before the memory is checked. If the memory is the rank's, the process still lived after
      // the pidfd was opened, so the pidfd is the rank's, too.
      p.descriptors[2] = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, p.card.pid, 0)));
      if (!p.descriptors[2]) refuse("the life", errno);
      const std::string path = fmt::format("/proc/{}/fd/{}", p.card.pid, p.card.memory_descriptor);
      p.descriptors[0] = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      struct stat memory {};
      if (!p.descriptors[0] || ::fstat(p.descriptors[0].get(), &memory) != 0) refuse("the memory", errno);
      if (memory.st_dev != p.card.memory_device || memory.st_ino != p.card.memory_inode) refuse("the memory", ESRCH);
      map(p);
      if (const int error = WakeName::find(p.card.wake_name); error != 0) refuse("the name", error);
    }
  }

  /// Everybody's first round: who is here. Throws, on all ranks alike, what a rank gave as its reason.
  void read_cards(const std::vector<Bytes>& all, const std::string& host_id) {
    index_of.assign(all.size(), -1);
    for (std::size_t r = 0; r < all.size(); ++r) {
      const Published theirs = decode(all[r], static_cast<int>(r));
      const auto& [card, mask, text] = theirs;
      if (!card.usable) throw Error(Code::System, fmt::format("rank {} {}", r, text), static_cast<int>(r));
      if (text != host_id) continue;
      index_of[r] = static_cast<std::int32_t>(ranks.size());
      ranks.push_back(static_cast<int>(r));
      Peer& p = peers.emplace_back();
      p.rank = static_cast<int>(r);
      p.card = card;
      p.local = LocalRanks::of_process().find(card.token);
      if (p.local) p.base = p.local->segment->base();
      fence = fence || !card.membarrier;
      cores.add(theirs.cpus(), card.quota_cores);
    }
  }

  /// The name of the first rank's socket, from its card, which need not end with a zero byte.
  std::string name_of_leader() const {
    const std::array<char, 64>& name = peers[0].card.socket;
    return {name.data(), ::strnlen(name.data(), name.size())};
  }

  void pass_descriptors(DescriptorExchange& socket, Deadline deadline, const std::function<void()>& check) {
    if (std::ranges::all_of(peers, [](const Peer& p) { return p.local != nullptr; })) return;
    if (by_name) return open_by_name();
    DescriptorSet mine;
    const std::array<int, kDescriptorsPerRank> own{local->segment->descriptor(), local->event.get(), local->life.get()};
    for (std::size_t i = 0; i < own.size(); ++i) {
      mine[i] = FileDescriptor(::dup(own[i]));
      if (!mine[i]) throw_errno("dup");
    }
    const auto index = static_cast<std::size_t>(index_of[static_cast<std::size_t>(rank)]);
    std::vector<DescriptorSet> all = index == 0 ? socket.lead(ranks, mine, deadline, check)
                                                : socket.follow(name_of_leader(), ranks, index, mine, deadline);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (peers[i].local) continue;
      peers[i].descriptors = std::move(all[i]);
    }
  }
};

void HostWaker::wake() const noexcept { wake_event(event_); }

HostPeers::HostPeers(const Exchange& world, const std::string& host_id, Deadline deadline)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.rank = world.rank;
  std::optional<DescriptorExchange> socket;
  Bytes card;
  try {
    card = encode({s.make_card(socket.emplace(), world.size), affinity_mask(), host_id});
  } catch (const std::exception& e) {
    card = encode({Card{}, {}, fmt::format("on {}: {}", host_name(), e.what())});
  }
  const std::vector<Bytes> cards = world.all_gather(card);

  Bytes outcome = encode(Code::Ok, "");
  try {
    s.read_cards(cards, host_id);
    s.choose_names();
    s.pass_descriptors(*socket, deadline, world.check);
  } catch (const Error& e) {
    outcome = encode(e.code(), e.what());
  } catch (const std::exception& e) {
    outcome = encode(Code::System, e.what());
  }
  require_all_well(world.all_gather(outcome));
  if (s.fence) log::debug("membarrier is not available on every rank of this host: waking costs a fence per store");
}

HostPeers::~HostPeers() = default;

std::span<const int> HostPeers::ranks() const noexcept { return state_->ranks; }

bool HostPeers::contains(int world_rank) const noexcept { return state_->find(world_rank) != nullptr; }

int HostPeers::usable_cores() const noexcept { return state_->cores.cores(); }

pid_t HostPeers::pid_of(int world_rank) const noexcept {
  const Peer* p = state_->find(world_rank);
  return p ? p->card.pid : -1;
}

int HostPeers::life_of(int world_rank) const noexcept {
  const Peer* p = state_->find(world_rank);
  return !p ? -1 : p->local ? p->local->life.get() : p->descriptors[2].get();
}

bool HostPeers::has_ended(int world_rank) const noexcept {
  pollfd life{life_of(world_rank), POLLIN, 0};
  return life.fd >= 0 && ::poll(&life, 1, 0) > 0;
}

bool HostPeers::same_process(int world_rank) const noexcept {
  const Peer* p = state_->find(world_rank);
  return p && p->local;
}

const std::byte* HostPeers::memory_of(int world_rank) { return state_->map(state_->require(world_rank)); }

SharedSegment& HostPeers::shared_segment() noexcept { return *state_->local->segment; }

std::shared_ptr<SharedSegment> HostPeers::shared_segment_owner() const noexcept { return state_->local->segment; }

HostWaker HostPeers::waker_of(int world_rank) {
  Peer& p = state_->require(world_rank);
  return {reinterpret_cast<const SleepWord*>(state_->map(p) + p.card.sleep_offset), state_->event_of(p), state_->fence};
}

void HostPeers::notify(int world_rank) noexcept {
  const Peer* p = state_->find(world_rank);
  assert(p);
  try {
    waker_of(world_rank).notify();
  } catch (const Error&) {  // its word cannot be read: wake it in any case
    wake_event(state_->event_of(*p));
  }
}

int HostPeers::wake_descriptor() const noexcept { return state_->local->event.get(); }

void HostPeers::arm() noexcept {
  // Armed by another source of this rank already: what was ordered then is ordered for everybody.
  if (state_->local->asleep->load(std::memory_order_relaxed) != 0) return;
  state_->local->asleep->store(1, std::memory_order_relaxed);
  if (state_->fence) {
    full_fence();
  } else {
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  }
}

void HostPeers::disarm() noexcept {
  state_->local->asleep->store(0, std::memory_order_relaxed);
  std::uint64_t count = 0;
  while (::read(state_->local->event.get(), &count, sizeof count) > 0 && state_->by_name) {
  }
}

}  // namespace sinew

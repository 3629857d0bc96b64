#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include <fmt/format.h>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/doorbell.hpp>
#include <sinew/collectives/control/trace_file.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

/// Of zeros, and untouched: most of it never is.
std::shared_ptr<std::byte> private_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno(fmt::format("{} bytes for what a rank shows of itself", bytes));
  return {static_cast<std::byte*>(memory), [bytes](std::byte* m) { ::munmap(m, bytes); }};
}

/// Allocates memory in the shared segment and never frees it. Other ranks must be able to read the last records of a
/// rank after its end.
std::shared_ptr<std::byte> segment_memory(SharedSegment& segment, std::size_t bytes, std::uint64_t& offset) {
  std::byte* memory = segment.allocate(bytes);
  offset = segment.offset_of(memory);
  return {memory, [](std::byte*) {}};
}

/// A rank's record for the control planes of the others.
struct PeerCard {
  ControlPeer peer;
  std::uint64_t page = 0;     // the offset of its page in its shared segment
  std::uint64_t records = 0;  // likewise
  std::string trace;          // the file that holds the records instead, or empty
  bool has_secret = false;
};

Bytes encode(const PeerCard& card) {
  const ControlPeer& p = card.peer;
  WireWriter out;
  out.value(p.token).value(p.process_token).value(p.process).value(card.page).value(card.records);
  out.value(card.has_secret).text(p.host_id).text(p.host_name).text(p.doorbell).text(p.clock).text(card.trace);
  for (const std::string& address : p.addresses) out.text(address);
  return out.take();
}

/// Errors: Mismatch naming the rank, where the bytes are no record.
PeerCard decode(int rank, const Bytes& bytes) try {
  WireReader in(bytes);
  PeerCard card;
  ControlPeer& p = card.peer;
  p.rank = rank;
  p.token = in.value<std::uint64_t>();
  p.process_token = in.value<std::uint64_t>();
  p.process = in.value<pid_t>();
  card.page = in.value<std::uint64_t>();
  card.records = in.value<std::uint64_t>();
  card.has_secret = in.value<bool>();
  p.host_id = in.text();
  p.host_name = in.text();
  p.doorbell = in.text();
  p.clock = in.text();
  card.trace = in.text();
  while (in.left() > 0) p.addresses.push_back(in.text());
  if (p.doorbell.size() > Doorbell::kLongestName)
    throw Error(Code::Mismatch, fmt::format("its control socket has a name of {} bytes, expected at most {}",
                                            p.doorbell.size(), Doorbell::kLongestName));
  return card;
} catch (const Error& e) {
  throw Error(Code::Mismatch, fmt::format("what rank {} says of itself cannot be used: {}", rank, e.what()), rank);
}

/// What lies at those places in the memory of a rank of this host.
void find_pages(PeerCard& card, HostPeers& host) {
  ControlPeer& peer = card.peer;
  if (const ControlPages pages = ProcessPlanes::pages_of(peer.token); pages.page) {
    peer.page = pages.page;
    peer.records = {pages.records, reinterpret_cast<const RecordPage*>(pages.records.get())};
    return;
  }
  if (!host.contains(peer.rank)) return;
  const std::byte* base = host.memory_of(peer.rank);
  const auto keep = [](const void*) {};
  peer.page = {reinterpret_cast<const ControlPage*>(base + card.page), keep};
  if (card.trace.empty()) {
    peer.records = {reinterpret_cast<const RecordPage*>(base + card.records), keep};
  } else if (const auto file = map_file(card.trace, RecordRing::bytes())) {
    peer.records = {file, reinterpret_cast<const RecordPage*>(file.get())};
  } else {
    log::warning("the records of rank {} cannot be read at {}: verdicts will say nothing of it", peer.rank, card.trace);
  }
}

struct KnownPlane {
  ControlService* service = nullptr;
  ControlPages pages;
};

/// The control planes of this process, each by the token that its rank has told the others.
/// Precondition: the caller holds OfProcess::ControlPlanes.
std::map<std::uint64_t, KnownPlane>& known_planes() {
  static std::map<std::uint64_t, KnownPlane> all;
  return all;
}

}  // namespace

ControlPages ControlPages::make(const ControlSetup& setup, int rank, int ranks) {
  ControlPages pages;
  bool watched = false;  // by another process
  for (const int r : setup.host.ranks()) watched = watched || !setup.host.same_process(r);
  SharedSegment& segment = setup.host.shared_segment();
  std::uint64_t slots = NoticeBoard::slots_for(ranks);
  constexpr std::size_t kPartOfSegment = 16;  // a sixteenth, since a limit may make the segment small
  while (slots > NoticeBoard::kFewestSlots &&
         ControlPage::bytes(slots) > segment.address_space_bytes() / kPartOfSegment)
    slots /= 2;
  const std::size_t bytes = ControlPage::bytes(slots);
  auto page = watched ? segment_memory(segment, bytes, pages.page_offset) : private_memory(bytes);
  pages.page = {page, reinterpret_cast<ControlPage*>(page.get())};
  pages.page->board.slots = slots;
  if (!setup.config.trace_dir.empty()) {
    pages.trace = fmt::format("{}/sinew-{}-rank-{}.trace", setup.config.trace_dir, setup.generation, rank);
    try {
      pages.records = create_mapped_file(pages.trace, RecordRing::bytes());
    } catch (const Error& e) {
      if (setup.generation == 0) throw;  // of a job that has begun the survivors go on
      log::warning("{}: this rank goes on without", e.what());
      pages.trace.clear();
    }
  }
  if (pages.records) return pages;
  if (watched) {
    pages.records = segment_memory(segment, RecordRing::bytes(), pages.records_offset);
  } else {
    pages.records = private_memory(RecordRing::bytes());
  }
  return pages;
}

std::string ControlPeer::name() const { return fmt::format("rank {} (host {}, process {})", rank, host_name, process); }

std::vector<ControlPeer> meet_control_peers(const Exchange& exchange, const ControlSetup& setup,
                                            const ControlPages& pages, const ControlIntroduction& mine) {
  const bool times_calls = setup.config.time_calls || !setup.config.trace_dir.empty();
  const PeerCard mine_card{.peer = {.rank = exchange.rank,
                                    .token = mine.token,
                                    .process_token = process_token(),
                                    .process = ::getpid(),
                                    .host_id = setup.host_id,
                                    .host_name = setup.config.host_id.empty() ? host_name() : setup.config.host_id,
                                    .doorbell = mine.doorbell,
                                    .clock = times_calls ? clock_identity() : std::string(),
                                    .addresses = mine.addresses},
                           .page = pages.page_offset,
                           .records = pages.records_offset,
                           .trace = pages.trace,
                           .has_secret = !setup.secret.empty()};
  std::vector<PeerCard> cards;
  for (const Bytes& b : exchange.all_gather(encode(mine_card)))
    cards.push_back(decode(static_cast<int>(cards.size()), b));
  const ControlPeer& first = cards[0].peer;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    const ControlPeer& peer = cards[r].peer;
    const bool stranger = peer.host_id != first.host_id && peer.process_token != first.process_token;
    const std::size_t without = cards[0].has_secret ? r : 0;
    if (!stranger || cards[without].has_secret) continue;
    throw Error(
        Code::Unavailable,
        fmt::format("ranks 0 and {} are on different hosts ({}, {}), and rank {} has no secret to authenticate with: "
                    "set SINEW_SECRET_FILE to a file with the same random bytes on every host",
                    r, first.host_name, peer.host_name, without));
  }
  std::vector<ControlPeer> peers;
  for (PeerCard& card : cards) {
    find_pages(card, setup.host);
    card.peer.life = setup.host.life_of(card.peer.rank);
    peers.push_back(std::move(card.peer));
  }
  return peers;
}

void ProcessPlanes::add(std::uint64_t token, const ControlPages& pages) {
  const ProcessLock lock(OfProcess::ControlPlanes);
  known_planes()[token].pages = pages;
}

void ProcessPlanes::open(std::uint64_t token, ControlService& service) {
  const ProcessLock lock(OfProcess::ControlPlanes);
  known_planes()[token].service = &service;
}

void ProcessPlanes::remove(std::uint64_t token) {
  const ProcessLock lock(OfProcess::ControlPlanes);
  known_planes().erase(token);
}

ControlPages ProcessPlanes::pages_of(std::uint64_t token) {
  const ProcessLock lock(OfProcess::ControlPlanes);
  const auto at = known_planes().find(token);
  return at == known_planes().end() ? ControlPages{} : at->second.pages;
}

void ProcessPlanes::look(std::uint64_t token, int from) {
  const ProcessLock lock(OfProcess::ControlPlanes);
  const auto at = known_planes().find(token);
  if (at != known_planes().end() && at->second.service != nullptr) at->second.service->look(from);
}

std::uint64_t process_token() {
  static pid_t process = 0;
  static std::uint64_t token = 0;
  const ProcessLock lock(OfProcess::ProcessToken);
  if (process != ::getpid()) {
    process = ::getpid();
    token = random_id();
  }
  return token;
}

}  // namespace sinew

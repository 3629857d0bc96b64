#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/doorbell.hpp>
#include <sinew/collectives/control/trace_file.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/format/json/cbor.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

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

/// What lies at those places in the memory of a rank of this host.
void find_pages(ControlPeer& peer, const Json& card, HostPeers& host) {
  if (const ControlPages pages = ProcessPlanes::pages_of(peer.token); pages.page) {
    peer.page = pages.page;
    peer.records = {pages.records, reinterpret_cast<const RecordPage*>(pages.records.get())};
    return;
  }
  if (!host.contains(peer.rank)) return;
  const std::byte* base = host.memory_of(peer.rank);
  const auto keep = [](const void*) {};
  peer.page = {reinterpret_cast<const ControlPage*>(base + card.at("page").get<std::uint64_t>()), keep};
  const std::string trace = card.at("trace");
  if (trace.empty()) {
    peer.records = {reinterpret_cast<const RecordPage*>(base + card.at("records").get<std::uint64_t>()), keep};
  } else if (const auto file = map_file(trace, RecordRing::bytes())) {
    peer.records = {file, reinterpret_cast<const RecordPage*>(file.get())};
  } else {
    log::warning("the records of rank {} cannot be read at {}: verdicts will say nothing of it", peer.rank, trace);
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
  const Json card = {{"token", mine.token},
                     {"process", process_token()},
                     {"pid", ::getpid()},
                     {"host", setup.host_id},
                     {"name", setup.config.host_id.empty() ? host_name() : setup.config.host_id},
                     {"bell", mine.doorbell},
                     {"addresses", mine.addresses},
                     {"page", pages.page_offset},
                     {"records", pages.records_offset},
                     {"trace", pages.trace},
                     {"secret", !setup.secret.empty()},
                     {"clock", times_calls ? clock_identity() : std::string()}};
  std::vector<ControlPeer> peers;
  std::vector<Json> cards;
  for (const Bytes& b : exchange.all_gather(to_cbor(card))) {
    const Json& c = cards.emplace_back(from_cbor(b));
    ControlPeer& peer = peers.emplace_back();
    peer.rank = static_cast<int>(peers.size()) - 1;
    peer.token = c.at("token");
    peer.process_token = c.at("process");
    peer.process = c.at("pid");
    peer.host_id = c.at("host");
    peer.host_name = c.at("name");
    peer.doorbell = c.at("bell");
    if (peer.doorbell.size() > Doorbell::kLongestName)
      throw Error(Code::Mismatch,
                  fmt::format("rank {} says that its control socket has a name of {} bytes, expected at most {}",
                              peer.rank, peer.doorbell.size(), Doorbell::kLongestName),
                  peer.rank);
    peer.clock = c.at("clock");
    peer.addresses = c.at("addresses");
  }
  for (std::size_t r = 0; r < peers.size(); ++r) {
    const bool stranger = peers[r].host_id != peers[0].host_id && peers[r].process_token != peers[0].process_token;
    const std::size_t without = !cards[0].at("secret") ? 0 : r;
    if (!stranger || cards[without].at("secret")) continue;
    throw Error(
        Code::Unavailable,
        fmt::format("ranks 0 and {} are on different hosts ({}, {}), and rank {} has no secret to authenticate with: "
                    "set SINEW_SECRET_FILE to a file with the same random bytes on every host",
                    r, peers[0].host_name, peers[r].host_name, without));
  }
  for (std::size_t r = 0; r < peers.size(); ++r) {
    find_pages(peers[r], cards[r], setup.host);
    peers[r].life = setup.host.life_of(static_cast<int>(r));
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

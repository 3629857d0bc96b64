#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <sinew/conformance/rank.hpp>

namespace sinew::test {
namespace {

thread_local bool in_progress = false;

constexpr auto kHang = std::chrono::seconds(60);

}  // namespace

Watched::Watched()
    : Completion([](Completion& c) noexcept {
        auto& w = static_cast<Watched&>(c);
        ++w.fired;
        w.outside = w.outside || !in_progress;
        if (w.then) w.then();
      }) {
  status = Status::pending();
}

Rail open_rail(Module& module, const Exchange& world, const Config& config) {
  struct Opened {
    Opened(const Exchange& among, const std::string& host_id) : host(among, host_id, Deadline::after(kHang)) {}
    HostPeers host;
    std::unique_ptr<Fabric> fabric;
  };
  if (const Availability can = module.available(); !can.ok) throw Error(Code::Unavailable, can.reason);
  const std::string host_id = "this host";
  auto opened = std::make_shared<Opened>(world, host_id);
  opened->fabric = module.open({.rank = world.rank,
                                .size = world.size,
                                .host = opened->host,
                                .secret = Bytes(32, std::byte{7}),
                                .host_id = host_id,
                                .config = config});
  if (opened->fabric->transports().empty())
    throw Error(Code::Unavailable, fmt::format("{} has no rails: it carries no messages", module.name()));
  return {opened->fabric->transports().front().get(), opened};
}

Rank::Rank(const Exchange& world, const MakeRail& make)
    : world_(world), rail_(make(world)), addresses_(world.all_gather(rail_.transport->address())) {}

Rank::~Rank() {
  try {
    if (!alone_) barrier_with_progress();  // nobody closes while somebody still works
    while (!endpoints_.empty()) close(endpoints_.begin()->first);
    EXPECT_FALSE(transport().active()) << "everything is closed, but the transport has something pending";
    if (!alone_) barrier_with_progress();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rank " << rank() << " at its end: " << e.what();
  }
}

Endpoint& Rank::peer(int r) {
  const auto at = endpoints_.find(r);
  if (at != endpoints_.end()) return *at->second;
  return *endpoints_.emplace(r, transport().connect(address_of(r))).first->second;
}

int Rank::progress() {
  in_progress = true;
  const int n = transport().progress();
  in_progress = false;
  return n;
}

bool Rank::until(const std::function<bool()>& holds, const std::string& what) {
  const auto give_up = Deadline::after(kHang);
  while (!holds()) {
    if (progress() == 0) std::this_thread::yield();
    if (give_up.passed()) {
      ADD_FAILURE() << "rank " << rank() << " waited a minute for " << what;
      return false;
    }
  }
  return true;
}

bool Rank::wait(Watched& w, const std::string& what) {
  const bool came = until([&] { return w.done(); }, what);
  EXPECT_EQ(w.fired, came ? 1 : 0) << what << ", rank " << rank();
  EXPECT_FALSE(w.outside) << what << " fired outside progress(), rank " << rank();
  return came;
}

bool Rank::wait(std::vector<Watched>& all, const std::string& what) {
  for (Watched& w : all) {
    if (!wait(w, what)) return false;
  }
  return true;
}

void Rank::barrier_with_progress() {
  bool all_here = false;
  std::exception_ptr error;
  std::atomic<bool> done = false;
  std::thread gather([&] {
    try {
      static_cast<void>(world_.all_gather({}));
      all_here = true;
    } catch (...) {
      error = std::current_exception();
    }
    done = true;
  });
  while (!done) {
    if (progress() == 0) std::this_thread::yield();
  }
  gather.join();
  if (!all_here) std::rethrow_exception(error);
}

void Rank::linger(std::chrono::milliseconds time) {
  const auto end = Deadline::after(time);
  while (!end.passed()) {
    if (progress() == 0) std::this_thread::yield();
  }
}

void Rank::close(int r) {
  Watched quiet;
  endpoints_.at(r)->close(quiet);
  wait(quiet, "the endpoint to be quiet");
  endpoints_.erase(r);
}

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> v(bytes);
  std::uint32_t x = seed * 2654435761u + 1;
  for (std::byte& b : v) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return v;
}

}  // namespace sinew::test

#include <unistd.h>

#include <cstring>
#include <set>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/transports/inproc/inproc.hpp>
#include <sinew/transports/inproc/mailbox.hpp>

namespace sinew::inproc {
namespace {

using Kind = Parcel::Kind;
using State = Offer::State;

/// An address: the pid tells parent and child of a fork apart, the random number equal pids of two machines.
struct Where {
  std::int64_t pid;
  std::uint64_t process;
  std::uint64_t mailbox;
  std::int64_t rank;
};

Hub& hub() {
  static Hub h;
  return h;
}

Where where_of(const Address& a) {
  Where w{};
  if (a.size() == sizeof w) std::memcpy(&w, a.data(), sizeof w);
  return w;
}

/// What the endpoints of one rank share.
struct Shared {
  Where self;
  std::uint8_t generation;
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
  BlockPool pool;
  FinishedOperations finished;
  std::map<std::uint64_t, class PeerEndpoint*> peers;
  std::set<std::uint64_t> left;  // had an endpoint, which has ended: what they still send is for nobody
};

class PeerEndpoint final : public Endpoint, MatcherWire {
 public:
  PeerEndpoint(Shared& shared, Where peer)
      : shared_(shared), peer_(peer), matcher_(*this, shared.pool, shared.finished, shared.generation) {
    shared_.peers[peer.mailbox] = this;
    shared_.left.erase(peer.mailbox);
  }
  ~PeerEndpoint() override {
    end({Code::Cancelled, "the endpoint was destroyed"});
    shared_.peers.erase(peer_.mailbox);
    shared_.left.insert(peer_.mailbox);
  }

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override {
    done.make<Operation>().handle = ++last_number_;
    done.bytes = from.bytes;
    if (!end_.ok()) return shared_.finished.add(done, end_);
    auto offer = std::make_shared<Offer>();
    offer->number = last_number_;
    offer->envelope = {tag, note, from.bytes};
    offer->from = from;
    offer->done = &done;
    sent_.emplace(offer->number, offer);
    if (!tell(Kind::Offered, offer)) lose_peer();
  }
  void recv(Sink to, Tag tag, Completion& done) override { matcher_.recv(to, tag, done); }
  bool has_unexpected(Tag tag) const noexcept override { return matcher_.has_unexpected(tag); }
  bool cancel(Completion& done) override {
    if (operation_of(done).stage != Stage::Sending) return matcher_.cancel(done);
    return withdraw(sent_.at(operation_of(done).handle), {Code::Cancelled, "the send was cancelled"});
  }
  void close(Completion& closed) override {
    end({Code::Cancelled, "the endpoint was closed"});
    closed_ = &closed;
    fire_closed();
  }

  void handle(const Parcel& p) {
    switch (p.kind) {
      case Kind::Offered:
        if (!end_.ok()) return;  // its sender has been told, or has left
        offered_[p.offer->number] = p.offer;
        return matcher_.rendezvous(p.offer->envelope, p.offer->number);
      case Kind::Withdrawn:
        matcher_.withdraw(p.offer->number);
        offered_.erase(p.offer->number);
        return;
      case Kind::Settled: return settle(*p.offer);
      case Kind::Closed: return lose_peer();
    }
  }
  bool active() const noexcept { return matcher_.pending() != 0 || !sent_.empty() || closed_ != nullptr; }

 private:
  // From the matcher: the offer's bytes are there to be read, now.
  void grant(std::uint64_t id, Completion& receive) override {
    const auto offer = offered_.extract(static_cast<std::uint32_t>(id)).mapped();
    if (!offer->decide(State::Taken)) return matcher_.repost(receive);
    matcher_.deliver(receive, offer->from.data, offer->from.bytes);
    tell(Kind::Settled, offer);
  }
  void refuse(std::uint64_t id, Code why, std::uint64_t expected) override {
    const auto offer = offered_.extract(static_cast<std::uint32_t>(id)).mapped();
    if (!offer->decide(State::Taken)) return;
    if (why == Code::Mismatch) offer->expected = expected;
    tell(Kind::Settled, offer);
  }
  void return_credit(std::size_t) override {}

  bool tell(Kind kind, std::shared_ptr<Offer> offer) {
    const auto mailbox = hub().find(peer_.mailbox);
    if (mailbox) mailbox->put({kind, shared_.self.mailbox, std::move(offer)});
    return mailbox != nullptr;
  }
  bool withdraw(std::shared_ptr<Offer> offer, const Status& reason) {
    if (!offer->decide(State::Withdrawn)) return false;
    shared_.finished.add(*offer->done, reason);
    sent_.erase(offer->number);
    tell(Kind::Withdrawn, std::move(offer));
    return true;
  }
  void settle(Offer& offer) {
    Completion& done = *offer.done;
    Status status;
    if (offer.expected != 0) {
      done.note = offer.expected;
      status = {Code::Mismatch, fmt::format("rank {} expected a message of call {:#x}", peer_.rank, offer.expected)};
    }
    shared_.finished.add(done, std::move(status));
    sent_.erase(offer.number);
    fire_closed();
  }
  /// What nobody has taken ends with `reason`; later operations too.
  void stop(const Status& reason) {
    end_ = reason;
    for (auto at = sent_.begin(); at != sent_.end();) withdraw((at++)->second, reason);
  }
  void lose_peer() {
    if (!end_.ok()) return;
    stop({Code::PeerLost, fmt::format("rank {} has closed its end", peer_.rank), static_cast<int>(peer_.rank)});
    matcher_.fail(end_);
  }
  void end(const Status& reason) {
    const bool told = end_.code() == Code::Cancelled;
    stop(reason);
    matcher_.close(reason);
    if (!told) tell(Kind::Closed, nullptr);
  }
  void fire_closed() {
    if (closed_ != nullptr && sent_.empty()) shared_.finished.add(*std::exchange(closed_, nullptr), {});
  }

  Shared& shared_;
  const Where peer_;
  Matcher matcher_;
  Status end_{};
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, std::shared_ptr<Offer>> sent_;     // not settled
  std::map<std::uint32_t, std::shared_ptr<Offer>> offered_;  // neither granted nor refused
  Completion* closed_ = nullptr;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(int rank, std::uint8_t generation) {
    static const std::uint64_t process = random_id();
    shared_.self = {::getpid(), process, random_id(), rank};
    shared_.generation = generation;
    hub().open(shared_.self.mailbox, shared_.mailbox);
  }
  ~InprocTransport() override { hub().close(shared_.self.mailbox); }

  std::string_view name() const noexcept override { return "inproc"; }
  const Capabilities& capabilities() const noexcept override {
    static const Capabilities c{.cancels_sends = true};
    return c;
  }
  Address address() const override {
    const auto bytes = std::as_bytes(std::span(&shared_.self, 1));
    return {bytes.begin(), bytes.end()};
  }
  Reach probe(const Address& peer) override {
    const Where w = where_of(peer);
    if (w.pid == shared_.self.pid && w.process == shared_.self.process) {
      return {true, {}, {1e-6, 1e-6, {{1 << 20, 8e9}}}, "memory"};
    }
    return {false, fmt::format("rank {} is not a thread of this process", w.rank), {}, {}};
  }
  std::unique_ptr<Endpoint> connect(const Address& peer) override {
    const Where w = where_of(peer);
    if (const Reach r = probe(peer); !r.ok) throw Error(Code::Unavailable, "inproc: " + r.reason);
    auto endpoint = std::make_unique<PeerEndpoint>(shared_, w);
    for (const Parcel& p : early_[w.mailbox]) endpoint->handle(p);
    early_.erase(w.mailbox);
    return endpoint;
  }

  int progress() noexcept override {
    for (const Parcel& p : shared_.mailbox->take_all()) {
      if (const auto peer = shared_.peers.find(p.from); peer != shared_.peers.end()) {
        peer->second->handle(p);
      } else if (!shared_.left.contains(p.from)) {
        early_[p.from].push_back(p);
      }
    }
    return shared_.finished.fire();
  }
  bool active() const noexcept override {
    for (const auto& [id, peer] : shared_.peers) {
      if (peer->active()) return true;
    }
    return !shared_.finished.empty();
  }
  int wake_descriptor() const noexcept override { return shared_.mailbox->descriptor(); }
  bool arm() noexcept override { return shared_.finished.empty() && shared_.mailbox->arm(); }
  void disarm() noexcept override { shared_.mailbox->disarm(); }

 private:
  Shared shared_;
  std::map<std::uint64_t, std::vector<Parcel>> early_;  // from ranks that this one has not connected to
};

class InprocFabric final : public Fabric {
 public:
  explicit InprocFabric(const FabricContext& c) : rail_{make_transport(c.rank, c.generation)} {}
  std::span<const std::unique_ptr<Transport>> transports() override { return rail_; }

 private:
  std::unique_ptr<Transport> rail_[1];
};

class InprocModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "inproc"; }
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& c) override { return std::make_unique<InprocFabric>(c); }
};

}  // namespace

std::unique_ptr<Transport> make_transport(int rank, std::uint8_t generation) {
  return std::make_unique<InprocTransport>(rank, generation);
}

Module& module() {
  static InprocModule m;
  return m;
}

}  // namespace sinew::inproc

#include <algorithm>
#include <exception>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <sinew/collectives/control/survival/survivors.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/secret.hpp>

namespace sinew {
namespace {

constexpr auto kLookAgain = std::chrono::milliseconds(1);
/// A rank that failed because another died may know it before the control plane does.
constexpr auto kDeathIsKnownWithin = std::chrono::seconds(3);

void pause() { std::this_thread::sleep_for(kLookAgain); }

}  // namespace

Survivors::Survivors(ControlService& service, Bytes secret, const Config& config)
    : service_(service), secret_(std::move(secret)), config_(config), deadline_(Deadline::after(config.timeout)) {}

Survivors::~Survivors() { service_.on_gone({}); }

void Survivors::agree(const std::function<void(const Exchange&)>& make) {
  for (;;) {
    const Ballot ballot = next_ballot();
    last_ = ballot.number;
    Status outcome;
    try {
      make(exchange_for(ballot));
    } catch (const std::exception& e) {
      const Status why = status_of(e);
      outcome = {why.code(), std::string(why.message())};  // the rank is one of the World that could not be made
    }
    service_.announce(Notice::of(NoticeKind::Vote, service_.rank(), outcome, ballot.number));
    const bool well = passed(ballot);
    service_.on_gone({});
    hosted_.reset();
    if (well) return;
    log::info("rank {} tries again to go on without the lost ranks: {}", service_.rank(),
              outcome.ok() ? "another rank could not" : outcome.message());
  }
}

std::string Survivors::name_of(int world_rank) const {
  return service_.peers()[static_cast<std::size_t>(world_rank)].name();
}

std::vector<int> Survivors::living() const {
  std::vector<int> ranks;
  for (const ControlPeer& p : service_.peers()) {
    if (service_.living(p.rank)) ranks.push_back(p.rank);
  }
  return ranks;
}

Ballot Survivors::next_ballot() {
  for (;; pause()) {
    const std::vector<int> members = living();
    if (members.front() == service_.rank()) return propose(members);
    if (auto ballot = proposal_of(members.front())) {
      if (std::ranges::find(ballot->members, service_.rank()) != ballot->members.end()) return *ballot;
      throw Error(Code::PeerLost, fmt::format("rank {} goes on without this rank", members.front()), members.front());
    }
    if (deadline_.passed()) {
      throw Error(Code::Timeout,
                  fmt::format("the survivors did not meet: {} would lead them and has not called shrink",
                              name_of(members.front())),
                  members.front());
    }
  }
}

/// Ballots have numbers of their own: of two leaders, the later one has the higher rank.
Ballot Survivors::propose(const std::vector<int>& members) {
  const std::uint64_t ranks = service_.peers().size();
  std::uint64_t latest = last_;
  for (std::uint64_t r = 0; r < ranks; ++r) {
    if (const auto seen = service_.proposal_of(static_cast<int>(r))) latest = std::max(latest, seen->communicator);
  }
  Ballot ballot{(latest / ranks + 1) * ranks + static_cast<std::uint64_t>(service_.rank()), members, {}};
  const std::string& own_host = service_.peers()[static_cast<std::size_t>(service_.rank())].host_id;
  const bool several_hosts = std::ranges::any_of(
      members, [&](int r) { return service_.peers()[static_cast<std::size_t>(r)].host_id != own_host; });
  hosted_for_ = members;
  hosted_ = std::make_shared<HostedStore>(static_cast<int>(members.size()), secret_.empty() ? random_secret() : secret_,
                                          config_);
  ballot.addresses = {user_socket(fmt::format("shrink-{:016x}", random_id()))};
  hosted_->listen(listen_on(ballot.addresses.front()));
  if (several_hosts) {
    const auto own = SocketAddress::own(config_.interface, hosted_->serve(store_of(ballot)));
    ballot.addresses.insert(ballot.addresses.end(), own.begin(), own.end());
  }
  service_.on_gone([this](int rank) { lose(rank); });
  for (const int r : members) {
    if (!service_.living(r)) lose(r);
  }
  const Status proposal{Code::Ok, message_of(ballot, service_.peers().size())};
  service_.announce(Notice::of(NoticeKind::Proposal, service_.rank(), proposal, ballot.number));
  return ballot;
}

/// The number of the ballot's store at the leader's port. All members compute the same number.
std::uint64_t Survivors::store_of(const Ballot& ballot) const {
  return service_.peers()[static_cast<std::size_t>(ballot.members.front())].token ^ ballot.number;
}

std::optional<Ballot> Survivors::proposal_of(int leader) const {
  const auto notice = service_.proposal_of(leader);
  if (!notice || notice->communicator <= last_) return std::nullopt;
  return parse_ballot(notice->communicator, notice->message(), service_.peers().size());
}

Exchange Survivors::exchange_for(const Ballot& ballot) {
  const auto place = std::ranges::find(ballot.members, service_.rank()) - ballot.members.begin();
  const StoreClient::Options options{.addresses = ballot.addresses,
                                     .secret = secret_,
                                     .tls = TlsContext::open(config_.tls),
                                     .instance = store_of(ballot),
                                     .group = fmt::format("ballot {}", ballot.number),
                                     .rank = static_cast<int>(place),
                                     .ranks = static_cast<int>(ballot.members.size()),
                                     .timeout = config_.timeout,
                                     .may_come = [this, &ballot] { return stands(ballot); }};
  const auto store = std::make_shared<StoreClient>(options, deadline_);
  const auto all_gather = [store, options](const Bytes& mine) {
    return store->all_gather(options.group, options.rank, options.ranks, mine);
  };
  const auto check = [this, members = ballot.members] {
    for (const int r : members) {
      if (!service_.living(r)) throw Error(Code::PeerLost, name_of(r) + " is gone, too", r);
    }
  };
  return {options.rank, options.ranks, all_gather, check};
}

/// Its leader lives, and has given it up neither for another nor for good.
bool Survivors::stands(const Ballot& ballot) const {
  const int leader = ballot.members.front();
  const auto proposal = service_.proposal_of(leader);
  const auto vote = service_.vote_of(leader);
  const bool given_up = vote && vote->communicator == ballot.number && vote->code != Code::Ok;
  return service_.living(leader) && proposal && proposal->communicator == ballot.number && !given_up;
}

void Survivors::lose(int world_rank) {
  const auto place = std::ranges::find(hosted_for_, world_rank);
  if (place == hosted_for_.end()) return;
  hosted_->lose(static_cast<int>(place - hosted_for_.begin()), name_of(world_rank) + " is gone, too");
}

bool Survivors::somebody_died(const Ballot& ballot) const {
  return std::ranges::any_of(ballot.members, [this](int r) { return !service_.living(r); });
}

bool Survivors::passed(const Ballot& ballot) {
  for (;; pause()) {
    int waits_for = -1;
    for (const int r : ballot.members) {
      const bool lives = service_.living(r);  // before its vote: the last word of the dead counts
      const auto vote = service_.vote_of(r);
      if (vote && vote->communicator > ballot.number) return false;  // it gave this one up, and only its latest is kept
      if (!vote || vote->communicator != ballot.number) {
        if (lives) waits_for = r;
        continue;
      }
      if (vote->code == Code::Ok) continue;
      const Deadline known = Deadline::after(kDeathIsKnownWithin);
      while (!somebody_died(ballot) && !known.passed()) pause();
      if (somebody_died(ballot)) return false;
      throw Error(vote->code, fmt::format("rank {} cannot go on: {}", r, vote->message()), r);
    }
    if (waits_for < 0) return true;
    if (deadline_.passed()) {
      throw Error(Code::Timeout, fmt::format("the survivors did not all meet: {} has not come", name_of(waits_for)),
                  waits_for);
    }
  }
}

}  // namespace sinew

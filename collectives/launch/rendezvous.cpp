#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/rendezvous.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

std::shared_ptr<StoreClient> client_of(const LaunchVariables& v, const Config& config) {
  StoreClient::Options options;
  options.addresses = {bootstrap_address(v.master_port, v.job)};
  options.tls = TlsContext::open(config.tls);
  options.group = "members";
  options.timeout = config.timeout;
  return std::make_shared<StoreClient>(std::move(options), Deadline::after(config.timeout));
}

}  // namespace

Joined Round::join_as(int size, const std::string& group) const {
  const Bootstrap bootstrap{.rank = place(),
                            .ranks = size,
                            .addresses = members_->addresses(),
                            .secret = members_->secret(),
                            .group = group,
                            .may_use_relays = false};
  return join(bootstrap, nullptr, config_);
}

Joined Round::join_ranks() const {
  if (!has_rank())
    throw Error(Code::InvalidArgument,
                fmt::format("round {}: this process has no rank; it can only hand over its state", number()));
  return join_as(ranks(), group_of_ranks(number()));
}

Exchange Round::exchange_of_ranks() const { return join_ranks().exchange; }

Exchange Round::exchange_of_members() const {
  return join_as(static_cast<int>(members().size()), group_of_members(number())).exchange;
}

std::optional<ElasticLimits> Rendezvous::limits() {
  if (launcher_kind(process_environment()) != LaunchKind::Elastic) return std::nullopt;
  const LaunchVariables v = read_launch_variables(process_environment());
  return ElasticLimits{.least = v.least_ranks, .most = v.most_ranks};
}

std::shared_ptr<Rendezvous> Rendezvous::of_process(const Config& config) {
  const LaunchVariables v = read_launch_variables(process_environment());
  if (v.kind != LaunchKind::Elastic)
    throw Error(
        Code::InvalidArgument,
        "this process belongs to no elastic job; expected a job of sinew-run with --nodes MIN:MAX, --min-ranks N "
        "or --spares N");
  const ProcessLock lock(OfProcess::Rendezvous);
  static std::shared_ptr<Rendezvous> shared;
  static pid_t made_by = 0;  // a fork's child needs a connection of its own
  if (!shared || made_by != ::getpid()) {
    shared = std::make_shared<Rendezvous>(client_of(v, config), config);
    made_by = ::getpid();
  }
  return shared;
}

Rendezvous::Rendezvous(std::shared_ptr<StoreClient> client, const Config& config)
    : client_(std::move(client)), config_(config) {}

Round Rendezvous::next(std::span<const int> counts, bool holds_state, Deadline deadline) {
  const MemberRequest request{
      .host = host_name(), .pid = ::getpid(), .counts = {counts.begin(), counts.end()}, .holds_state = holds_state};
  return {client_->next_round(request, deadline), client_, config_};
}

bool Rendezvous::is_change_due() { return client_->is_change_due(); }

const Bytes& Rendezvous::secret() const { return client_->secret(); }

Launch launch_from_rendezvous(const LaunchVariables& v, const Config& config) {
  const std::shared_ptr<Rendezvous> rendezvous = Rendezvous::of_process(config);
  for (;;) {
    const Round round = rendezvous->next();
    if (!round.has_rank()) continue;
    Joined joined = round.join_ranks();
    return {v.kind, std::move(joined.exchange), rendezvous->secret(), v.job, -1, -1, std::move(joined.store)};
  }
}

}  // namespace sinew

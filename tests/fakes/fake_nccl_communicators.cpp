#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "fakes/fake_nccl_process.hpp"

// How communicators begin and end, and what they say of themselves.
namespace sinew::nccl {
namespace {

using fakes::accuse;
using fakes::Clique;
using fakes::Fault;
using fakes::forget_all_of;
using fakes::lock;
using fakes::planted;
using fakes::process;
using fakes::refuse;
using Life = OpaqueComm::Life;

/// Looks at its state until something asked of a communicator has happened.
constexpr int kLooks = 3;

std::string same_device(const Clique& clique) {
  for (std::size_t a = 0; a < clique.members.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (clique.members[a]->device == clique.members[b]->device)
        return fmt::format("Duplicate GPU detected: rank {} and rank {} on device {}", b, a, clique.members[a]->device);
    }
  }
  return {};
}

/// One look at a communicator that NCCL is at work on.
Result look(OpaqueComm& comm) {
  const auto ranks = static_cast<int>(comm.clique->members.size());
  const bool waits_for_others =
      (comm.life == Life::Making && comm.clique->met < ranks) || (comm.gathering && comm.gathering->here < ranks);
  if (waits_for_others || comm.hangs || ++comm.looks < kLooks) return Result::InProgress;
  if (comm.life == Life::Making) {
    comm.life = Life::Alive;
    if (const std::string why = same_device(*comm.clique); !why.empty()) {
      comm.words = why;
      return comm.error = Result::InvalidUsage;
    }
  }
  if (comm.life == Life::Finalizing) comm.life = Life::Finalized;
  if (std::exchange(comm.gathering, nullptr)) std::exchange(comm.when_all_came, nullptr)();
  for (const auto& put : comm.later) put();
  comm.later.clear();
  return Result::Success;
}

Result join(Comm* out, int ranks, const UniqueId& id, int rank, const CommConfig& config) {
  auto comm = std::make_unique<OpaqueComm>();
  comm->rank = rank;
  comm->device = fake::current_device();
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  if (number == 0 || number > process().last_id) return accuse("a unique id that nobody made");
  if (config.magic != 0xcafebeef || config.size < sizeof(CommConfig) || config.blocking != 0)
    return accuse("a configuration that is none, or a communicator that blocks");
  if (comm->device < 0) return accuse("no device is the thread's");
  if (planted(kFakeNcclInitFails, rank)) return Result::SystemError;
  if (planted(kFakeNcclNoCuda, rank)) return Result::UnhandledCudaError;
  comm->hangs = planted(kFakeNcclInitHangs, rank);
  auto& clique = process().cliques[number];
  if (!clique) clique = std::make_shared<Clique>(ranks);
  comm->clique = clique;
  OpaqueComm*& place = clique->members.at(static_cast<std::size_t>(rank));
  if (place != nullptr) return accuse(fmt::format("rank {} twice", rank));
  place = comm.get();
  if (!comm->hangs) ++clique->met;
  *out = comm.get();
  process().comms.push_back(std::move(comm));
  return Result::InProgress;
}

}  // namespace

SINEW_NCCL Result ncclGetVersion(int* version) {
  const std::scoped_lock guard(lock());
  *version = version_code(2, 28, 9);
  for (const Fault& f : process().faults) {
    if (f.kind == kFakeNcclVersion) *version = f.call;
  }
  return Result::Success;
}

SINEW_NCCL Result ncclGetUniqueId(UniqueId* id) {
  const std::scoped_lock guard(lock());
  if (planted(kFakeNcclIdFails, 0)) return Result::SystemError;
  const std::uint64_t number = ++process().last_id;
  std::memcpy(id->internal, &number, sizeof number);
  return Result::Success;
}

SINEW_NCCL Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, CommConfig* config) {
  const std::scoped_lock guard(lock());
  return join(comm, ranks, id, rank, *config);
}

SINEW_NCCL Result ncclCommGetAsyncError(Comm comm, Result* state) {
  const std::scoped_lock guard(lock());
  if (comm->life == Life::Gone) return accuse("ncclCommGetAsyncError of a communicator that has ended");
  *state = comm->error;
  const bool at_work =
      comm->life == Life::Making || comm->life == Life::Finalizing || !comm->later.empty() || comm->gathering;
  if (comm->error == Result::Success && at_work) *state = look(*comm);
  return Result::Success;
}

SINEW_NCCL Result ncclCommFinalize(Comm comm) {
  const std::scoped_lock guard(lock());
  if (const auto why = refuse(comm, "ncclCommFinalize")) return *why;
  comm->life = Life::Finalizing;
  comm->looks = 0;
  return Result::InProgress;
}

SINEW_NCCL Result ncclCommDestroy(Comm comm) {
  const std::scoped_lock guard(lock());
  if (comm->life != Life::Finalized) return accuse("ncclCommDestroy of a communicator that was not finalized");
  comm->life = Life::Gone;
  forget_all_of(comm);
  return Result::Success;
}

SINEW_NCCL Result ncclCommAbort(Comm comm) {
  const std::scoped_lock guard(lock());
  if (comm->life == Life::Gone) return accuse("ncclCommAbort of a communicator that has ended");
  comm->life = Life::Gone;
  comm->clique->broken = true;
  comm->later.clear();
  comm->gathering.reset();
  forget_all_of(comm);
  return Result::Success;
}

SINEW_NCCL const char* ncclGetErrorString(Result result) {
  constexpr std::array kTexts = {"no error",
                                 "unhandled cuda error",
                                 "unhandled system error",
                                 "internal error",
                                 "invalid argument",
                                 "invalid usage",
                                 "remote process exited or there was a network error",
                                 "NCCL operation in progress"};
  return kTexts.at(static_cast<std::size_t>(result));
}

SINEW_NCCL const char* ncclGetLastError(Comm comm) {
  const std::scoped_lock guard(lock());
  return process().told.emplace_back(comm == nullptr ? "" : comm->words).c_str();
}

}  // namespace sinew::nccl

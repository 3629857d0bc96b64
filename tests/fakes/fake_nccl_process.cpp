#include "fakes/fake_nccl_process.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sinew::nccl::fakes {

Process& process() {
  static Process& p = *new Process;  // outlives the thread of the streams
  return p;
}

bool planted(FakeNcclFault kind, int rank) {
  for (Fault& f : process().faults) {
    if (f.kind == kind && f.rank == rank && f.call > 0 && --f.call == 0) return true;
  }
  return false;
}

Result fail(Comm comm, Result result, std::string why) {
  comm->words = std::move(why);
  return result;
}

Result accuse(const std::string& what) {
  if (process().misuse.empty()) process().misuse = what;
  return Result::InvalidArgument;
}

std::optional<Result> refuse(Comm comm, const char* function) {
  if (comm == nullptr) return accuse(fmt::format("{} of no communicator", function));
  if (comm->life == OpaqueComm::Life::Gone || comm->life == OpaqueComm::Life::Finalized)
    return accuse(fmt::format("{} of rank {}'s communicator, which has ended", function, comm->rank));
  if (comm->error != Result::Success) return comm->error;
  if (comm->life == OpaqueComm::Life::Alive && comm->later.empty() && !comm->gathering) return std::nullopt;
  return accuse(fmt::format("{} before rank {}'s communicator was ready", function, comm->rank));
}

Gathering& gather(OpaqueComm& comm, std::function<void()> then) {
  auto& gathering = comm.clique->gatherings[comm.gatherings++];
  if (!gathering) gathering = std::make_shared<Gathering>();
  comm.gathering = gathering;
  comm.when_all_came = std::move(then);
  comm.looks = 0;
  if (!comm.hangs) ++gathering->here;
  return *gathering;
}

void forget_all_of(Comm comm) {
  for (Operator& o : process().operators) o.alive = o.alive && o.comm != comm;
  for (const auto& r : process().registrations) r->alive = r->alive && r->comm != comm;
}

}  // namespace sinew::nccl::fakes

using namespace sinew::nccl::fakes;
using sinew::nccl::OpaqueComm;

void fake_nccl_inject(FakeNcclFault fault, int rank, int call) {
  const std::scoped_lock guard(lock());
  process().faults.push_back({fault, rank, call});
}

void fake_nccl_reset() {
  const std::scoped_lock guard(lock());
  Process& p = process();
  p.faults.clear();
  *p.late = false;
  p.late = std::make_shared<bool>(true);
}

int fake_nccl_live() {
  const std::scoped_lock guard(lock());
  int count = 0;
  for (const auto& comm : process().comms) count += comm->life != OpaqueComm::Life::Gone ? 1 : 0;
  return count;
}

int fake_nccl_operators() {
  const std::scoped_lock guard(lock());
  int count = 0;
  for (const auto& made : process().operators) count += made.alive ? 1 : 0;
  return count;
}

const char* fake_nccl_misuse() {
  const std::scoped_lock guard(lock());
  const std::string& found = process().misuse;
  return found.empty() ? nullptr : found.c_str();
}

int fake_nccl_allocations() {
  const std::scoped_lock guard(lock());
  return static_cast<int>(process().allocations.size());
}

int fake_nccl_registrations() {
  const std::scoped_lock guard(lock());
  return static_cast<int>(std::ranges::count_if(process().registrations, [](const auto& r) { return r->alive; }));
}

int fake_nccl_splits() {
  const std::scoped_lock guard(lock());
  return process().splits;
}

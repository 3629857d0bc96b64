#include "fakes/fake_nccl_process.hpp"

#include <utility>

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

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fakes/fake_nccl.hpp"
#include "fakes/fake_nccl_ranks.hpp"

namespace sinew::nccl::fakes {

struct Fault {
  FakeNcclFault kind;
  int rank;
  int call;
};

struct Operator {
  Comm comm;
  double factor;
  bool alive = true;
};

/// Memory that a communicator knows. Never freed: a handle that is given back twice shall be seen.
struct Registration {
  Comm comm;
  const std::byte* data;
  std::size_t bytes;
  bool window;
  bool alive = true;
};

/// Between ncclGroupStart and ncclGroupEnd of one thread.
struct Group {
  int depth = 0;
  std::vector<Request> requests;
  Result error = Result::Success;
};

/// Nothing here is a thread_local: its memory would be the loader's, which tsan does not know.
struct Process {
  std::vector<std::unique_ptr<OpaqueComm>> comms;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;
  std::uint64_t last_id = 0;
  std::vector<Operator> operators;  ///< RedOp 5 and on
  std::vector<Fault> faults;
  std::map<const std::byte*, std::size_t> allocations;  ///< bytes, of ncclMemAlloc
  std::vector<std::unique_ptr<Registration>> registrations;
  int splits = 0;
  std::map<std::thread::id, Group> groups;
  std::deque<std::string> told;                               ///< by ncclGetLastError
  std::shared_ptr<bool> late = std::make_shared<bool>(true);  ///< what is held by kFakeNcclLate still is
  std::string misuse;
};

/// Under lock().
Process& process();
/// true: it happens now.
bool planted(FakeNcclFault kind, int rank);
/// `result`, with words for ncclGetLastError.
Result fail(Comm comm, Result result, std::string why);
/// A caller that no NCCL would forgive.
Result accuse(const std::string& what);
/// Why a communicator cannot be asked for anything now.
std::optional<Result> refuse(Comm comm, const char* function);
/// Has the rank come to where all ranks are needed: `then` runs, under lock(), after they all have, and the caller has
/// asked for the communicator's state.
Gathering& gather(OpaqueComm& comm, std::function<void()> then);
/// A communicator has ended: what it knew.
void forget_all_of(Comm comm);

}  // namespace sinew::nccl::fakes

#define SINEW_NCCL extern "C" __attribute__((visibility("default")))

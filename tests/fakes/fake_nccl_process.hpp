#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
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

struct Process {
  std::vector<std::unique_ptr<OpaqueComm>> comms;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;
  std::uint64_t last_id = 0;
  std::vector<Operator> operators;  ///< RedOp 5 and on
  std::vector<Fault> faults;
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

}  // namespace sinew::nccl::fakes

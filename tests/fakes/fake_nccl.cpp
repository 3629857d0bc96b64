#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <sinew/core/float_formats.hpp>

#include "fakes/fake_nccl_process.hpp"

namespace sinew::nccl {
namespace {

using fakes::accuse;
using fakes::Clique;
using fakes::fail;
using fakes::Fault;
using fakes::lock;
using fakes::Operator;
using fakes::planted;
using fakes::process;
using fakes::Request;
using Life = OpaqueComm::Life;

/// Looks at its state until something asked of a communicator has happened.
constexpr int kLooks = 3;

/// Turns of a stream that a lingering call lasts.
constexpr int kLingers = 500;

struct GroupState {
  int depth = 0;
  std::vector<Request> requests;
  Result error = Result::Success;
};
thread_local GroupState group;

/// Why a communicator cannot be asked for anything now.
std::optional<Result> refuse(Comm comm, const char* function) {
  if (comm == nullptr) return accuse(fmt::format("{} of no communicator", function));
  if (comm->life == Life::Gone || comm->life == Life::Finalized)
    return accuse(fmt::format("{} of rank {}'s communicator, which has ended", function, comm->rank));
  if (comm->error != Result::Success) return comm->error;
  if (comm->life == Life::Alive && comm->later.empty()) return std::nullopt;
  return accuse(fmt::format("{} before rank {}'s communicator was ready", function, comm->rank));
}

/// What a part reads or writes must be device memory, all of it.
std::byte* usable(const void* address, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (fake::Device().place_of(address).kind != MemoryKind::Device) throw std::out_of_range("no device memory");
  return fake::bytes_of(address, bytes);
}

void put_on_stream(const Request& first, fake::Step step) {
  OpaqueComm& comm = *first.comm;
  ++comm.launches;
  if (comm.launches == 1 || comm.launches % 3 == 0) {
    comm.looks = 0;
    comm.later.emplace_back(first.stream, std::move(step));
  } else {
    fake::enqueue(first.stream, std::move(step));
  }
}

/// A kernel that has not seen yet that it shall stop.
fake::Step lingering(OpaqueComm& comm, const void* to) {
  return [&comm, to, turns = std::make_shared<int>(0)] {
    const std::scoped_lock guard(lock());
    if (comm.life != Life::Gone || ++*turns < kLingers) return false;
    if (fake::Device().place_of(to).kind != MemoryKind::Device) accuse("memory was released while a kernel wrote it");
    return true;
  };
}

fake::Step with_faults(const Request& request, fake::Step step) {
  OpaqueComm& comm = *request.comm;
  if (planted(kFakeNcclLingers, comm.rank)) return lingering(comm, request.to);
  if (planted(kFakeNcclLate, comm.rank)) {
    return [&comm, step = std::move(step), late = process().late] {
      {
        const std::scoped_lock guard(lock());
        if (*late && comm.life != Life::Gone) return false;
      }
      return step();
    };
  }
  if (planted(kFakeNcclAsyncError, comm.rank)) {
    return [&comm] {
      const std::scoped_lock guard(lock());
      comm.error = Result::RemoteError;
      comm.words = "a planted asynchronous error";
      return comm.life == Life::Gone;
    };
  }
  return step;
}

Result launch(std::vector<Request> requests) {
  OpaqueComm& comm = *requests.front().comm;
  if (planted(kFakeNcclCallFails, comm.rank)) {
    comm.error = Result::UnhandledCudaError;
    return fail(&comm, comm.error, "a planted failure of a call");
  }
  const Request first = requests.front();
  fake::Step step = first.peer < 0 ? fakes::step_of(first, comm.meetings++) : fakes::step_of(std::move(requests));
  put_on_stream(first, with_faults(first, std::move(step)));
  return comm.later.empty() ? Result::Success : Result::InProgress;
}

Result take(const char* function, Request& request, const void* from, void* to) {
  Comm comm = request.comm;
  if (const auto why = refuse(comm, function)) return *why;
  const int ranks = static_cast<int>(comm->clique->members.size());
  fake::Part& part = request.part;
  if (part.collective == Collective::AllToAll && from == to && part.count > 0) accuse("ncclAlltoAll in place");
  try {
    const bool gives = part.collective != Collective::Recv;
    const bool takes = part.collective != Collective::Send;
    part.in = gives ? usable(from, part.in_bytes(comm->rank, ranks)) : nullptr;
    part.out = takes ? usable(to, part.out_bytes(comm->rank, ranks)) : nullptr;
  } catch (const std::out_of_range& e) {
    return fail(comm, Result::InvalidArgument, fmt::format("{}: {}", function, e.what()));
  }
  request.to = to;
  if (part.count == 0) return Result::Success;  // as NCCL: nobody waits for anybody
  if (group.depth == 0) return launch({request});
  group.requests.push_back(request);
  return Result::Success;
}

/// A call as it comes from outside.
Result call(const char* function, Request request, const void* from, void* to) {
  const std::scoped_lock guard(lock());
  const Result result = take(function, request, from, to);
  if (group.depth > 0 && result != Result::Success) group.error = result;
  return result;
}

fake::Part part(Collective collective, std::size_t count, DataType type, RedOp op = RedOp::Sum, int root = 0) {
  constexpr std::array kOps = {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min, ReduceOp::Average};
  fake::Part p{.collective = collective, .count = count, .dtype = fake::dtype_of(type), .root = root};
  const auto index = static_cast<std::size_t>(op);
  if (index < kOps.size()) {
    p.op = kOps[index];
    return p;
  }
  const std::scoped_lock guard(lock());
  p.op = ReduceOp::PreMulSum;
  const Operator& made = process().operators.at(index - kOps.size());
  p.factor = made.factor;
  if (!made.alive) accuse("an operator that was destroyed");
  return p;
}

double factor_of(DType dtype, const void* scalar) {
  const auto read = [scalar](auto value) {
    std::memcpy(&value, scalar, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::F64: return read(0.0);
    case DType::F32: return read(0.0F);
    case DType::F16: return to_float(read(Half{}));
    case DType::BF16: return to_float(read(BFloat16{}));
    case DType::F8E4M3: return to_float(read(Float8E4M3{}));
    case DType::F8E5M2: return to_float(read(Float8E5M2{}));
    default: return 0;
  }
}

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
  const bool waits_for_others =
      comm.life == Life::Making && comm.clique->met < static_cast<int>(comm.clique->members.size());
  if (waits_for_others || comm.hangs || ++comm.looks < kLooks) return Result::InProgress;
  if (comm.life == Life::Making) {
    comm.life = Life::Alive;
    if (const std::string why = same_device(*comm.clique); !why.empty()) {
      comm.words = why;
      return comm.error = Result::InvalidUsage;
    }
  }
  if (comm.life == Life::Finalizing) comm.life = Life::Finalized;
  for (auto& [stream, step] : comm.later) fake::enqueue(stream, std::move(step));
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

#define SINEW_NCCL extern "C" __attribute__((visibility("default")))

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
  const bool at_work = comm->life == Life::Making || comm->life == Life::Finalizing || !comm->later.empty();
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
  for (Operator& o : process().operators) o.alive = o.alive && o.comm != comm;
  return Result::Success;
}

SINEW_NCCL Result ncclCommAbort(Comm comm) {
  const std::scoped_lock guard(lock());
  if (comm->life == Life::Gone) return accuse("ncclCommAbort of a communicator that has ended");
  comm->life = Life::Gone;
  comm->clique->broken = true;
  comm->later.clear();
  for (Operator& o : process().operators) o.alive = o.alive && o.comm != comm;
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
  static thread_local std::string words;
  const std::scoped_lock guard(lock());
  words = comm == nullptr ? "" : comm->words;
  return words.c_str();
}

SINEW_NCCL Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type, ScalarResidence residence,
                                           Comm comm) {
  const std::scoped_lock guard(lock());
  if (const auto why = refuse(comm, "ncclRedOpCreatePreMulSum")) return *why;
  if (residence != ScalarResidence::HostImmediate) return accuse("a factor that does not lie on the host");
  process().operators.push_back({comm, factor_of(fake::dtype_of(type), scalar)});
  *op = static_cast<RedOp>(4 + process().operators.size());
  return Result::Success;
}

SINEW_NCCL Result ncclRedOpDestroy(RedOp op, Comm comm) {
  const std::scoped_lock guard(lock());
  Operator& made = process().operators.at(static_cast<std::size_t>(op) - 5);
  if (!made.alive || made.comm != comm) return accuse("ncclRedOpDestroy of another communicator's operator");
  made.alive = false;
  return Result::Success;
}

SINEW_NCCL Result ncclAllReduce(const void* from, void* to, std::size_t count, DataType type, RedOp op, Comm comm,
                                Stream stream) {
  return call("ncclAllReduce", {comm, stream, part(Collective::AllReduce, count, type, op)}, from, to);
}

SINEW_NCCL Result ncclReduce(const void* from, void* to, std::size_t count, DataType type, RedOp op, int root,
                             Comm comm, Stream stream) {
  return call("ncclReduce", {comm, stream, part(Collective::Reduce, count, type, op, root)}, from, to);
}

SINEW_NCCL Result ncclReduceScatter(const void* from, void* to, std::size_t count, DataType type, RedOp op, Comm comm,
                                    Stream stream) {
  return call("ncclReduceScatter", {comm, stream, part(Collective::ReduceScatter, count, type, op)}, from, to);
}

SINEW_NCCL Result ncclBroadcast(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm,
                                Stream stream) {
  return call("ncclBroadcast", {comm, stream, part(Collective::Broadcast, count, type, RedOp::Sum, root)}, from, to);
}

SINEW_NCCL Result ncclAllGather(const void* from, void* to, std::size_t count, DataType type, Comm comm,
                                Stream stream) {
  return call("ncclAllGather", {comm, stream, part(Collective::AllGather, count, type)}, from, to);
}

SINEW_NCCL Result ncclAlltoAll(const void* from, void* to, std::size_t count, DataType type, Comm comm, Stream stream) {
  return call("ncclAlltoAll", {comm, stream, part(Collective::AllToAll, count, type)}, from, to);
}

SINEW_NCCL Result ncclGather(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm,
                             Stream stream) {
  return call("ncclGather", {comm, stream, part(Collective::Gather, count, type, RedOp::Sum, root)}, from, to);
}

SINEW_NCCL Result ncclScatter(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm,
                              Stream stream) {
  return call("ncclScatter", {comm, stream, part(Collective::Scatter, count, type, RedOp::Sum, root)}, from, to);
}

SINEW_NCCL Result ncclSend(const void* from, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return call("ncclSend", {comm, stream, part(Collective::Send, count, type), peer}, from, nullptr);
}

SINEW_NCCL Result ncclRecv(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return call("ncclRecv", {comm, stream, part(Collective::Recv, count, type), peer}, nullptr, to);
}

SINEW_NCCL Result ncclGroupStart() {
  if (group.depth++ == 0) group.error = Result::Success;
  return Result::Success;
}

SINEW_NCCL Result ncclGroupEnd() {
  const std::scoped_lock guard(lock());
  if (--group.depth > 0) return Result::Success;
  std::vector<Request> requests = std::exchange(group.requests, {});
  if (group.error != Result::Success || requests.empty()) return group.error;
  return launch(std::move(requests));
}

}  // namespace sinew::nccl

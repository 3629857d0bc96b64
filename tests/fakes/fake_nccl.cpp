#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <sinew/core/float_formats.hpp>

#include "fakes/fake_nccl_calls.hpp"

namespace sinew::nccl {
namespace {

using fakes::accuse;
using fakes::fail;
using fakes::lock;
using fakes::Operator;
using fakes::planted;
using fakes::process;
using fakes::refuse;
using fakes::Request;
using Life = OpaqueComm::Life;

/// Turns of a stream that a lingering call lasts.
constexpr int kLingers = 500;

/// What a part reads or writes must be device memory, all of it.
std::byte* usable(const void* address, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (fake::Device().place_of(address).kind != MemoryKind::Device) throw std::out_of_range("no device memory");
  return fake::bytes_of(address, bytes);
}

void put_on_stream(OpaqueComm& comm, std::function<void()> put) {
  ++comm.launches;
  if (comm.launches == 1 || comm.launches % 3 == 0) {
    comm.looks = 0;
    comm.later.push_back(std::move(put));
  } else {
    put();
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

/// The calls of a group: messages run together, collectives in their order.
fake::Step work_of(std::vector<Request> requests) {
  OpaqueComm& comm = *requests.front().comm;
  const auto is_message = [](const Request& r) { return r.peer >= 0; };
  if (std::ranges::all_of(requests, is_message)) return fakes::step_of(std::move(requests));
  if (std::ranges::any_of(requests, is_message)) accuse("a group of messages and collectives");
  const auto left = std::make_shared<std::deque<fake::Step>>();
  for (Request& r : requests) left->push_back(fakes::step_of(std::move(r), comm.meetings++));
  return [left] {
    while (!left->empty() && left->front()()) left->pop_front();
    return left->empty();
  };
}

fake::Step counted(OpaqueComm& comm, fake::Step step) {
  return [&comm, step = std::move(step)] {
    if (!step()) return false;
    const std::scoped_lock guard(lock());
    --comm.running;
    return true;
  };
}

/// Makes the step that a replay of the captured calls puts on a stream.
fake::Step replayed(const std::vector<Request>& requests) {
  const std::scoped_lock guard(lock());
  OpaqueComm& comm = *requests.front().comm;
  if (comm.life == Life::Gone) {
    accuse("a graph was replayed after the end of its communicator");
    return [] { return true; };
  }
  ++comm.running;
  return counted(comm, with_faults(requests.front(), work_of(requests)));
}

Result launch(std::vector<Request> requests) {
  OpaqueComm& comm = *requests.front().comm;
  if (planted(kFakeNcclCallFails, comm.rank)) {
    comm.error = Result::UnhandledCudaError;
    return fail(&comm, comm.error, "a planted failure of a call");
  }
  const Request first = requests.front();
  if (fake::is_capturing(first.stream)) {
    put_on_stream(comm, [stream = first.stream, requests = std::move(requests)] {
      fake::enqueue_made(stream, [requests] { return replayed(requests); });
    });
  } else {
    ++comm.running;
    fake::Step step = counted(comm, with_faults(first, work_of(std::move(requests))));
    put_on_stream(comm, [stream = first.stream, step = std::move(step)] { fake::enqueue(stream, step); });
  }
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
  fakes::Group& group = process().groups[std::this_thread::get_id()];
  if (group.depth == 0) return launch({request});
  group.requests.push_back(request);
  return Result::Success;
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

}  // namespace

namespace fakes {

Result call(const char* function, Request request, const void* from, void* to) {
  const std::scoped_lock guard(lock());
  const Result result = take(function, request, from, to);
  fakes::Group& group = process().groups[std::this_thread::get_id()];
  if (group.depth > 0 && result != Result::Success) group.error = result;
  return result;
}

fake::Part part(Collective collective, std::size_t count, DataType type, RedOp op, int root) {
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

}  // namespace fakes

using fakes::call;
using fakes::part;

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

SINEW_NCCL Result ncclSend(const void* from, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return call("ncclSend", {comm, stream, part(Collective::Send, count, type), peer}, from, nullptr);
}

SINEW_NCCL Result ncclRecv(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return call("ncclRecv", {comm, stream, part(Collective::Recv, count, type), peer}, nullptr, to);
}

SINEW_NCCL Result ncclGroupStart() {
  const std::scoped_lock guard(lock());
  fakes::Group& group = process().groups[std::this_thread::get_id()];
  if (group.depth++ == 0) group.error = Result::Success;
  return Result::Success;
}

SINEW_NCCL Result ncclGroupEnd() {
  const std::scoped_lock guard(lock());
  fakes::Group& group = process().groups[std::this_thread::get_id()];
  if (--group.depth > 0) return Result::Success;
  std::vector<Request> requests = std::exchange(group.requests, {});
  if (group.error != Result::Success || requests.empty()) return group.error;
  return launch(std::move(requests));
}

}  // namespace sinew::nccl

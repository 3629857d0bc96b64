#include <stdexcept>

#include <fmt/format.h>

#include "fakes/fake_nccl_calls.hpp"

// What came after the oldest version, or may be left out of a build.
namespace sinew::nccl {
namespace {

using fakes::accuse;
using fakes::call;
using fakes::Clique;
using fakes::fail;
using fakes::Gathering;
using fakes::lock;
using fakes::part;
using fakes::planted;
using fakes::process;
using fakes::refuse;
using fakes::Registration;
using Life = OpaqueComm::Life;

Registration& add_registration(Comm comm, const void* data, std::size_t bytes, bool window) {
  process().registrations.push_back(
      std::make_unique<Registration>(comm, static_cast<const std::byte*>(data), bytes, window));
  return *process().registrations.back();
}

Result take_back(Comm comm, void* handle, bool window, const char* function) {
  if (const auto why = refuse(comm, function)) return *why;
  for (const auto& r : process().registrations) {
    if (r.get() != handle) continue;
    if (!r->alive || r->comm != comm || r->window != window) break;
    r->alive = false;
    return Result::Success;
  }
  return accuse(fmt::format("{} of a handle that it did not give, or took back", function));
}

/// What a rank makes of a split that all have come to.
void be_born(OpaqueComm& parent, Gathering& split, Comm* out) {
  const auto [color, key] = split.colors.at(parent.rank);
  if (color == kColorless) return;
  int ranks = 0;
  int place = 0;
  for (const auto& [rank, other] : split.colors) {
    if (other.first != color) continue;
    ++ranks;
    if (std::pair(other.second, rank) < std::pair(key, parent.rank)) ++place;
  }
  auto& clique = split.cliques[color];
  if (!clique) clique = std::make_shared<Clique>(ranks);
  auto comm = std::make_unique<OpaqueComm>();
  comm->clique = clique;
  comm->rank = place;
  comm->device = parent.device;
  clique->members.at(static_cast<std::size_t>(place)) = comm.get();
  ++clique->met;
  ++process().splits;
  *out = comm.get();
  process().comms.push_back(std::move(comm));
}

}  // namespace

/// As NCCL's: it says Success although it has only begun.
SINEW_NCCL Result ncclCommSplit(Comm comm, int color, int key, Comm* out, CommConfig* config) {
  const std::scoped_lock guard(lock());
  if (const auto why = refuse(comm, "ncclCommSplit")) return *why;
  if (comm->running > 0) return accuse(fmt::format("ncclCommSplit with {} calls under way", comm->running));
  if (color < kColorless || config->blocking != 0 || config->split_share != 0)
    return accuse("ncclCommSplit into a color below 0, or with a configuration that blocks or shares");
  if (planted(kFakeNcclSplitFails, comm->rank)) return fail(comm, Result::SystemError, "a planted failure of a split");
  comm->hangs = planted(kFakeNcclSplitHangs, comm->rank);
  *out = nullptr;
  Gathering& split =
      fakes::gather(*comm, [comm, out] { be_born(*comm, *comm->clique->gatherings.at(comm->gatherings - 1), out); });
  split.colors[comm->rank] = {color, key};
  return Result::Success;
}

SINEW_NCCL Result ncclMemAlloc(void** memory, std::size_t bytes) {
  const std::scoped_lock guard(lock());
  const int device = fake::current_device();
  if (device < 0 || bytes == 0) return accuse("ncclMemAlloc of nothing, or on no device");
  if (planted(kFakeNcclMemoryFails, device)) return Result::UnhandledCudaError;
  const Buffer made = fake::Device().allocate(bytes, {MemoryKind::Device, device});
  process().allocations[made.data] = bytes;
  *memory = made.data;
  return Result::Success;
}

SINEW_NCCL Result ncclMemFree(void* memory) {
  const std::scoped_lock guard(lock());
  const auto at = process().allocations.find(static_cast<std::byte*>(memory));
  if (at == process().allocations.end()) return accuse("ncclMemFree of what ncclMemAlloc did not give");
  for (const auto& r : process().registrations) {
    if (r->alive && r->data == at->first) accuse("ncclMemFree of memory that a communicator knows");
  }
  process().allocations.erase(at);
  fake::Device().release(Buffer{static_cast<std::byte*>(memory), 1});
  return Result::Success;
}

SINEW_NCCL Result ncclCommRegister(Comm comm, void* memory, std::size_t bytes, void** handle) {
  const std::scoped_lock guard(lock());
  if (const auto why = refuse(comm, "ncclCommRegister")) return *why;
  if (planted(kFakeNcclRegisterFails, comm->rank)) return fail(comm, Result::SystemError, "a planted failure");
  *handle = &add_registration(comm, memory, bytes, false);
  return Result::Success;
}

SINEW_NCCL Result ncclCommDeregister(Comm comm, void* handle) {
  const std::scoped_lock guard(lock());
  return take_back(comm, handle, false, "ncclCommDeregister");
}

/// As NCCL's: it says Success although it has only begun, and gives the window later.
SINEW_NCCL Result ncclCommWindowRegister(Comm comm, void* memory, std::size_t bytes, Window* window, int flags) {
  const std::scoped_lock guard(lock());
  if (const auto why = refuse(comm, "ncclCommWindowRegister")) return *why;
  if (planted(kFakeNcclRegisterFails, comm->rank)) return fail(comm, Result::SystemError, "a planted failure");
  const auto at = process().allocations.find(static_cast<std::byte*>(memory));
  if (flags != kSymmetricWindow || at == process().allocations.end() || at->second < bytes)
    return accuse("a window of memory that ncclMemAlloc did not give, or with other flags");
  comm->hangs = planted(kFakeNcclWindowHangs, comm->rank);
  Gathering& all = fakes::gather(*comm, [comm, memory, bytes, window] {
    for (const auto& [rank, theirs] : comm->clique->gatherings.at(comm->gatherings - 1)->bytes) {
      if (theirs != bytes) accuse(fmt::format("a window of {} bytes, on rank {} of {}", bytes, rank, theirs));
    }
    *window = &add_registration(comm, memory, bytes, true);
  });
  all.bytes[comm->rank] = bytes;
  return Result::Success;
}

SINEW_NCCL Result ncclCommWindowDeregister(Comm comm, Window window) {
  const std::scoped_lock guard(lock());
  return take_back(comm, window, true, "ncclCommWindowDeregister");
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

}  // namespace sinew::nccl

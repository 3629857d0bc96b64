#pragma once

#include <cstddef>
#include <vector>

#include <sinew/core/transport/drain.hpp>

#include "support/collective_case.hpp"

namespace sinew::test {

/// The host's view of device memory, after all that the stream holds.
template <class T>
std::vector<T> read(const OnDevice& where, Buffer from) {
  std::vector<T> host(from.bytes / sizeof(T));
  where.runtime.copy_async({reinterpret_cast<std::byte*>(host.data()), from.bytes}, from, where.stream);
  drain(where.runtime, where.stream);
  return host;
}

/// Device memory with the host's values, when the stream has come there: `host` stays until then.
template <class T>
Buffer write(const OnDevice& where, std::vector<T>& host) {
  const std::size_t bytes = host.size() * sizeof(T);
  const Buffer to = where.runtime.allocate(bytes, {MemoryKind::Device, where.stream.device});
  where.runtime.copy_async(to, Buffer{reinterpret_cast<std::byte*>(host.data()), bytes}, where.stream);
  return to;
}

}  // namespace sinew::test

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sinew::doctor {

/// A word in the memory of a process, for other processes of the host to read.
struct PeerMemory {
  pid_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t content = 0;
};

/// This process's word. It stays the same until the process ends.
PeerMemory own_memory();

/// Reads the word as shm reads memory of a peer. Returns why this failed; empty: it worked.
std::string try_to_read(const PeerMemory& peer);

}  // namespace sinew::doctor

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sinew::doctor {

/// A word in a process, for others of its host to read.
struct PeerMemory {
  pid_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t content = 0;
};

/// This process's: the same until it ends.
PeerMemory own_memory();

/// Reads it as shm does. Empty: it can; else why not.
std::string try_to_read(const PeerMemory& peer);

}  // namespace sinew::doctor

#pragma once

#include <memory>

#include <sinew/collectives/memory.hpp>

#include "python.hpp"
#include "session.hpp"

namespace sinew::python {

/// The class Memory of Python: registered memory, which shows its bytes by the buffer protocol.
class PyMemory {
 public:
  /// `of_communicator`: the memory ends with the World of `session`. Otherwise it may outlive the World.
  PyMemory(std::shared_ptr<Session> session, Memory memory, bool of_communicator);
  ~PyMemory();
  PyMemory(const PyMemory&) = delete;
  PyMemory& operator=(const PyMemory&) = delete;

  const Memory& memory() const noexcept { return memory_; }

 private:
  std::shared_ptr<Session> session_;
  Memory memory_;
  bool of_communicator_;
};

void bind_memory(nb::module_& m);

}  // namespace sinew::python

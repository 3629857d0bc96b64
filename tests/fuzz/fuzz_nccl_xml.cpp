#include <cstdint>

#include <sinew/topology/format/nccl/nccl_xml.hpp>

#include "accepted.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sinew::Machine machine;
  try {
    machine = sinew::machine_from_nccl_xml({reinterpret_cast<const char*>(data), size}, "file");
  } catch (const sinew::Error& error) {
    sinew::test::check_refused(error);
    return 0;
  }
  sinew::test::check_accepted(machine);
  return 0;
}

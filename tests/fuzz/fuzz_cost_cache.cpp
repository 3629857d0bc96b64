#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace {

/// A file of this process alone.
std::string file_with(const sinew::FileDescriptor& memory, const std::string& text) {
  if (::ftruncate(memory.get(), 0) != 0 ||
      ::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    std::abort();
  return "/proc/self/fd/" + std::to_string(memory.get());
}

}  // namespace

/// Reads what a cache says of this machine and of its devices, the whole of a cache, and what another rank says that it
/// has measured.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sinew::FileDescriptor memory(::memfd_create("costs", MFD_CLOEXEC));
  sinew::log::set_level(sinew::log::Level::Off);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string here = R"({"format":3,"machines":{")" + sinew::machine_identity(2) + R"(":)" + text + "}}";
  for (const std::string& content : {here, text}) {
    if (const auto costs = sinew::load_costs(file_with(memory, content), 2)) {
      (void)sinew::costs_from_bytes(sinew::to_bytes(*costs));
    }
  }
  const std::string devices = R"({"format":3,"machines":{},"devices":{"gpu":)" + text + "}}";
  for (const std::string& content : {devices, text}) {
    const sinew::SeenTimes times = sinew::load_seen_times(file_with(memory, content), "gpu");
    if (!times.devices.empty()) (void)sinew::seen_times_from(to_text(times));
  }
  try {
    (void)sinew::costs_from_bytes(
        {reinterpret_cast<const std::byte*>(data), reinterpret_cast<const std::byte*>(data) + size});
  } catch (const std::exception&) {
    return 0;
  }
  return 0;
}

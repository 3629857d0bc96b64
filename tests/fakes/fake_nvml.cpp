// A libnvidia-ml.so.1 of machines that nobody has. FAKE_NVML, read when it starts, says which:
//   dgx-h100  8 GPUs with 18 NVLinks each to 4 NVSwitches (default)
//   bridged   2 GPUs with 4 NVLinks between them; the driver states no speed and knows no MIG
//   half      the second GPU of bridged is kept from this container
//   virtual   the NVSwitches of dgx-h100 are not shown
//   lost      GPU 3 of dgx-h100 fell off the bus, GPU 5 is cut into instances
//   refused   the driver is not loaded
//   pair      GPU 2 of dgx-h100 may not use the memory of GPU 5 by a setting of the driver, and of the way back the
//             driver says nothing
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/discover/nvml.hpp>

namespace {

using namespace sinew::nvml;

constexpr Result kUninitialized = 1;
constexpr Result kInvalidArgument = 2;
constexpr Result kDriverNotLoaded = 9;
constexpr Result kGpuIsLost = 15;
constexpr Result kUnknown = 999;

constexpr const char* kHopperBuses[] = {"1B", "43", "52", "61", "9D", "C3", "D1", "DF"};
constexpr const char* kBridgedBuses[] = {"21", "A1"};
constexpr const char* kSwitchOfLink[] = {"05", "05", "05", "05", "06", "06", "06", "06", "06",
                                         "07", "07", "07", "07", "07", "08", "08", "08", "08"};
constexpr unsigned kBridgedLinks = 4;

std::string machine;  // empty: not started

bool is(const char* name) { return machine == name; }
bool bridged() { return is("bridged") || is("half"); }
unsigned count() { return is("half") ? 1 : is("bridged") ? std::size(kBridgedBuses) : std::size(kHopperBuses); }
unsigned links() { return bridged() ? kBridgedLinks : std::size(kSwitchOfLink); }

/// Handles are numbers, from 1.
std::size_t index_of(Device device) { return reinterpret_cast<std::size_t>(device) - 1; }
const char* bus_of(std::size_t gpu) { return bridged() ? kBridgedBuses[gpu] : kHopperBuses[gpu]; }

Result text(char* out, unsigned size, const std::string& value) {
  std::snprintf(out, size, "%s", value.c_str());
  return kSuccess;
}

Result bus_id(PciInfo* out, const char* bus) {
  *out = {};
  std::snprintf(out->bus_id, sizeof(out->bus_id), "00000000:%s:00.0", bus);
  return kSuccess;
}

}  // namespace

extern "C" {

SINEW_API Result nvmlInit_v2() {
  const char* wanted = std::getenv("FAKE_NVML");
  const std::string name = wanted == nullptr ? "dgx-h100" : wanted;
  if (name == "refused") return kDriverNotLoaded;
  machine = name;
  return kSuccess;
}

SINEW_API Result nvmlShutdown() {
  if (machine.empty()) return kUninitialized;
  machine.clear();
  return kSuccess;
}

SINEW_API const char* nvmlErrorString(Result result) {
  switch (result) {
    case kSuccess: return "Success";
    case kNotSupported: return "Not Supported";
    case kDriverNotLoaded: return "Driver Not Loaded";
    case kGpuIsLost: return "GPU is lost";
    default: return "Unknown Error";
  }
}

SINEW_API Result nvmlDeviceGetCount_v2(unsigned* out) {
  if (machine.empty()) return kUninitialized;
  *out = count();
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* out) {
  if (index >= count()) return kInvalidArgument;
  if (is("lost") && index == 3) return kGpuIsLost;
  *out = reinterpret_cast<Device>(static_cast<std::size_t>(index) + 1);
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetName(Device, char* out, unsigned size) {
  return text(out, size, bridged() ? "NVIDIA RTX A6000" : "NVIDIA H100 80GB HBM3");
}

SINEW_API Result nvmlDeviceGetUUID(Device device, char* out, unsigned size) {
  return text(out, size, "GPU-00000000-0000-0000-0000-0000000000" + std::string(bus_of(index_of(device))));
}

SINEW_API Result nvmlDeviceGetPciInfo_v3(Device device, PciInfo* out) { return bus_id(out, bus_of(index_of(device))); }

SINEW_API Result nvmlDeviceGetMemoryInfo(Device, Memory* out) {
  *out = {.total = 81559ull << 20, .free = 80000ull << 20, .used = 1559ull << 20};
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetCudaComputeCapability(Device, int* major, int* minor) {
  *major = bridged() ? 8 : 9;
  *minor = bridged() ? 6 : 0;
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  if (bridged()) return kNotSupported;
  *current = *pending = is("lost") && index_of(device) == 5 ? 1 : 0;
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetNvLinkState(Device, unsigned link, unsigned* active) {
  if (link >= links()) return kInvalidArgument;
  *active = 1;
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* out) {
  if (link >= links()) return kInvalidArgument;
  if (bridged()) return bus_id(out, kBridgedBuses[1 - index_of(device)]);
  bus_id(out, kSwitchOfLink[link]);
  if (is("virtual")) std::strcpy(out->bus_id, "FFFFFFFF:FFFF:FF.0");
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned link, int* out) {
  constexpr int kSwitch = 2;
  if (link >= links()) return kInvalidArgument;
  *out = bridged() ? kRemoteGpu : kSwitch;
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetFieldValues(Device, int values, FieldValue* out) {
  for (int v = 0; v < values; ++v) {
    constexpr unsigned kMegabytesPerSecond = 26562;
    const bool known = out[v].field == kFieldNvLinkSpeed && out[v].scope < links() && !bridged();
    out[v].result = known ? kSuccess : kNotSupported;
    if (known) out[v].value.number = kMegabytesPerSecond;
  }
  return kSuccess;
}

SINEW_API Result nvmlDeviceGetP2PStatus(Device from, Device to, int asked, int* status) {
  const std::size_t a = index_of(from);
  const std::size_t b = index_of(to);
  if (a == b || a >= count() || b >= count()) return kInvalidArgument;
  if (is("pair") && a == 5 && b == 2) return kUnknown;
  const bool atomics_over_bridge = bridged() && asked == kPeerAtomics;
  *status = is("pair") && a == 2 && b == 5 ? kPeerDisabledByRegistry
            : atomics_over_bridge          ? kPeerNotSupported
                                           : kPeerOk;
  return kSuccess;
}

}  // extern "C"

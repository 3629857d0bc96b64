#pragma once

#include <string>
#include <utility>
#include <variant>

/// NVIDIA's management library, loaded at run time; what is used of it is declared here.
/// Source: the NVML API reference; layouts are those of its "_v2" and "_v3" functions, which do not change any more.
namespace sinew::nvml {

using Result = int;
using Device = struct DeviceHandle*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];  ///< "00000000:1B:00.0"
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct FieldValue {
  unsigned field;
  unsigned scope;  ///< the NVLink
  long long timestamp;
  long long latency_us;
  int type;
  Result result;
  union {
    double real;
    unsigned number;
    unsigned long long wide_number;
  } value;
};

/// Speed of an NVLink each way, in megabytes per second.
inline constexpr unsigned kFieldNvLinkSpeed = 164;

// clang-format off
/// Each row: our name, its exported name, its arguments.
#define SINEW_NVML_FUNCTIONS(row)                                                     \
  row(init, nvmlInit_v2, ())                                                          \
  row(shutdown, nvmlShutdown, ())                                                     \
  row(device_count, nvmlDeviceGetCount_v2, (unsigned*))                               \
  row(device, nvmlDeviceGetHandleByIndex_v2, (unsigned, Device*))                     \
  row(name, nvmlDeviceGetName, (Device, char*, unsigned))                             \
  row(uuid, nvmlDeviceGetUUID, (Device, char*, unsigned))                             \
  row(pci_info, nvmlDeviceGetPciInfo_v3, (Device, PciInfo*))                          \
  row(memory, nvmlDeviceGetMemoryInfo, (Device, Memory*))                             \
  row(compute_capability, nvmlDeviceGetCudaComputeCapability, (Device, int*, int*))   \
  row(mig_mode, nvmlDeviceGetMigMode, (Device, unsigned*, unsigned*))                 \
  row(nvlink_state, nvmlDeviceGetNvLinkState, (Device, unsigned, unsigned*))          \
  row(nvlink_remote, nvmlDeviceGetNvLinkRemotePciInfo_v2, (Device, unsigned, PciInfo*)) \
  row(field_values, nvmlDeviceGetFieldValues, (Device, int, FieldValue*))
// clang-format on

struct Functions {
#define SINEW_NVML_POINTER(name, symbol, arguments) Result(*name) arguments = nullptr;
  SINEW_NVML_FUNCTIONS(SINEW_NVML_POINTER)
#undef SINEW_NVML_POINTER
  const char* (*error_text)(Result) = nullptr;
};

/// The functions, initialized until the end of this object.
class Library : public Functions {
 public:
  explicit Library(const Functions& functions) : Functions(functions) {}
  Library(Library&& from) noexcept : Functions(from), owner_(std::exchange(from.owner_, false)) {}
  ~Library() {
    if (owner_) shutdown();
  }

  /// "GPU is lost"
  std::string text_of(Result result) const { return error_text(result); }

 private:
  bool owner_ = true;
};

/// The library, or why there is none.
std::variant<Library, std::string> load();

}  // namespace sinew::nvml

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

/// What nvmlDeviceGetP2PStatus is asked for, and what it answers.
inline constexpr int kPeerRead = 0;
inline constexpr int kPeerWrite = 1;
inline constexpr int kPeerNvLink = 2;
inline constexpr int kPeerAtomics = 3;
inline constexpr int kPeerOk = 0;
inline constexpr int kPeerChipsetNotSupported = 1;
inline constexpr int kPeerGpuNotSupported = 2;
inline constexpr int kPeerTopologyNotSupported = 3;
inline constexpr int kPeerDisabledByRegistry = 4;
inline constexpr int kPeerNotSupported = 5;
inline constexpr int kPeerUnknown = 6;

/// What an NVLink leads to.
inline constexpr int kRemoteGpu = 0;
inline constexpr int kRemoteUnknown = 255;

struct Functions {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_text)(Result) = nullptr;
  Result (*device_count)(unsigned*) = nullptr;
  Result (*device)(unsigned, Device*) = nullptr;
  Result (*name)(Device, char*, unsigned) = nullptr;
  Result (*uuid)(Device, char*, unsigned) = nullptr;
  Result (*pci_info)(Device, PciInfo*) = nullptr;
  Result (*memory)(Device, Memory*) = nullptr;
  Result (*compute_capability)(Device, int*, int*) = nullptr;
  Result (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  Result (*nvlink_state)(Device, unsigned, unsigned*) = nullptr;
  Result (*nvlink_remote)(Device, unsigned, PciInfo*) = nullptr;
  Result (*field_values)(Device, int, FieldValue*) = nullptr;
  Result (*nvlink_remote_type)(Device, unsigned, int*) = nullptr;  ///< null: the driver is older than this function
  Result (*peer_status)(Device from, Device to, int asked, int* status) = nullptr;  ///< null: likewise
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

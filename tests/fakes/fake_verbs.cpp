// A libibverbs.so.1 of devices that nobody has. FAKE_VERBS, read with every list, says which, with spaces between:
//   mlx5_0      a device that can be opened; the MTU of its port 1 is 4096, of port 2 1024, and there are no others
//   mlx5_3!13   one that is listed and fails to open with this errno
// "none!38": there is no list, with this errno. Not set: mlx5_0 to mlx5_11.
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/discover/verbs.hpp>

namespace sinew::verbs {

struct DeviceHandle {
  std::string name;
  int error = 0;  ///< of opening it
};
struct ContextHandle {};

}  // namespace sinew::verbs

namespace {

using namespace sinew::verbs;

std::string wanted() {
  if (const char* text = std::getenv("FAKE_VERBS")) return text;
  std::string all;
  for (int i = 0; i < 12; ++i) all += "mlx5_" + std::to_string(i) + " ";
  return all;
}

std::vector<DeviceHandle*> devices() {
  std::istringstream words(wanted());
  std::vector<DeviceHandle*> all;
  for (std::string word; words >> word;) {
    const std::size_t mark = word.find('!');
    const int error = mark == std::string::npos ? 0 : std::atoi(word.c_str() + mark + 1);
    all.push_back(new DeviceHandle{word.substr(0, mark), error});
  }
  return all;
}

}  // namespace

extern "C" {

SINEW_API Device* ibv_get_device_list(int* count) {
  const std::vector<DeviceHandle*> all = devices();
  if (!all.empty() && all.front()->name == "none") {
    const int error = all.front()->error;
    delete all.front();
    errno = error;
    return nullptr;
  }
  auto* list = new Device[all.size() + 1]{};
  for (std::size_t i = 0; i < all.size(); ++i) list[i] = all[i];
  if (count != nullptr) *count = static_cast<int>(all.size());
  return list;
}

SINEW_API void ibv_free_device_list(Device* list) {
  for (Device* device = list; *device != nullptr; ++device) delete *device;
  delete[] list;
}

SINEW_API const char* ibv_get_device_name(Device device) { return device->name.c_str(); }

SINEW_API Context ibv_open_device(Device device) {
  if (device->error == 0) return new ContextHandle;
  errno = device->error;
  return nullptr;
}

SINEW_API int ibv_close_device(Context context) {
  delete context;
  return 0;
}

SINEW_API int ibv_query_port(Context, std::uint8_t port, PortAttributes* out) {
  constexpr int kMtu1024 = 3;
  constexpr int kMtu4096 = 5;
  constexpr int kActive = 4;
  if (port < 1 || port > 2) return EINVAL;
  *out = {};
  out->state = kActive;
  out->max_mtu = kMtu4096;
  out->active_mtu = port == 1 ? kMtu4096 : kMtu1024;
  return 0;
}

}  // extern "C"

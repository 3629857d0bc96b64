#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/opened_device.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew::parallel {
namespace {

constexpr std::string_view kKind = "cuda";

/// The number in a name; nullopt: the name has none.
std::optional<int> number_in(std::string_view name) {
  if (name == kKind) return std::nullopt;
  if (name.starts_with(kKind) && name.substr(kKind.size()).starts_with(':')) {
    const std::optional<int> number = parse_number<int>(name.substr(kKind.size() + 1));
    if (number && *number >= 0) return number;
  }
  throw Error(Code::InvalidArgument,
              fmt::format("device '{}': expected cuda, or cuda: and the number of a device such as cuda:0", name));
}

std::unique_ptr<DeviceRuntime> runtime_for(const std::string& name) {
  try {
    return make_device_runtime();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("device '{}': {}", name, e.what()));
  }
}

}  // namespace

OpenedDevice::OpenedDevice(const std::string& name, int place_on_host) {
  const std::optional<int> asked = number_in(name);
  runtime_ = runtime_for(name);
  const int devices = runtime_->device_count();
  const int number = asked.value_or(place_on_host % devices);
  if (number >= devices) {
    throw Error(Code::InvalidArgument, fmt::format("device '{}': found {} device(s), expected a number from 0 to {}",
                                                   name, devices, devices - 1));
  }
  stream_ = runtime_->make_stream(number);
}

OpenedDevice::~OpenedDevice() { runtime_->release(stream_); }

}  // namespace sinew::parallel

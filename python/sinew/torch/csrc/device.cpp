#include "device.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

#include <sinew/core/base/process_lock.hpp>

namespace sinew::torch_backend::device {

Place place(c10::Device device) {
  return device.is_cpu() ? Place{} : Place{MemoryKind::Device, static_cast<int>(device.index())};
}

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

c10::Stream side_stream(c10::Device device) {
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const ProcessLock lock(OfProcess::Bindings);
  const auto known = streams.find(device.index());
  if (known != streams.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(device.index(), guard.getStreamFromGlobalPool(device)).first->second;
}

StreamRef reference(const c10::Stream& stream) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  return {guard.getStreamNativeHandle(stream), static_cast<int>(stream.device_index())};
}

void keep_for(const c10::DataPtr& data, const c10::Stream& stream) {
  c10::impl::VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(data, stream);
}

}  // namespace sinew::torch_backend::device

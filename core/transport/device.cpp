#include <sinew/core/error.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

void DeviceMark::order(StreamRef stream) const {
  DeviceRuntime& runtime = *runtime_.load(std::memory_order_relaxed);
  if (captured() && runtime.capture_of(stream) != capture_) {
    throw Error(Code::InvalidArgument,
                "Work::order: the call was captured into a graph, and the stream is not part of that capture; expected "
                "a stream of the capture, or a wait on the stream that replays the graph");
  }
  runtime.wait(stream, event_);
}

}  // namespace sinew

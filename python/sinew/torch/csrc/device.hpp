#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>

namespace sinew::torch_backend::device {

// Streams by torch's own interface for any accelerator. It needs no header of CUDA, so one extension serves both kinds
// of memory, and compiles where CUDA is not installed.

/// The Place of memory on this device.
Place place(c10::Device device);
/// The stream that this thread puts its work on.
c10::Stream current_stream(c10::Device device);
/// A stream from torch's pool. All callers get the same one for a device.
c10::Stream side_stream(c10::Device device);
/// The same stream in sinew's type.
StreamRef reference(const c10::Stream& stream);
/// Keeps torch from using the memory of `data` again until the stream has run all that it holds now.
void keep_for(const c10::DataPtr& data, const c10::Stream& stream);

}  // namespace sinew::torch_backend::device

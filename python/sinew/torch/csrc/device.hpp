#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>

namespace sinew::torch_backend::device {

// Streams by torch's own interface for any accelerator. It needs no header of CUDA, so one extension serves both kinds
// of memory, and compiles where CUDA is not installed.

/// Where memory of this device of torch lies, for sinew.
Place place(c10::Device device);
/// The stream that this thread puts its work on.
c10::Stream current_stream(c10::Device device);
/// A stream of torch's pool, the same one for all that ask for it here.
c10::Stream side_stream(c10::Device device);
/// As sinew takes it.
StreamRef reference(const c10::Stream& stream);
/// torch does not give away the memory of `data` again before the stream is through with what it holds now.
void keep_for(const c10::DataPtr& data, const c10::Stream& stream);

}  // namespace sinew::torch_backend::device

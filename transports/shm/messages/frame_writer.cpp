#include <sinew/transports/shm/messages/frame_writer.hpp>

namespace sinew::shm {

bool FrameWriter::flush() noexcept {
  for (; !controls_.empty(); controls_.pop_front()) {
    const Control& c = controls_.front();
    Frame* frame = ring_.claim(1);
    if (frame == nullptr) return false;
    frame->kind = c.kind;
    frame->id = c.id;
    frame->note = c.note;
    frame->bytes = 0;
    frame->more.receive = c.receive;
    frame->more.why = c.why;
    publish(*frame, 1);
  }
  return true;
}

}  // namespace sinew::shm

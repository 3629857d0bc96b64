#include "memory.hpp"

#include <nanobind/ndarray.h>

#include <string>
#include <utility>

#include "python.hpp"

namespace sinew::python {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& memory = nb::inst_ptr<PyMemory>(self)->memory().buffer();
  if (memory.place.kind == MemoryKind::Device) {
    PyErr_SetString(PyExc_BufferError, "the memory lies on a device: use DLPack, such as torch.from_dlpack(memory)");
    view->obj = nullptr;
    return -1;
  }
  return PyBuffer_FillInfo(view, self, memory.data, static_cast<Py_ssize_t>(memory.bytes), 0, flags);
}

nb::ndarray<std::uint8_t> bytes_of(nb::handle self) {
  const Buffer memory = nb::inst_ptr<PyMemory>(self)->memory().buffer();
  const bool on_device = memory.place.kind == MemoryKind::Device;
  return {memory.data,
          {memory.bytes},
          self,
          {},
          nb::dtype<std::uint8_t>(),
          on_device ? nb::device::cuda::value : nb::device::cpu::value,
          on_device ? memory.place.device : 0};
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

}  // namespace

PyMemory::PyMemory(std::shared_ptr<Session> session, Memory memory, bool of_communicator)
    : session_(std::move(session)), memory_(std::move(memory)), of_communicator_(of_communicator) {
  if (of_communicator_) session_->add_memory(memory_);
}

PyMemory::~PyMemory() {
  if (!of_communicator_) return;
  session_->remove_memory(memory_);
  if (!session_->is_open()) return;
  if (session_->may_free() && !session_->in_child()) {
    session_->outside([this] { memory_ = Memory(); });
  } else {
    session_->keep(std::move(memory_));
  }
}

void bind_memory(nb::module_& m) {
  nb::class_<PyMemory>(m, "Memory", nb::type_slots(slots),
                       R"(Registered memory, zeroed, which transports use without copies.

It shows its bytes by the buffer protocol and by DLPack: numpy.frombuffer(memoryview(memory), dtype) is an array of it.
The array keeps the memory.)")
      .def_prop_ro("nbytes", [](const PyMemory& self) { return self.memory().buffer().bytes; })
      .def_prop_ro(
          "known_as", [](const PyMemory& self) { return self.memory().known_as(); },
          "How the memory is registered, such as \"shared memory of shm\", or why it is not.")
      .def("__len__", [](const PyMemory& self) { return self.memory().buffer().bytes; })
      .def(
          "__buffer__", [](nb::handle self, int) { return nb::steal(PyMemoryView_FromObject(self.ptr())); },
          nb::arg("flags"), nb::sig("def __buffer__(self, flags: int, /) -> memoryview"))
      .def(
          "__dlpack__",
          [](nb::handle self, const nb::kwargs&) { return nb::cast(bytes_of(self), nb::rv_policy::reference); },
          nb::sig("def __dlpack__(self, **kwargs: typing.Any) -> typing.Any"))
      .def(
          "__dlpack_device__",
          [](const PyMemory& self) {
            const Place place = self.memory().buffer().place;
            const bool on_device = place.kind == MemoryKind::Device;
            return nb::make_tuple(on_device ? nb::device::cuda::value : nb::device::cpu::value,
                                  on_device ? place.device : 0);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

}  // namespace sinew::python


#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "communicator.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "python.hpp"
#include "signatures.hpp"

namespace sinew::python {
namespace {

/// One message of a group, as Python describes it.
struct PyMessage {
  bool sends;
  nb::object data;
  int peer;
  std::uint32_t tag;
};

template <class M>
typename M::Result send(const PyCommunicator& self, nb::handle data, int to, std::uint32_t tag, nb::handle timeout,
                        nb::handle label, nb::handle after) {
  return make_call<M>(self, "send", [&](Call& call) {
    const Buffer memory = call.use("data", data, false).memory();
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, after}, memory.place);
    return [&call, memory, to, tag, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().send(memory, to, tag, options);
    };
  });
}

template <class M>
typename M::Result recv(const PyCommunicator& self, nb::handle out, int from, std::uint32_t tag, nb::handle timeout,
                        nb::handle label, nb::handle after) {
  return make_call<M>(self, "recv", [&](Call& call) {
    const Buffer memory = call.use("out", out, true).memory();
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, after}, memory.place);
    return [&call, memory, from, tag, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().recv(memory, from, tag, options);
    };
  });
}

std::unique_ptr<PyWork> start_recv_any(const PyCommunicator& self, nb::handle out, std::uint32_t tag,
                                       nb::handle timeout, nb::handle label, nb::handle after) {
  return make_call<Later>(self, "recv_any", [&](Call& call) {
    const Buffer memory = call.use("out", out, true).memory();
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, after}, memory.place);
    return [&call, memory, tag, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().recv_any(memory, tag, options);
    };
  });
}

int recv_any(const PyCommunicator& self, nb::handle out, std::uint32_t tag, nb::handle timeout, nb::handle label,
             nb::handle after) {
  const auto work = start_recv_any(self, out, tag, timeout, label, after);
  work->wait(nb::none());
  return work->source();
}

template <class M>
typename M::Result sendrecv(const PyCommunicator& self, nb::handle data, int to, nb::handle out, int from,
                            std::uint32_t send_tag, std::uint32_t recv_tag, nb::handle timeout, nb::handle label,
                            nb::handle after) {
  return make_call<M>(self, "sendrecv", [&](Call& call) {
    const Buffer sent = call.use("data", data, false).memory();
    const Buffer received = call.use("out", out, true).memory();
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, after}, sent.place);
    return [&call, sent, to, received, from, send_tag, recv_tag, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().sendrecv(sent, to, received, from, send_tag, recv_tag, options);
    };
  });
}

template <class M>
typename M::Result group(const PyCommunicator& self, nb::handle messages, nb::handle timeout, nb::handle label,
                         nb::handle after) {
  return make_call<M>(self, "group", [&](Call& call) {
    std::vector<Message> list;
    if (!is_list(messages)) reject(call.name(), "messages is no list of Message");
    for (const nb::handle each : messages) {
      if (!nb::isinstance<PyMessage>(each))
        reject(call.name(),
               fmt::format("messages[{}] is no Message: make it by Message.send or Message.recv", list.size()));
      const auto& m = *nb::inst_ptr<PyMessage>(each);
      const std::string name = fmt::format("messages[{}].data", list.size());
      const Buffer memory = call.use_more(name.c_str(), m.data, !m.sends).memory();
      list.push_back({m.sends, memory, m.peer, m.tag});
    }
    const Place place = list.empty() ? Place{} : list.front().memory.place;
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, after}, place);
    return [&call, list = std::move(list), options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().group(list, options);
    };
  });
}

}  // namespace

void bind_messages(nb::module_& m, CommunicatorClass& c) {
  nb::class_<PyMessage>(m, "Message", "One send or receive for Communicator.group().")
      .def_static(
          "send",
          [](nb::object data, int to, std::uint32_t tag) {
            return PyMessage{true, std::move(data), to, tag};
          },
          nb::arg("data").none(), nb::arg("to"), nb::arg("tag") = 0,
          nb::sig("def send(data: Array, to: int, tag: int = 0) -> Message"))
      .def_static(
          "recv",
          [](nb::object out, int from, std::uint32_t tag) {
            return PyMessage{false, std::move(out), from, tag};
          },
          nb::arg("out").none(), nb::arg("from_"), nb::arg("tag") = 0,
          nb::sig("def recv(out: Array, from_: int, tag: int = 0) -> Message"));
  SINEW_BOTH(send, "data: Array, to: int, tag: int = 0, *, " SINEW_MESSAGE_OPTIONS,
             R"(Sends a message to a rank. It returns when the array may be reused.

Messages of a pair of ranks with the same tag are received in the order of the sends.)",
             nb::arg("data").none(), nb::arg("to"), nb::arg("tag") = 0, SINEW_MESSAGE_ARGUMENTS);
  SINEW_BOTH(recv, "out: Array, from_: int, tag: int = 0, *, " SINEW_MESSAGE_OPTIONS,
             "Receives a message from a rank. Raises Truncated if the message is longer than the array.",
             nb::arg("out").none(), nb::arg("from_"), nb::arg("tag") = 0, SINEW_MESSAGE_ARGUMENTS);
  c.def("recv_any", &recv_any, nb::arg("out").none(), nb::arg("tag") = 0, SINEW_MESSAGE_ARGUMENTS,
        nb::sig("def recv_any(self, out: Array, tag: int = 0, *, " SINEW_MESSAGE_OPTIONS ") -> int"),
        "Receives the next message with this tag from any rank. Returns that rank.");
  c.def("start_recv_any", &start_recv_any, nb::arg("out").none(), nb::arg("tag") = 0, SINEW_MESSAGE_ARGUMENTS,
        nb::sig("def start_recv_any(self, out: Array, tag: int = 0, *, " SINEW_MESSAGE_OPTIONS ") -> Work"),
        "Starts recv_any() and returns its Work. Work.source is the rank.");
  SINEW_BOTH(
      sendrecv,
      "data: Array, to: int, out: Array, from_: int, send_tag: int = 0, recv_tag: int = 0, *, " SINEW_MESSAGE_OPTIONS,
      "Sends a message and receives another one at the same time. It cannot deadlock, even if all ranks call it.",
      nb::arg("data").none(), nb::arg("to"), nb::arg("out").none(), nb::arg("from_"), nb::arg("send_tag") = 0,
      nb::arg("recv_tag") = 0, SINEW_MESSAGE_ARGUMENTS);
  SINEW_BOTH(group, "messages: collections.abc.Sequence[Message], *, " SINEW_MESSAGE_OPTIONS,
             "Starts several sends and receives together. It ends when all have ended.", nb::arg("messages"),
             SINEW_MESSAGE_ARGUMENTS);
}

}  // namespace sinew::python

#include <fmt/format.h>

#include "checks.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "python.hpp"
#include "signatures.hpp"

namespace sinew::python {
namespace {

template <class M>
typename M::Result all_reduce(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle op, double factor,
                              nb::handle timeout, nb::handle determinism, nb::handle codec, nb::handle label,
                              nb::handle after) {
  return make_call<M>(self, "all_reduce", [&](Call& call) {
    const bool in_place = out.is_none() || out.is(data);
    const Exported& in = call.use("data", data, in_place);
    const Element element = in.element();
    Buffer to = in.memory();
    if (!in_place) {
      const Exported& written = call.use("out", out, true);
      static_cast<void>(same_element(call.name(), in, written));
      to = written.memory();
    }
    Operator which = operator_of(call.name(), op, element);
    call.use(std::move(which.user));
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, to.place);
    options.pre_multiply = factor;
    return [&call, from = in.memory(), to, dtype = element.dtype, op = which.op, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().all_reduce(from, to, dtype, op, options);
    };
  });
}

/// The buffers of a list of arrays.
template <class B>
std::vector<B> buffers_of(const std::vector<Exported>& list) {
  std::vector<B> buffers;
  for (const Exported& each : list) buffers.emplace_back(each.memory());
  return buffers;
}

/// The common element of a list of arrays, and perhaps of one more.
Element element_of_list(const char* call, const std::vector<Exported>& list, const Exported* one) {
  if (one == nullptr && list.empty()) reject(call, "the list has no arrays, expected one per rank");
  const Exported& first = one != nullptr ? *one : list.front();
  for (const Exported& each : list) static_cast<void>(same_element(call, first, each));
  return first.element();
}

template <class M>
typename M::Result all_gather(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle timeout,
                              nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "all_gather", [&](Call& call) {
    const Exported& in = call.use("data", data, false);
    std::vector<Buffer> outs;
    Buffer to;
    Element element;
    const bool list = is_list(out);
    if (list) {
      const auto& arrays = call.use_list("out", out, true);
      element = element_of_list(call.name(), arrays, &in);
      outs = buffers_of<Buffer>(arrays);
    } else {
      const Exported& written = call.use("out", out, true);
      element = same_element(call.name(), in, written);
      to = written.memory();
    }
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    return [&call, from = in.memory(), to, list, outs = std::move(outs), dtype = element.dtype,
            options](bool waits) mutable {
      options.waits_at_once = waits;
      Communicator& c = call.members().communicator();
      return list ? c.all_gather(from, std::span<const Buffer>(outs), dtype, options)
                  : c.all_gather(from, to, dtype, options);
    };
  });
}

template <class M>
typename M::Result reduce_scatter(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle op,
                                  double factor, nb::handle timeout, nb::handle determinism, nb::handle codec,
                                  nb::handle label, nb::handle after) {
  return make_call<M>(self, "reduce_scatter", [&](Call& call) {
    const Exported& written = call.use("out", out, true);
    std::vector<ConstBuffer> ins;
    ConstBuffer from;
    Element element;
    const bool list = is_list(data);
    if (list) {
      const auto& arrays = call.use_list("data", data, false);
      element = element_of_list(call.name(), arrays, &written);
      ins = buffers_of<ConstBuffer>(arrays);
    } else {
      const Exported& in = call.use("data", data, false);
      element = same_element(call.name(), in, written);
      from = in.memory();
    }
    Operator which = operator_of(call.name(), op, element);
    call.use(std::move(which.user));
    const Buffer to = written.memory();
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, to.place);
    options.pre_multiply = factor;
    return [&call, from, to, list, ins = std::move(ins), dtype = element.dtype, op = which.op,
            options](bool waits) mutable {
      options.waits_at_once = waits;
      Communicator& c = call.members().communicator();
      return list ? c.reduce_scatter(std::span<const ConstBuffer>(ins), to, dtype, op, options)
                  : c.reduce_scatter(from, to, dtype, op, options);
    };
  });
}

template <class M>
typename M::Result all_to_all(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle timeout,
                              nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "all_to_all", [&](Call& call) {
    const bool list = is_list(data) || is_list(out);
    std::vector<ConstBuffer> ins;
    std::vector<Buffer> outs;
    ConstBuffer from;
    Buffer to;
    Element element;
    if (list) {
      if (!is_list(data) || !is_list(out)) reject(call.name(), "one of data and out is a list, expected both or none");
      const auto& sent = call.use_list("data", data, false);
      element = element_of_list(call.name(), sent, nullptr);
      ins = buffers_of<ConstBuffer>(sent);
      const auto& received = call.use_list("out", out, true);
      if (element_of_list(call.name(), received, nullptr) != element)
        reject(call.name(), "the lists have different dtypes, expected equal ones");
      outs = buffers_of<Buffer>(received);
    } else {
      const Exported& in = call.use("data", data, false);
      const Exported& written = call.use("out", out, true);
      element = same_element(call.name(), in, written);
      if (element.lanes != 1 && in.memory().bytes / size_of(element.dtype) / element.lanes %
                                        static_cast<std::size_t>(call.members().size()) !=
                                    0)
        reject(call.name(), "the number of elements is no multiple of the number of ranks");
      from = in.memory();
      to = written.memory();
    }
    const Place place = list ? Place{} : to.place;
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, place);
    return [&call, from, to, list, ins = std::move(ins), outs = std::move(outs), dtype = element.dtype,
            options](bool waits) mutable {
      options.waits_at_once = waits;
      Communicator& c = call.members().communicator();
      return list ? c.all_to_all(std::span<const ConstBuffer>(ins), std::span<const Buffer>(outs), dtype, options)
                  : c.all_to_all(from, to, dtype, options);
    };
  });
}

template <class M>
typename M::Result broadcast(const PyCommunicator& self, nb::handle data, int root, nb::handle timeout,
                             nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "broadcast", [&](Call& call) {
    require_root(call, root);
    const Exported& both = call.use("data", data, self.members()->rank() != root);
    const Element element = both.element();
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, both.memory().place);
    return [&call, memory = both.memory(), dtype = element.dtype, root, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().broadcast(memory, dtype, root, options);
    };
  });
}

template <class M>
typename M::Result reduce(const PyCommunicator& self, nb::handle data, nb::handle out, int root, nb::handle op,
                          double factor, nb::handle timeout, nb::handle determinism, nb::handle codec, nb::handle label,
                          nb::handle after) {
  return make_call<M>(self, "reduce", [&](Call& call) {
    require_root(call, root);
    const bool is_root = self.members()->rank() == root;
    const bool in_place = is_root && (out.is_none() || out.is(data));
    const Exported& in = call.use("data", data, in_place);
    const Element element = in.element();
    Buffer to = in_place ? in.memory() : Buffer{};
    if (is_root && !in_place) {
      const Exported& written = call.use("out", out, true);
      static_cast<void>(same_element(call.name(), in, written));
      to = written.memory();
    }
    Operator which = operator_of(call.name(), op, element);
    call.use(std::move(which.user));
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    options.pre_multiply = factor;
    return [&call, from = in.memory(), to, dtype = element.dtype, root, op = which.op, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().reduce(from, to, dtype, root, op, options);
    };
  });
}

template <class M>
typename M::Result gather(const PyCommunicator& self, nb::handle data, nb::handle out, int root, nb::handle timeout,
                          nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "gather", [&](Call& call) {
    require_root(call, root);
    const Exported& in = call.use("data", data, false);
    Element element = in.element();
    const bool is_root = self.members()->rank() == root;
    if (is_root && out.is_none()) reject(call.name(), "out is None at the root, expected an array or a list of arrays");
    const bool list = is_list(out);
    std::vector<Buffer> outs;
    Buffer to;
    if (is_root && list) {
      const auto& arrays = call.use_list("out", out, true);
      element = element_of_list(call.name(), arrays, &in);
      outs = buffers_of<Buffer>(arrays);
    } else if (is_root) {
      const Exported& written = call.use("out", out, true);
      element = same_element(call.name(), in, written);
      to = written.memory();
    }
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    return [&call, from = in.memory(), to, list, outs = std::move(outs), dtype = element.dtype, root,
            options](bool waits) mutable {
      options.waits_at_once = waits;
      Communicator& c = call.members().communicator();
      return list ? c.gather(from, std::span<const Buffer>(outs), dtype, root, options)
                  : c.gather(from, to, dtype, root, options);
    };
  });
}

template <class M>
typename M::Result scatter(const PyCommunicator& self, nb::handle data, nb::handle out, int root, nb::handle timeout,
                           nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "scatter", [&](Call& call) {
    require_root(call, root);
    const Exported& written = call.use("out", out, true);
    Element element = written.element();
    const bool is_root = self.members()->rank() == root;
    if (is_root && data.is_none())
      reject(call.name(), "data is None at the root, expected an array or a list of arrays");
    const bool list = is_list(data);
    std::vector<ConstBuffer> ins;
    ConstBuffer from;
    if (is_root && list) {
      const auto& arrays = call.use_list("data", data, false);
      element = element_of_list(call.name(), arrays, &written);
      ins = buffers_of<ConstBuffer>(arrays);
    } else if (is_root) {
      const Exported& in = call.use("data", data, false);
      element = same_element(call.name(), in, written);
      from = in.memory();
    }
    const Buffer to = written.memory();
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, to.place);
    return [&call, from, to, list, ins = std::move(ins), dtype = element.dtype, root, options](bool waits) mutable {
      options.waits_at_once = waits;
      Communicator& c = call.members().communicator();
      return list ? c.scatter(std::span<const ConstBuffer>(ins), to, dtype, root, options)
                  : c.scatter(from, to, dtype, root, options);
    };
  });
}

template <class M>
typename M::Result barrier(const PyCommunicator& self, nb::handle timeout, nb::handle label) {
  return make_call<M>(self, "barrier", [&](Call& call) {
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, nb::none()}, {});
    return [&call, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().barrier(options);
    };
  });
}

}  // namespace

void bind_collectives(CommunicatorClass& c) {
  SINEW_BOTH(all_reduce,
             "data: Array, out: Array | None = None, *, " SINEW_OPERATOR ", " SINEW_FACTOR ", " SINEW_OPTIONS,
             R"(Combines `data` of all ranks by `op` into `out` on every rank. Without `out`, into `data` itself.

`factor` is for the operator "premulsum".)",
             nb::arg("data").none(), nb::arg("out") = nb::none(), nb::kw_only(), nb::arg("op") = "sum",
             nb::arg("factor") = 1.0, SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(all_gather, "data: Array, out: Array | collections.abc.Sequence[Array], *, " SINEW_OPTIONS,
             R"(Puts `data` of all ranks, in the order of the ranks, into `out` on every rank.

`out` is one array with a block for each rank, or a list of one array for each rank.)",
             nb::arg("data").none(), nb::arg("out").none(), nb::kw_only(), SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(reduce_scatter,
             "data: Array | collections.abc.Sequence[Array], out: Array, *, " SINEW_OPERATOR ", " SINEW_FACTOR
             ", " SINEW_OPTIONS,
             R"(Combines `data` of all ranks by `op` and puts block r of the result into `out` of rank r.

`data` is one array with a block for each rank, or a list of one array for each rank.)",
             nb::arg("data").none(), nb::arg("out").none(), nb::kw_only(), nb::arg("op") = "sum",
             nb::arg("factor") = 1.0, SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(
      all_to_all,
      "data: Array | collections.abc.Sequence[Array], out: Array | collections.abc.Sequence[Array], *, " SINEW_OPTIONS,
      "Sends block j of `data` to rank j, and puts the block from rank i into block i of `out`. Both may be lists of "
      "one array for each rank.",
      nb::arg("data").none(), nb::arg("out").none(), nb::kw_only(), SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(broadcast, "data: Array, root: int = 0, *, " SINEW_OPTIONS,
             "Copies `data` of the root into `data` of all other ranks.", nb::arg("data").none(), nb::arg("root") = 0,
             nb::kw_only(), SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(reduce,
             "data: Array, out: Array | None = None, root: int = 0, *, " SINEW_OPERATOR ", " SINEW_FACTOR
             ", " SINEW_OPTIONS,
             "Combines `data` of all ranks by `op` into `out` of the root. Without `out`, into the root's `data`.",
             nb::arg("data").none(), nb::arg("out") = nb::none(), nb::arg("root") = 0, nb::kw_only(),
             nb::arg("op") = "sum", nb::arg("factor") = 1.0, SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(
      gather,
      "data: Array, out: Array | collections.abc.Sequence[Array] | None = None, root: int = 0, *, " SINEW_OPTIONS,
      "Puts `data` of all ranks, in the order of the ranks, into `out` of the root. Other ranks need no `out`.",
      nb::arg("data").none(), nb::arg("out") = nb::none(), nb::arg("root") = 0, nb::kw_only(), SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(scatter,
             "data: Array | collections.abc.Sequence[Array] | None, out: Array, root: int = 0, *, " SINEW_OPTIONS,
             "Puts block r of the root's `data` into `out` of rank r. Other ranks pass None as `data`.",
             nb::arg("data").none(), nb::arg("out").none(), nb::arg("root") = 0, nb::kw_only(), SINEW_OPTION_ARGUMENTS);
  c.def(
      "barrier", &barrier<Now>, nb::kw_only(), nb::arg("timeout") = nb::none(), nb::arg("label") = nb::none(),
      nb::sig(
          "def barrier(self, *, timeout: float | datetime.timedelta | None = None, label: str | None = None) -> None"),
      "Returns when all ranks have called it.");
  c.def(
      "start_barrier", &barrier<Later>, nb::kw_only(), nb::arg("timeout") = nb::none(), nb::arg("label") = nb::none(),
      nb::sig("def start_barrier(self, *, timeout: float | datetime.timedelta | None = None, label: str | None = None) "
              "-> Work"),
      "Starts barrier() and returns its Work.");
}

}  // namespace sinew::python

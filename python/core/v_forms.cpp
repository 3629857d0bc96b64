#include <utility>
#include <vector>

#include <fmt/format.h>

#include "checks.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "python.hpp"
#include "signatures.hpp"

namespace sinew::python {
namespace {

/// Counts and displacements in elements of sinew. They live until the call has been started.
struct OwnedParts {
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> displacements;

  Parts parts() const noexcept { return {counts, displacements}; }
};

OwnedParts parts_of(const char* call, const char* counts_name, nb::handle counts, const char* displacements_name,
                    nb::handle displacements, Element element) {
  return {whole_numbers({call, counts_name}, counts, element.lanes),
          whole_numbers({call, displacements_name}, displacements, element.lanes)};
}

template <class M>
typename M::Result all_gather_v(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle counts,
                                nb::handle displacements, nb::handle timeout, nb::handle determinism, nb::handle codec,
                                nb::handle label, nb::handle after) {
  return make_call<M>(self, "all_gather_v", [&](Call& call) {
    const Exported& in = call.use("data", data, false);
    const Exported& written = call.use("out", out, true);
    const Element element = same_element(call.name(), in, written);
    OwnedParts parts = parts_of(call.name(), "counts", counts, "displacements", displacements, element);
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    return [&call, from = in.memory(), to = written.memory(), dtype = element.dtype, parts = std::move(parts),
            options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().all_gather_v(from, to, dtype, parts.parts(), options);
    };
  });
}

template <class M>
typename M::Result reduce_scatter_v(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle counts,
                                    nb::handle displacements, nb::handle op, double factor, nb::handle timeout,
                                    nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "reduce_scatter_v", [&](Call& call) {
    const Exported& in = call.use("data", data, false);
    const Exported& written = call.use("out", out, true);
    const Element element = same_element(call.name(), in, written);
    OwnedParts parts = parts_of(call.name(), "counts", counts, "displacements", displacements, element);
    Operator which = operator_of(call.name(), op, element);
    call.use(std::move(which.user));
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    options.pre_multiply = factor;
    return [&call, from = in.memory(), to = written.memory(), dtype = element.dtype, parts = std::move(parts),
            op = which.op, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().reduce_scatter_v(from, to, dtype, parts.parts(), op, options);
    };
  });
}

template <class M>
typename M::Result all_to_all_v(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle in_counts,
                                nb::handle out_counts, nb::handle in_displacements, nb::handle out_displacements,
                                std::size_t largest_bytes, nb::handle timeout, nb::handle determinism, nb::handle codec,
                                nb::handle label, nb::handle after) {
  return make_call<M>(self, "all_to_all_v", [&](Call& call) {
    const Exported& in = call.use("data", data, false);
    const Exported& written = call.use("out", out, true);
    const Element element = same_element(call.name(), in, written);
    OwnedParts ins = parts_of(call.name(), "in_counts", in_counts, "in_displacements", in_displacements, element);
    OwnedParts outs = parts_of(call.name(), "out_counts", out_counts, "out_displacements", out_displacements, element);
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    options.largest_bytes = largest_bytes;
    return [&call, from = in.memory(), to = written.memory(), dtype = element.dtype, ins = std::move(ins),
            outs = std::move(outs), options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().all_to_all_v(from, to, dtype, ins.parts(), outs.parts(), options);
    };
  });
}

template <class M>
typename M::Result gather_v(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle counts, int root,
                            nb::handle displacements, std::size_t largest_bytes, nb::handle timeout,
                            nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "gather_v", [&](Call& call) {
    require_root(call, root);
    const Exported& in = call.use("data", data, false);
    Element element = in.element();
    Buffer to;
    OwnedParts parts;
    if (self.members()->rank() == root) {
      if (out.is_none() || counts.is_none()) reject(call.name(), "the root needs out and counts");
      const Exported& written = call.use("out", out, true);
      element = same_element(call.name(), in, written);
      to = written.memory();
      parts = parts_of(call.name(), "counts", counts, "displacements", displacements, element);
    }
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, in.memory().place);
    options.largest_bytes = largest_bytes;
    return [&call, from = in.memory(), to, dtype = element.dtype, root, parts = std::move(parts),
            options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().gather_v(from, to, dtype, root, parts.parts(), options);
    };
  });
}

template <class M>
typename M::Result scatter_v(const PyCommunicator& self, nb::handle data, nb::handle out, nb::handle counts, int root,
                             nb::handle displacements, std::size_t largest_bytes, nb::handle timeout,
                             nb::handle determinism, nb::handle codec, nb::handle label, nb::handle after) {
  return make_call<M>(self, "scatter_v", [&](Call& call) {
    require_root(call, root);
    const Exported& written = call.use("out", out, true);
    Element element = written.element();
    Buffer from;
    OwnedParts parts;
    if (self.members()->rank() == root) {
      if (data.is_none() || counts.is_none()) reject(call.name(), "the root needs data and counts");
      const Exported& in = call.use("data", data, false);
      element = same_element(call.name(), in, written);
      from = in.memory();
      parts = parts_of(call.name(), "counts", counts, "displacements", displacements, element);
    }
    const Buffer to = written.memory();
    CallOptions options = options_of(call, {timeout, determinism, codec, label, after}, to.place);
    options.largest_bytes = largest_bytes;
    return [&call, from, to, dtype = element.dtype, root, parts = std::move(parts), options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().scatter_v(from, to, dtype, root, parts.parts(), options);
    };
  });
}

}  // namespace

#define SINEW_COUNTS "collections.abc.Sequence[int]"

void bind_v_forms(CommunicatorClass& c) {
  SINEW_BOTH(all_gather_v,
             "data: Array, out: Array, counts: " SINEW_COUNTS ", displacements: " SINEW_COUNTS
             " | None = None, *, " SINEW_OPTIONS,
             "all_gather() of parts that differ in length. `counts` has the elements of each rank, equal on all ranks.",
             nb::arg("data").none(), nb::arg("out").none(), nb::arg("counts"), nb::arg("displacements") = nb::none(),
             nb::kw_only(), SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(
      reduce_scatter_v,
      "data: Array, out: Array, counts: " SINEW_COUNTS ", displacements: " SINEW_COUNTS
      " | None = None, *, " SINEW_OPERATOR ", " SINEW_FACTOR ", " SINEW_OPTIONS,
      "reduce_scatter() into parts that differ in length. `counts` has the elements of each rank, equal on all ranks.",
      nb::arg("data").none(), nb::arg("out").none(), nb::arg("counts"), nb::arg("displacements") = nb::none(),
      nb::kw_only(), nb::arg("op") = "sum", nb::arg("factor") = 1.0, SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(all_to_all_v,
             "data: Array, out: Array, in_counts: " SINEW_COUNTS ", out_counts: " SINEW_COUNTS
             ", in_displacements: " SINEW_COUNTS " | None = None, out_displacements: " SINEW_COUNTS
             " | None = None, *, largest_bytes: int = 0, " SINEW_OPTIONS,
             R"(Sends part j of `data` to rank j, and puts the part from rank i into part i of `out`.

The counts are this rank's own: the elements that it sends to each rank, and those that it expects from each.)",
             nb::arg("data").none(), nb::arg("out").none(), nb::arg("in_counts"), nb::arg("out_counts"),
             nb::arg("in_displacements") = nb::none(), nb::arg("out_displacements") = nb::none(), nb::kw_only(),
             nb::arg("largest_bytes") = 0, SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(gather_v,
             "data: Array, out: Array | None = None, counts: " SINEW_COUNTS
             " | None = None, root: int = 0, displacements: " SINEW_COUNTS
             " | None = None, *, largest_bytes: int = 0, " SINEW_OPTIONS,
             "gather() of parts that differ in length. Only the root passes `out` and `counts`.",
             nb::arg("data").none(), nb::arg("out") = nb::none(), nb::arg("counts") = nb::none(), nb::arg("root") = 0,
             nb::arg("displacements") = nb::none(), nb::kw_only(), nb::arg("largest_bytes") = 0,
             SINEW_OPTION_ARGUMENTS);
  SINEW_BOTH(scatter_v,
             "data: Array | None, out: Array, counts: " SINEW_COUNTS
             " | None = None, root: int = 0, displacements: " SINEW_COUNTS
             " | None = None, *, largest_bytes: int = 0, " SINEW_OPTIONS,
             "scatter() of parts that differ in length. Only the root passes `data` and `counts`.",
             nb::arg("data").none(), nb::arg("out").none(), nb::arg("counts") = nb::none(), nb::arg("root") = 0,
             nb::arg("displacements") = nb::none(), nb::kw_only(), nb::arg("largest_bytes") = 0,
             SINEW_OPTION_ARGUMENTS);
}

}  // namespace sinew::python


#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/call/cost_model.hpp>
#include <sinew/core/call/determinism.hpp>

#include "checks.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "python.hpp"
#include "signatures.hpp"

namespace sinew::python {
namespace {

/// The class Plan of Python.
class PyPlan {
 public:
  PyPlan(std::shared_ptr<Members> members, Plan plan, Element element, std::shared_ptr<UserReduction> reduction)
      : communicator_(std::move(members)),
        plan_(std::move(plan)),
        element_(element),
        reduction_(std::move(reduction)) {}

  const PyCommunicator& communicator() const noexcept { return communicator_; }
  const Plan& plan() const noexcept { return plan_; }
  Element element() const noexcept { return element_; }
  const std::shared_ptr<UserReduction>& reduction() const noexcept { return reduction_; }

 private:
  PyCommunicator communicator_;
  Plan plan_;
  Element element_;
  std::shared_ptr<UserReduction> reduction_;
};

PyPlan plan(const PyCommunicator& self, nb::handle collective, std::uint64_t count, nb::handle dtype, nb::handle op,
            int root, nb::handle counts, nb::handle displacements, std::size_t largest_bytes, double factor,
            nb::handle determinism, nb::handle codec, int device) {
  constexpr const char* kCall = "plan";
  const std::string_view name = text_of(kCall, "collective", collective);
  const auto which = collective_from_name(name);
  if (!which) reject(kCall, fmt::format("collective is '{}', expected a name such as all_reduce", name));
  const Element element = element_of_dtype(kCall, dtype);
  if (count > PTRDIFF_MAX / 16) reject(kCall, fmt::format("count is {}, more than an address space has", count));
  Operator how = operator_of(kCall, op, element);
  const auto all = whole_numbers({kCall, "counts"}, counts, element.lanes);
  const auto firsts = whole_numbers({kCall, "displacements"}, displacements, element.lanes);
  CollectiveDesc desc{.collective = *which,
                      .dtype = element.dtype,
                      .op = how.op,
                      .place = device < 0 ? Place{} : Place{MemoryKind::Device, device},
                      .root = root,
                      .count = count * element.lanes,
                      .counts = all,
                      .displacements = firsts,
                      .largest_bytes = largest_bytes,
                      .pre_multiply = factor,
                      .user = how.user ? &how.user->reducer() : nullptr};
  if (!determinism.is_none()) {
    const auto level = determinism_from_name(text_of(kCall, "determinism", determinism));
    if (!level) reject(kCall, "determinism: expected fast, reproducible or layout_invariant");
    desc.determinism = *level;
  }
  if (!codec.is_none()) {
    const auto coded = codec_from_name(text_of(kCall, "codec", codec));
    if (!coded) reject(kCall, "codec: expected none, bf16, f16, int8 or f8e4m3");
    desc.codec = *coded;
  }
  const Turn turn = self.members()->enter(kCall);
  Plan made = self.members()->session().outside([&] { return self.members()->communicator().plan(desc); });
  return {self.members(), std::move(made), element, std::move(how.user)};
}

template <class M>
typename M::Result run(const PyPlan& self, nb::handle data, nb::handle out, nb::handle timeout, nb::handle label,
                       nb::handle after) {
  return make_call<M>(self.communicator(), "Plan.run", [&](Call& call) {
    const CollectiveDesc& desc = self.plan().call();
    const bool in_place = out.is_none() || out.is(data);
    Buffer from;
    Buffer to;
    const auto require_element = [&](const Exported& array, const char* name) {
      const Element element = array.element();
      if (element != self.element())
        reject("Plan.run", fmt::format("{} has dtype {}, and the plan is for {}", name, numpy_name(element.dtype),
                                       numpy_name(self.element().dtype)));
    };
    if (!data.is_none()) {
      const Exported& in = call.use("data", data, in_place);
      require_element(in, "data");
      from = in.memory();
      if (in_place) to = from;
    }
    if (!in_place) {
      const Exported& written = call.use("out", out, true);
      require_element(written, "out");
      to = written.memory();
    }
    if (has_root(desc.collective) && desc.root != call.members().rank() && in_place && is_to_root(desc.collective))
      to = {};
    call.use(self.reduction());
    CallOptions options = options_of(call, {timeout, nb::none(), nb::none(), label, after}, to.place);
    return [&call, &plan = self.plan(), from, to, options](bool waits) mutable {
      options.waits_at_once = waits;
      return call.members().communicator().run(plan, from, to, options);
    };
  });
}

}  // namespace

void bind_plans(nb::module_& m, CommunicatorClass& c) {
  nb::class_<Candidate>(m, "Candidate", "A candidate for a call: an algorithm on a transport, or an offload.")
      .def_ro("algorithm", &Candidate::algorithm)
      .def_ro("transport", &Candidate::transport)
      .def_ro("method", &Candidate::method)
      .def_ro("predicted", &Candidate::predicted, "Seconds.")
      .def_ro("rejected", &Candidate::rejected, "The reason why it cannot run the call. Empty: it can.")
      .def_prop_ro("source", [](const Candidate& self) { return std::string(name_of(self.source)); });
  nb::class_<PyPlan>(m, "Plan", "The selector's choice for a call, with all candidates.")
      .def_prop_ro("chosen", [](const PyPlan& self) { return self.plan().chosen(); })
      .def_prop_ro("candidates", [](const PyPlan& self) { return self.plan().candidates(); })
      .def_prop_ro("ranks", [](const PyPlan& self) { return self.plan().ranks(); })
      .def(
          "explain", [](const PyPlan& self) { return self.plan().explain(); },
          "All candidates as text, with the source of the numbers.")
      .def("to_json", [](const PyPlan& self) { return self.plan().to_json(); })
      .def("__repr__",
           [](const PyPlan& self) {
             const std::string text = self.plan().explain();
             const Candidate& chosen = self.plan().chosen();
             return fmt::format("<sinew.Plan: {}, by {} over {}>", text.substr(0, text.find('\n')), chosen.algorithm,
                                chosen.transport);
           })
      .def("run", &run<Now>, nb::arg("data") = nb::none(), nb::arg("out") = nb::none(), nb::kw_only(),
           nb::arg("timeout") = nb::none(), nb::arg("label") = nb::none(), nb::arg("after") = nb::none(),
           nb::sig("def run(self, data: Array | None = None, out: Array | None = None, *, " SINEW_MESSAGE_OPTIONS
                   ") -> None"),
           "Makes the call that is planned. Without `out` it works in `data`.")
      .def("start", &run<Later>, nb::arg("data") = nb::none(), nb::arg("out") = nb::none(), nb::kw_only(),
           nb::arg("timeout") = nb::none(), nb::arg("label") = nb::none(), nb::arg("after") = nb::none(),
           nb::sig("def start(self, data: Array | None = None, out: Array | None = None, *, " SINEW_MESSAGE_OPTIONS
                   ") -> Work"),
           "Starts run() and returns its Work.");
  c.def(
      "plan", &plan, nb::arg("collective"), nb::arg("count") = 0, nb::arg("dtype") = "float32", nb::kw_only(),
      nb::arg("op") = "sum", nb::arg("root") = 0, nb::arg("counts") = nb::none(), nb::arg("displacements") = nb::none(),
      nb::arg("largest_bytes") = 0, nb::arg("factor") = 1.0, nb::arg("determinism") = nb::none(),
      nb::arg("codec") = nb::none(), nb::arg("device") = -1,
      nb::sig(
          "def plan(self, collective: str, count: int = 0, dtype: DType = 'float32', *, op: Op = 'sum', root: int = 0, "
          "counts: collections.abc.Sequence[int] | None = None, displacements: collections.abc.Sequence[int] | None "
          "= None, largest_bytes: int = 0, factor: float = 1.0, determinism: Determinism | None = None, codec: Codec "
          "| None = None, device: int = -1) -> Plan"),
      R"(Plans a call without running it. No messages are exchanged, and the plan is equal on all ranks.

`count` is in elements: those of the array for all_reduce, broadcast and reduce, those that each rank gives for
all_gather and gather, those that each rank receives for reduce_scatter and scatter, those for each peer for
all_to_all. `dtype` is a name such as "float32", or a dtype of NumPy, ml_dtypes or PyTorch.)");
}

}  // namespace sinew::python

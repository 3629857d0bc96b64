#include <fmt/format.h>

#include <sinew/core/base/table.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/placement/buffer_checks.hpp>
#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/redistribution/consent.hpp>
#include <sinew/parallel/placement/redistribution/redistribute.hpp>
#include <sinew/parallel/placement/redistribution/route.hpp>
#include <sinew/parallel/placement/redistribution/run_steps.hpp>
#include <sinew/parallel/placement/validity.hpp>

namespace sinew::parallel {
namespace {

std::string what_moves(const TensorSpec& from, const Placements& to) {
  return fmt::format("{}: {} -> {}", from.to_string(), from.placements.to_string(), to.to_string());
}

TensorSpec placed(const TensorSpec& spec, const Placements& placements) {
  TensorSpec other = spec;
  other.placements = placements;
  return other;
}

/// The axes that a way may lead along.
std::vector<std::string> axes_between(const TensorSpec& from, const TensorSpec& to, const Factorisation& mesh) {
  std::vector<std::string> axes;
  for (Choices& choices : choices_between(normal_form(from, mesh), normal_form(to, mesh)))
    axes.push_back(std::move(choices.axis));
  return axes;
}

/// Says why the tensor cannot be moved between these placements. The text is the same on all ranks. Empty: it can.
std::string fault_of_ends(const TensorSpec& from, const TensorSpec& to, Mesh& mesh) {
  for (const TensorSpec* end : {&from, &to}) {
    if (std::string fault = fault_of(*end, mesh.shape()); !fault.empty()) return fault;
  }
  try {
    for (const std::string& axis : axes_between(from, to, mesh.shape())) static_cast<void>(mesh.along(axis));
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

std::string fault_of_buffers(const TensorSpec& from, ConstBuffer in, const TensorSpec& to, ConstBuffer out,
                             const Mesh& mesh) {
  for (const ConstBuffer& buffer : {in, out}) {
    if (buffer.place.kind == MemoryKind::Device)
      return fmt::format("a buffer lies on device {}; expected memory of the host", buffer.place.device);
  }
  std::string fault = fault_of_buffer(from, in, "`from`", mesh.shape(), mesh.rank());
  if (fault.empty()) fault = fault_of_buffer(to, out, "`to`", mesh.shape(), mesh.rank());
  if (fault.empty() && overlap(in, out)) fault = "the buffers of `from` and `to` overlap; expected them apart";
  return fault;
}

std::string refusal(const TensorSpec& spec, const std::string& fault) {
  return fault.empty() ? fault : fmt::format("redistribute of {}: {}", spec.to_string(), fault);
}

/// Of ranks that have consented. The slowest group of an axis decides, but where the way leads along one axis alone its
/// groups may choose differently.
Redistribution search(const TensorSpec& from, const Placements& to, Mesh& mesh, const CallOptions& options) {
  const Roads roads = roads_between(from, to, mesh.shape());
  std::vector<Seconds> answers;
  for (const Question& question : roads.questions) {
    CollectiveDesc desc = question.desc();
    desc.determinism = options.determinism;
    answers.push_back(mesh.along(question.axis).plan(desc).chosen().predicted);
  }
  const std::vector<std::string> axes = axes_between(from, placed(from, to), mesh.shape());
  if (axes.size() > 1) take_largest(std::span(answers), axes, mesh, options);
  return {from, to, cheapest_way(roads, answers)};
}

}  // namespace

Seconds Redistribution::predicted() const noexcept {
  Seconds sum = 0;
  for (const Transition& step : steps) sum += step.predicted;
  return sum;
}

std::string Redistribution::explain() const {
  Table table({{}, {}, {.align = Align::Right}}, "  ");
  for (const Transition& step : steps) {
    const std::string change =
        fmt::format("{}: {} -> {}", step.axis, parallel::to_string(step.from), parallel::to_string(step.to));
    const bool sends = step.collective != Collective::Barrier;
    table.add({change, sends ? std::string(name_of(step.collective)) : "a copy",
               fmt::format("{:.2f} us", step.predicted * 1e6)});
  }
  table.add({"sum", "", fmt::format("{:.2f} us", predicted() * 1e6)});
  return what_moves(from, to) + "\n" + table.text();
}

Redistribution plan_redistribution(const TensorSpec& from, const Placements& to, Mesh& mesh,
                                   const CallOptions& options) {
  const std::string fault = refusal(from, fault_of_ends(from, placed(from, to), mesh));
  require_consent(what_moves(from, to), fault, mesh, options);
  return search(from, to, mesh, options);
}

void redistribute(const Redistribution& plan, ConstBuffer from, Buffer to, Mesh& mesh, const CallOptions& options) {
  const std::string fault = fault_of_buffers(plan.from, from, placed(plan.from, plan.to), to, mesh);
  if (!fault.empty()) throw Error(Code::InvalidArgument, refusal(plan.from, fault));
  run_steps(plan, from, to, mesh,
            {.deadline = options.deadline,
             .determinism = options.determinism,
             .label = options.label,
             .where = options.where});
}

void redistribute(const Tensor& from, const Tensor& to, Mesh& mesh, const CallOptions& options) {
  std::string fault;
  if (from.name != to.name || from.dtype != to.dtype || from.shape != to.shape)
    fault = fmt::format("`to` is {}; expected the same name, dtype and shape", to.to_string());
  if (fault.empty()) fault = fault_of_ends(from, to, mesh);
  if (fault.empty()) fault = fault_of_buffers(from, from.buffer, to, to.buffer, mesh);
  require_consent(what_moves(from, to.placements), refusal(from, fault), mesh, options);
  redistribute(search(from, to.placements, mesh, options), from.buffer, to.buffer, mesh, options);
}

}  // namespace sinew::parallel
